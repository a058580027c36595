"""Counts of n-grams in texts (dialect): ONNX's StringNormalizer, onnxruntime's Tokenizer and
TfIdfVectorizer as one operation, which makes no arrays of words."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Any, ClassVar

import numpy as np

from ..dtype import DType
from ..lazy_dataclass import dataclass
from ..limits.memory_budget import charge_bytes
from ..op import Array, Fact, Op, Port
from ..types import Type, parse_type
from .control_flow.onnx_node import OnnxNode
from .control_flow.sequences import refresh_symbols
from .normalize_text import normalize_words
from .regex_match import find_ascii_class
from .shape_inference import require_dtype
from .tokenize_text import pad_words, split_words

# A word with its reference, and its number and the row's in arrays.
_WORD_BYTES = 96
# Ends a text among ASCII words.
_END = "\0"
_NEVER_IN_WORDS = frozenset(string.whitespace + _END)


@dataclass(frozen=True)
class CountTextNgrams(Op):
    """f32 [rows, columns]: how often each text, in the order of elements, has each n-gram of words.

    `normalizer` (or ""), `tokenizer` and `counter` are serialised NodeProtos in base64, as in
    OnnxNode; each takes what the one before returns. `counted` is the type of the result as text.
    """

    kind: ClassVar[str] = "CountTextNgrams"
    version: ClassVar[int] = 0
    fresh: ClassVar[bool] = True
    inputs: ClassVar[tuple[Port, ...]] = (Port("texts"),)
    normalizer: str
    tokenizer: str
    counter: str
    counted: str

    def infer(self, texts: Fact) -> tuple[Type, ...]:
        require_dtype(texts, "texts", frozenset([DType.string]), "string")
        return (refresh_symbols(self, parse_type(self.counted)),)

    @cached_property
    def _nodes(self) -> tuple[OnnxNode | None, OnnxNode, OnnxNode]:
        normalizer = _read("StringNormalizer", self.normalizer) if self.normalizer else None
        return normalizer, _read("Tokenizer", self.tokenizer), _read("TfIdf", self.counter)

    @cached_property
    def _ascii(self) -> AsciiWords | None:
        """How words of ASCII texts are found without a regular expression; None where they are
        not the longest runs of some characters."""
        normalizer, tokenizer, counter = self._nodes
        how, codes = tokenizer.tokenizing, counter.ngrams.codes
        case = ""
        if normalizer is not None:
            if normalizer.normalizing.stopwords:
                return None
            case = normalizer.normalizing.case_change
        members = find_ascii_class(how.pattern) if how.pattern else None
        if members is None or how.least > 1 or how.mark or members & _NEVER_IN_WORDS:
            return None
        changed = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
        table = [changed(chr(i)) if i < 128 else " " for i in range(256)]
        table = [c if c in members else " " for c in table]
        table[ord(_END)] = _END
        numbers = {
            item.encode(): i
            for item, i in codes.items()
            if isinstance(item, str) and item.isascii()
        }
        return AsciiWords("".join(table).encode(), numbers | {_END.encode(): -1}, len(codes))

    def evaluate(self, texts: Array) -> tuple[Array, ...]:
        normalizer, tokenizer, counter = self._nodes
        words: Sequence[str] = list(map(str, texts.reshape(-1).tolist()))
        how, ngrams = tokenizer.tokenizing, counter.ngrams
        if how.pad in ngrams.codes:  # then the ends of rows count
            words = words if normalizer is None else normalize_words(words, normalizer.normalizing)
            return (ngrams.count(pad_words(split_words(words, how), how.pad)),)
        if self._ascii is not None:
            texts_ = words or ([] if normalizer is None else [""])
            found = self._ascii.encode(texts_)
            if found is not None:
                return (ngrams.count_rows(*found),)
        words = words if normalizer is None else normalize_words(words, normalizer.normalizing)
        if how.takes_characters:
            if how.pattern:
                words = [text.replace("\n", "") for text in words]
            codes = ngrams.encode_characters("".join(words))
            return (ngrams.count_rows(codes, _lengths(words)),)
        split = split_words(words, how)
        lengths = _lengths(split)
        charge_bytes(_WORD_BYTES * int(lengths.sum()), "words")
        items = list(chain.from_iterable(split))
        return (ngrams.count_rows(ngrams.encode(items), lengths),)


@dataclass(frozen=True)
class AsciiWords:
    """Words that are runs of some ASCII characters. table: each byte in its new case, a space for
    what is not in words. numbers: of each word, -1 for the end of a text; `none` for others."""

    table: bytes
    numbers: Mapping[bytes, int]
    none: int

    def encode(self, texts: Sequence[str]) -> tuple[Array, Array] | None:
        """The numbers of the words of all texts, and how many each text has; None where there are
        other characters."""
        try:
            content = f" {_END} ".join(texts).encode("ascii")
        except UnicodeEncodeError:
            return None
        if content.count(_END.encode()) != max(len(texts) - 1, 0):
            return None
        content = content.translate(self.table)
        charge_bytes(_WORD_BYTES * content.count(b" "), "words")
        words = content.split()
        found = np.fromiter(map(self.numbers.get, words, repeat(self.none)), np.int64, len(words))
        if not texts:
            return found, found
        ends = found < 0
        bounds = np.concatenate(([-1], np.flatnonzero(ends), [len(found)]))
        return found[~ends], bounds[1:] - bounds[:-1] - 1


def _lengths(items: Sequence[Sequence[Any]]) -> Array:
    return np.fromiter(map(len, items), np.int64, len(items))


def _read(op_type: str, node: str) -> OnnxNode:
    return OnnxNode(op_type, "", node, (), ())
