"""Outputs and generated tokens of small random models by optimum-onnx, which exports them.

Each model runs with IOBinding and without it.
"""

from optimum.onnxruntime import (
    ORTModelForCausalLM,
    ORTModelForFeatureExtraction,
    ORTModelForImageClassification,
    ORTModelForSeq2SeqLM,
    ORTModelForSequenceClassification,
)
from small_transformers import load_model, run_models

KINDS = {
    "features": ORTModelForFeatureExtraction,
    "text": ORTModelForSequenceClassification,
    "picture": ORTModelForImageClassification,
    "decoder": ORTModelForCausalLM,
    "translation": ORTModelForSeq2SeqLM,
}
models = {kind: load_model(kind, class_, "onnx") for kind, class_ in KINDS.items()}


def answer():
    found = []
    for binds in (False, True):
        for model in models.values():
            model.use_io_binding = binds
        found.append(run_models(models))
    return found
