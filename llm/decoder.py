"""A compiled decoder, and requests that keep the keys and values of the tokens they have read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from ..api.infer_request import ATTENTION_BLOCK_KEYS
from ..ir.errors import InputError, ModelFormatError
from .language_model import HIDDEN, POSITIONS, KVCache

if TYPE_CHECKING:
    from ..api.compiled_model import CompiledModel
    from ..api.infer_request import InferRequest
    from ..api.model_cache import ModelEntry
    from ..compiler.model import Model

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
_INPUTS: Final = ("input_ids", "attention_mask", "position_ids", "beam_idx")
_NEEDED: Final = ("input_ids", "attention_mask")
# Tokens that a cache with a window can forget at any time: wrong guesses of one run.
MAX_TRIMMED: Final = 64


def compile_decoder(
    model: Model,
    *,
    read_again: Callable[[], Model] | None = None,
    num_threads: int | None = None,
    max_memory: int | None = None,
    kv_cache: KVCache = "f32",
    activations: str = "f32",
    precision: str = "f32",
    entry: ModelEntry | None = None,
) -> CompiledModel:
    """Compile a stateful decoder.

    read_again: how to read the model once more; where it is given, the model is consumed, and its
    weights are held once, as kernels read them. kv_cache: the form of keys and values
    (cache_storage.py). entry: where the plan is stored, of a model that can be read again.
    """
    from ..api import compile_model
    from ..api.compiled_model import compile_with_options
    from ..compiler.model import Model as CutModel
    from ..compiler.model import Origin
    from ..compiler.options import Options
    from .cache_storage import require_cache_reads

    cut = prepare_decoder(model, kv_cache)
    _check_inputs({p.name for p in cut.inputs})
    if read_again is None:
        net = compile_model(
            cut,
            num_threads=num_threads,
            max_memory=max_memory,
            activations=cast(Any, activations),
            precision=cast(Any, precision),
        )
    else:
        model.graph.clear()
        origin = Origin(lambda: prepare_decoder(read_again(), kv_cache), ())
        held = [CutModel(cut.graph, origin)]
        del cut
        options = Options(activations=activations, precision=precision)
        net = compile_with_options(
            held.pop,
            options,
            num_threads,
            max_memory=max_memory,
            find_entry=lambda config: entry,
        )
    require_cache_reads(net, kv_cache)
    return net


def prepare_decoder(model: Model, kv_cache: KVCache) -> Model:
    """A decoder as it is compiled: the logits of chosen positions only, its cache in the form
    `kv_cache`."""
    from .cache_storage import store_cache
    from .cut_logits import cut_logits

    return store_cache(cut_logits(model), kv_cache)


def _check_inputs(names: set[str]) -> None:
    if names - {*_INPUTS, POSITIONS} or not names >= {*_NEEDED}:
        raise ModelFormatError(
            "the model has not the inputs of a decoder",
            got=", ".join(sorted(names))[:200],
            expected=", ".join(_INPUTS),
        )


class Decoder:
    """A compiled decoder (`compile_decoder`). Requests of one decoder run side by side.

    chunk: positions that one run reads at most; a longer prompt takes several runs. window: where
    every layer has this window, caches keep little more than its keys.
    """

    def __init__(self, net: CompiledModel, *, chunk: int = 512, window: int | None = None) -> None:
        self.net, self.chunk, self.window = net, chunk, window
        self.inputs = {p.name for p in net.inputs}
        _check_inputs(self.inputs)

    def start(self, rows: int = 1, *, whole: bool = False) -> TokenCache:
        """An empty cache of this many rows. whole: it keeps positions that a window has left."""
        return TokenCache(self, rows, None if whole else self.window)

    def run(
        self,
        request: InferRequest,
        ids: Integers,
        mask: Integers,
        positions: Integers,
        *,
        order: npt.NDArray[np.int32] | None = None,
        last: int = 1,
    ) -> Any:
        """One run of a request over new columns i64 [rows, columns], with the logits of the last
        `last` of them. mask: of all columns, the new ones included. order: the row of the cache
        that each row continues (None: its own)."""
        rows, count = ids.shape
        values: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": mask,
            "position_ids": positions,
            "beam_idx": np.arange(rows, dtype=np.int32) if order is None else order,
            POSITIONS: np.arange(count - last, count, dtype=np.int64),
        }
        return request({name: v for name, v in values.items() if name in self.inputs})


class TokenCache:
    """Rows of tokens whose keys and values a request holds. Rows of different lengths are padded
    on the left: `mask` i64 [rows, columns] is 1 where there is a token.

    With a window, columns that it has left are dropped, in whole blocks of attention: sums of
    others do not change. `mask` begins behind the dropped ones; `columns` counts them."""

    def __init__(self, decoder: Decoder, rows: int, window: int | None = None) -> None:
        self._decoder, self._window = decoder, window
        self._dropped = 0
        self._dropped_tokens: Integers = np.zeros((rows, 1), np.int64)
        self._request = decoder.net.create_infer_request()
        self.mask: Integers = np.zeros((rows, 0), np.int64)
        self._order: npt.NDArray[np.int32] = np.arange(rows, dtype=np.int32)

    @property
    def columns(self) -> int:
        """Positions that the cache has read, padding included."""
        return self._dropped + self.mask.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        return self._request.state_nbytes()

    def state_views(self) -> list[npt.NDArray[Any]]:
        """Keys and values [rows, heads, columns, size] per variable, valid up to the next run."""
        return self._request.state_views()

    def copy(self, start: int, stop: int) -> list[npt.NDArray[Any]]:
        """Keys and values [heads, columns, size] per variable of columns of the first row."""
        return [v[0, :, start:stop].copy() for v in self.state_views()]

    def restore(self, parts: Sequence[Sequence[npt.NDArray[Any]]]) -> None:
        """Fill an empty cache of one row with copies of such columns, part behind part."""
        ends = np.cumsum([part[0].shape[1] for part in parts])
        views = self._request.renew_state({0: 1, 2: int(ends[-1])})
        for part, end in zip(parts, ends.tolist(), strict=True):
            for target, source in zip(views, part, strict=True):
                target[0, :, end - source.shape[1] : end] = source
        self.mask = np.ones((1, int(ends[-1])), np.int64)

    def select(self, rows: Sequence[int]) -> None:
        """The rows of the cache from the next run on: row i continues what was row rows[i]."""
        self._order = self._order[list(rows)]
        self.mask = self.mask[list(rows)]
        self._dropped_tokens = self._dropped_tokens[list(rows)]

    def trim(self, columns: int) -> int:
        """Forget all positions from this one on. Returns the positions that are left: none where
        the window of the next one was dropped."""
        if columns >= self.columns:
            return self.columns
        if self._window is not None and 0 < self._dropped and columns < self._count_needed():
            columns = 0
        if columns == 0:
            self._request.reset_state()
            self._order = np.arange(len(self.mask), dtype=np.int32)
            self._dropped, self._dropped_tokens = 0, np.zeros_like(self._dropped_tokens)
        else:
            self._request.trim_state(2, columns - self._dropped)
        self.mask = self.mask[:, : columns - self._dropped]
        return columns

    def _count_needed(self) -> int:
        """The fewest positions to which a cache with dropped ones may be trimmed."""
        return self._dropped + (self._window or 1) - 1

    def _drop_columns(self) -> None:
        """Drop the blocks that the window has left, even if MAX_TRIMMED tokens are forgotten."""
        if self._window is None:
            return
        extra = self.mask.shape[1] - (self._window - 1) - MAX_TRIMMED
        count = extra // ATTENTION_BLOCK_KEYS * ATTENTION_BLOCK_KEYS
        if count <= 0:
            return
        self._request.drop_state(2, count)
        self._dropped += count
        self._dropped_tokens = self._dropped_tokens + self.mask[:, :count].sum(1, keepdims=True)
        self.mask = self.mask[:, count:]

    def read(self, ids: Integers, valid: Integers | None = None, *, every: bool = False) -> Floats:
        """Append tokens i64 [rows, columns] to the cache, in chunks. Returns logits f32
        [rows, 1, V] behind the last of them, or [rows, columns, V] behind `every` one.

        valid: 1 where there is a token, 0 for padding. Where a run fails or is interrupted, the
        cache holds the chunks before it.
        """
        found = [o["logits"] for o in self._run_chunks(ids, valid, every)]
        return np.concatenate(found, axis=1) if every else found[-1]

    def read_hidden(self, ids: Integers, valid: Integers) -> Floats:
        """`read` for the hidden states f32 [rows, columns, width] before the last product."""
        return np.concatenate([o[HIDDEN] for o in self._run_chunks(ids, valid, False)], axis=1)

    def _run_chunks(
        self, ids: Integers, valid: Integers | None, every: bool
    ) -> Iterator[Mapping[str, Any]]:
        if ids.shape[1] == 0:
            raise InputError(
                "there is no token to read", got=list(ids.shape), expected="i64 [rows, columns]"
            )
        for start in range(0, ids.shape[1], self._decoder.chunk):
            part = slice(start, start + self._decoder.chunk)
            some = ids[:, part]
            ones = np.ones_like(some) if valid is None else valid[:, part]
            yield self._run(some, ones, some.shape[1] if every else 1)

    def _run(self, ids: Integers, valid: Integers, last: int) -> Any:
        """One run over new columns, with the logits of the last `last` of them."""
        mask = np.concatenate([self.mask, valid], axis=1)
        before = self._dropped_tokens + self.mask.sum(axis=1, keepdims=True)
        positions = np.maximum(before + np.cumsum(valid, axis=1) - 1, 0)
        outputs = self._decoder.run(
            self._request, ids, mask, positions, order=self._order, last=last
        )
        self.mask = mask
        self._order = np.arange(len(ids), dtype=np.int32)
        self._drop_columns()
        return outputs
