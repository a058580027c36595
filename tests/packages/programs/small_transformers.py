"""Models of transformers with random weights in folders, and inputs for each kind."""

import os
import tempfile
from pathlib import Path

import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

WIDTH = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZES = WIDTH | {"intermediate_size": 256}
CLASSES = {
    "features": (BertModel, BertConfig(vocab_size=500, **SIZES)),
    "text": (
        DistilBertForSequenceClassification,
        DistilBertConfig(
            vocab_size=500, dim=128, n_layers=3, n_heads=4, hidden_dim=256, num_labels=5
        ),
    ),
    "picture": (
        ViTForImageClassification,
        ViTConfig(image_size=96, patch_size=16, num_labels=7, **SIZES),
    ),
    "decoder": (
        LlamaForCausalLM,
        LlamaConfig(vocab_size=500, num_key_value_heads=2, eos_token_id=None, **SIZES),
    ),
    "translation": (
        T5ForConditionalGeneration,
        T5Config(
            vocab_size=500,
            d_model=128,
            d_kv=32,
            d_ff=256,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            eos_token_id=None,
        ),
    ),
}


FOLDER = Path(os.environ.get("PACKAGE_MODELS") or tempfile.mkdtemp())


def load_model(kind, kind_class, suffix, **options):
    """The exported model of this kind, by a class of optimum. The first process exports it."""
    folder = FOLDER / f"{kind}-{suffix}"
    if not folder.exists():
        made = kind_class.from_pretrained(_write_model(kind), export=True, **options)
        made.save_pretrained(folder)
    return kind_class.from_pretrained(folder)


def _write_model(kind):
    class_, config = CLASSES[kind]
    torch.manual_seed(11)
    folder = FOLDER / kind
    model = class_(config).eval()
    with torch.no_grad():
        # Weights of unit gain: the initial ones make outputs that hardly depend on the input.
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(2 if kind == "translation" else 4)
    model.save_pretrained(folder)
    return folder


def tokens(rows, length):
    """Token numbers and a mask, whose last row is shorter."""
    generator = torch.Generator().manual_seed(5)
    numbers = torch.randint(3, 500, (rows, length), generator=generator)
    mask = torch.ones_like(numbers)
    mask[-1, : length // 3] = 0
    return {"input_ids": numbers, "attention_mask": mask}


def picture():
    """Two pictures of noise."""
    generator = torch.Generator().manual_seed(5)
    return {"pixel_values": torch.randn(2, 3, 96, 96, generator=generator)}


def run_models(models):
    """The outputs of each model, and the tokens that it generates."""
    found = {}
    with torch.inference_mode():
        for kind, model in models.items():
            feed = picture() if kind == "picture" else tokens(3, 24)
            if kind in ("decoder", "translation"):
                for options in ({"num_beams": 1}, {"num_beams": 3}):
                    made = model.generate(
                        **feed, **options, do_sample=False, max_new_tokens=12, pad_token_id=0
                    )
                    found[f"{kind}, {options['num_beams']}"] = made.tolist()
                    continue
                if kind == "translation":
                    feed["decoder_input_ids"] = feed["input_ids"][:, :4]
            made = model(**feed)
            made = made.last_hidden_state if kind == "features" else made.logits
            found[kind] = made[..., ::5].double().tolist()
    return found
