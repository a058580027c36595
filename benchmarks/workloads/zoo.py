"""The models that benchmarks measure: built by PyTorch, exported to ONNX, kept outside the tree.

PyTorch is needed to export only (`pip install .[bench]`); an exported model is kept in
$IRC_BENCH_CACHE, or in irc-benchmarks in the temporary folder, by its name and this file's digest.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Entry:
    """A model: how it is built, its inputs by name, names of symbolic axes by input, how it is
    quantised to 8 bits once it is exported (a key of quantized.FORMS; "": not at all), and whether
    PyTorch's older exporter writes it."""

    name: str
    family: str
    build: Callable[[], Any]
    inputs: Callable[[np.random.Generator], Inputs]
    outputs: tuple[str, ...] = ()
    symbols: tuple[tuple[str, int, str], ...] = ()
    quantized: str = ""
    legacy: bool = False


def noise(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Inputs]:
    """Inputs of normal noise in float32, by name and shape."""

    def make(rng: np.random.Generator) -> Inputs:
        return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}

    return make


def _tokens(length: int, words: int) -> Callable[[np.random.Generator], Inputs]:
    def make(rng: np.random.Generator) -> Inputs:
        shape = (1, length)
        ids = rng.integers(0, words, shape)
        return {"ids": ids, "mask": np.ones(shape, np.int64), "types": np.zeros(shape, np.int64)}

    return make


def _cached(past: int, layers: int = 12, length: int = 1) -> Callable[..., Inputs]:
    def make(rng: np.random.Generator) -> Inputs:
        found: Inputs = {"ids": rng.integers(0, 50257, (1, length))}
        for i in range(layers):
            for what in ("key", "value"):
                kept = rng.standard_normal((1, 12, past, 64)).astype(np.float32)
                found[f"{what}{i}"] = kept
        return found

    return make


def _mlp(*sizes: int) -> Callable[[], Any]:
    def build() -> Any:
        from torch import nn

        layers: list[nn.Module] = []
        for a, b in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    return build


def _transformer(kind: str, *args: int) -> Callable[[], Any]:
    def build() -> Any:
        from . import transformers

        return getattr(transformers, kind)(*args)

    return build


def _resnet(block: str, *counts: int) -> Callable[[], Any]:
    def build() -> Any:
        from . import convnets

        return convnets.resnet(getattr(convnets, block), counts)

    return build


def _mobilenet() -> Any:
    from . import convnets

    return convnets.mobilenet()


def _lstm() -> Any:
    from torch import nn

    return nn.LSTM(64, 128, 2, batch_first=True, bidirectional=True)


_BERT = ("hidden", "pooled")
_IMAGE = noise(image=(1, 3, 224, 224))
_PAST = tuple((f"{w}{i}", 2, "past") for i in range(12) for w in ("key", "value"))
_KEPT = tuple(f"new_{w}{i}" for i in range(12) for w in ("key", "value"))
_LENGTHS = tuple((n, 1, "length") for n in ("ids", "mask", "types"))

ZOO: dict[str, Entry] = {
    e.name: e
    for e in (
        Entry("mlp-small", "mlp", _mlp(32, 64, 64, 1), noise(x=(1, 32))),
        Entry("mlp-digits", "mlp", _mlp(784, 512, 256, 10), noise(x=(64, 784))),
        Entry("mlp-wide", "mlp", _mlp(1024, 4096, 4096, 1000), noise(x=(16, 1024))),
        Entry(
            "bert-base",
            "transformer",
            _transformer("Encoder", 768, 12, 12),
            _tokens(128, 30522),
            _BERT,
        ),
        Entry(
            "minilm", "transformer", _transformer("Encoder", 384, 12, 6), _tokens(32, 30522), _BERT
        ),
        Entry(
            "minilm-dynamic",
            "transformer",
            _transformer("Encoder", 384, 12, 6),
            _tokens(32, 30522),
            _BERT,
            _LENGTHS,
        ),
        Entry(
            "gpt2",
            "transformer",
            _transformer("Decoder"),
            lambda rng: {"ids": rng.integers(0, 50257, (1, 64))},
        ),
        Entry(
            "gpt2-cache",
            "transformer",
            _transformer("Decoder"),
            _cached(63),
            ("logits", *_KEPT),
            _PAST,
        ),
        Entry("vit-tiny", "transformer", _transformer("Vision"), _IMAGE),
        Entry("resnet-18", "convolution", _resnet("Basic", 2, 2, 2, 2), _IMAGE),
        Entry("resnet-50", "convolution", _resnet("Bottleneck", 3, 4, 6, 3), _IMAGE),
        Entry("mobilenet-v2", "convolution", _mobilenet, _IMAGE),
        Entry("resnet-18-int8", "quantized", _resnet("Basic", 2, 2, 2, 2), _IMAGE, quantized="u8"),
        Entry("lstm", "recurrent", _lstm, noise(x=(1, 32, 64)), ("y", "h", "c")),
    )
}


def cache_folder() -> Path:
    given = os.environ.get("IRC_BENCH_CACHE")
    return Path(given) if given else Path(tempfile.gettempdir()) / "irc-benchmarks"


def model_path(entry: Entry) -> Path:
    """The model's ONNX file, exported if it is not there yet. SystemExit without PyTorch."""
    here = Path(__file__).parent
    files = [here / f for f in ("zoo.py", "transformers.py", "convnets.py", "quantized.py")]
    files += sorted((here / "neighbours").glob("*.py"))
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]
    path = cache_folder() / f"{entry.name}{'-legacy' * entry.legacy}-{digest}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        export(entry, path)
    return path


def export(entry: Entry, path: Path) -> None:
    """Write the model by PyTorch's exporter, whole or not at all."""
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"exporting {entry.name} needs PyTorch: pip install .[bench]") from error
    torch.manual_seed(0)
    module = entry.build().eval()
    inputs = entry.inputs(np.random.default_rng(0))
    shapes: Any = None
    if entry.symbols:
        made: dict[str, dict[int, Any]] = {n: {} for n in inputs}
        for name, axis, symbol in entry.symbols:
            made[name][axis] = torch.export.Dim(symbol, min=1, max=512)
        listed = [made[n] for n in inputs]
        # A module that takes *past gets one tuple for it.
        shapes = (listed[0], tuple(listed[1:])) if entry.name == "gpt2-cache" else tuple(listed)
    named: dict[str, dict[int, str]] = {}
    for name, axis, symbol in entry.symbols:
        named.setdefault(name, {})[axis] = symbol
    how: dict[str, Any] = {"dynamic_axes": named} if entry.legacy else {"dynamic_shapes": shapes}
    partial = path.with_suffix(".partial")
    torch.onnx.export(
        module,
        tuple(torch.from_numpy(a) for a in inputs.values()),
        str(partial),
        input_names=list(inputs),
        output_names=list(entry.outputs) or None,
        dynamo=not entry.legacy,
        external_data=False,
        verbose=False,
        **how,
    )
    if entry.quantized:
        from .quantized import quantize

        whole = path.with_suffix(".float")
        partial.rename(whole)
        calibration = [entry.inputs(np.random.default_rng(i)) for i in range(3)]
        quantize(whole, partial, calibration, entry.quantized)
        whole.unlink()
    partial.rename(path)
