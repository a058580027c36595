"""Classical machine learning (ai.onnx.ml): trees, SVM, encoders."""
