"""Builders of test models. oracles.py and openvino_ir.py run them in other engines."""
