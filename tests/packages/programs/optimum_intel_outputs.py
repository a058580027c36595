"""Outputs and generated tokens of small random models by optimum-intel, which exports them."""

from optimum.intel import (
    OVModelForCausalLM,
    OVModelForFeatureExtraction,
    OVModelForImageClassification,
    OVModelForSeq2SeqLM,
    OVModelForSequenceClassification,
)
from small_transformers import load_model, run_models

KINDS = {
    "features": OVModelForFeatureExtraction,
    "text": OVModelForSequenceClassification,
    "picture": OVModelForImageClassification,
    "decoder": OVModelForCausalLM,
    "translation": OVModelForSeq2SeqLM,
}
# optimum-intel 1.27 fails to export an encoder and a decoder whose cache is a state.
OPTIONS = {"translation": {"stateful": False}}
models = {k: load_model(k, c, "openvino", **OPTIONS.get(k, {})) for k, c in KINDS.items()}


def answer():
    return run_models(models)
