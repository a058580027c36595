"""OnnxNode (dialect): one ONNX node that onnx.reference evaluates, for the long tail of operators.

The frontend's list (compiler/frontends/onnx/ops/reference.py) says which operators may become one;
the compile report names them. The onnx package is imported by `_evaluator` only.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from ...dtype import DType
from ...errors import ExecutionError, ShapeError, VerificationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import SequenceType, TensorType, Type, parse_type
from ..count_ngrams import NgramCounter
from ..decode_image import decode_image
from ..murmur_hash import hash_texts
from ..normalize_text import Normalizing, normalize_text
from ..regex_match import match_fully
from ..sequence.time_warping import warp_time
from ..tokenize_text import Tokenizing, tokenize
from .sequences import refresh_symbols


@dataclass(frozen=True)
class OnnxNode(Op):
    """`node`: a serialised NodeProto in base64; inputs by position, absent ones included. `opsets`:
    the operator sets it is read by, such as "ai.onnx.ml=4". `types`: one type per output as text;
    sizes that are not numbers are decided by data.
    """

    kind: ClassVar[str] = "OnnxNode"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 32
    inputs: ClassVar[tuple[Port, ...]] = (Port("inputs", optional=True, variadic=True),)
    op_type: str
    domain: str
    node: str
    opsets: tuple[str, ...]
    types: tuple[str, ...]

    def output_count(self) -> int:
        return len(self.types)

    def infer(self, facts: tuple[Fact | None, ...]) -> tuple[Type, ...]:
        return tuple(refresh_symbols(self, t) for t in self._types)

    @cached_property
    def _types(self) -> tuple[Type, ...]:
        return tuple(map(parse_type, self.types))

    @cached_property
    def _proto(self) -> Any:
        """The stored NodeProto."""
        from google.protobuf.message import DecodeError
        from onnx import NodeProto

        node = NodeProto()
        try:
            node.ParseFromString(base64.b64decode(self.node, validate=True))
        except (DecodeError, ValueError) as error:
            raise VerificationError("a stored ONNX node is broken", got=str(error)[:80]) from error
        return node

    @cached_property
    def _evaluator(self) -> tuple[Any, list[str]]:
        """ONNX's evaluator of a function that is this node, and the names of its inputs."""
        from onnx import FunctionProto, NodeProto
        from onnx.reference import ReferenceEvaluator

        node, function = NodeProto(), FunctionProto()
        node.CopyFrom(self._proto)
        names = [f"x{i}" if name else "" for i, name in enumerate(node.input)]
        del node.input[:]
        del node.output[:]
        node.input.extend(names)
        node.output.extend(f"y{i}" for i in range(self.output_count()))
        function.name, function.domain = "one_node", "irc"
        function.input.extend(name for name in names if name)
        function.output.extend(node.output)
        function.node.append(node)
        for text in self.opsets:
            domain, _, number = text.rpartition("=")
            function.opset_import.add(domain=domain, version=int(number))
        return ReferenceEvaluator(function), names

    def _text(self, name: str, default: str) -> str:
        """A string attribute of the node."""
        found = next((a.s for a in self._proto.attribute if a.name == name), None)
        return default if found is None else found.decode("utf-8", "replace")

    def _match(self, texts: Any) -> Any:
        """RegexFullMatch, whose work onnx.reference does not bound."""
        array = np.asarray(texts, object)
        found = match_fully(self._text("pattern", ""), list(map(str, array.reshape(-1))))
        return np.array(found, bool).reshape(array.shape)

    @cached_property
    def tokenizing(self) -> Tokenizing:
        """What onnxruntime's Tokenizer, which onnx.reference does not have, does."""
        attributes: dict[str, Any] = {a.name: a for a in self._proto.attribute}
        separators = attributes.get("separators")
        numbers = {n: attributes[n].i for n in ("mincharnum", "mark") if n in attributes}
        texts: Sequence[bytes] = separators.strings if separators else []
        return Tokenizing(
            self._text("pad_value", ""),
            pattern=self._text("tokenexp", ""),
            separators=tuple(s.decode("utf-8", "replace") for s in texts),
            least=numbers.get("mincharnum", 1),
            mark=bool(numbers.get("mark", 0)),
        )

    @cached_property
    def normalizing(self) -> Normalizing:
        """What StringNormalizer, for which onnx.reference changes the locale of the process,
        does."""
        attributes = {a.name: a for a in self._proto.attribute}
        stops = attributes.get("stopwords")
        sensitive = attributes.get("is_case_sensitive")
        return Normalizing(
            self._text("case_change_action", "NONE"),
            tuple(s.decode("utf-8", "replace") for s in stops.strings) if stops else (),
            is_case_sensitive=sensitive is not None and bool(sensitive.i),
        )

    @cached_property
    def ngrams(self) -> NgramCounter:
        """TfIdfVectorizer, of which onnx.reference looks at one item at a time."""
        from onnx.helper import get_attribute_value

        given: dict[str, Any] = {a.name: get_attribute_value(a) for a in self._proto.attribute}
        texts = [s.decode("utf-8", "replace") for s in given.get("pool_strings", ())]
        return NgramCounter(
            pool=tuple(given.get("pool_int64s") or texts),
            ngram_counts=tuple(given.get("ngram_counts", ())),
            ngram_indexes=tuple(given.get("ngram_indexes", ())),
            weights=tuple(given.get("weights", ())),
            mode=self._text("mode", ""),
            min_gram_length=int(given.get("min_gram_length", 0)),
            max_gram_length=int(given.get("max_gram_length", 0)),
            max_skip_count=int(given.get("max_skip_count", 0)),
        )

    def evaluate(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.op_type == "TfIdfVectorizer":
            return (self.ngrams.count(values[0]),)
        if self.op_type == "StringNormalizer":
            return (normalize_text(values[0], self.normalizing),)
        if self.op_type == "RegexFullMatch":
            return (self._match(values[0]),)
        if self.op_type == "Tokenizer":
            return (tokenize(values[0], self.tokenizing),)
        if self.op_type == "MurmurHash3":
            numbers = {a.name: a.i for a in self._proto.attribute}
            positive = bool(numbers.get("positive", 1))
            return (hash_texts(values[0], numbers.get("seed", 0), positive=positive),)
        if self.op_type == "DynamicTimeWarping":
            return (warp_time(values[0]),)
        if self.op_type == "ImageDecoder":
            # onnx.reference does not bound the size, and returns gray images without channels.
            return (decode_image(values[0], self._text("pixel_format", "RGB")),)
        evaluator, names = self._evaluator
        # A copy: onnx.reference may write to what it is given.
        fed: dict[str, Any] = {
            name: _copy(v) for name, v in zip(names, values, strict=False) if name
        }
        try:
            found = evaluator.run(None, fed, {})
        except Exception as error:
            raise ExecutionError(
                f"onnx.reference could not evaluate {self.op_type}",
                got=f"{type(error).__name__}: {error}"[:300],
            ) from error
        return tuple(_convert_to_type(v, t) for v, t in zip(found, self._types, strict=True))


def _copy(value: Any) -> Any:
    """A value without memory in common; strings do not change."""
    return cast("Array", value).copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def _convert_to_type(value: Any, type_: Type) -> Any:
    """What the evaluator returns, as the type says: strings as objects."""
    if isinstance(type_, SequenceType):
        return [_convert_to_type(v, type_.element) for v in value]
    if not isinstance(type_, TensorType):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "UST" or type_.dtype is DType.string:
        return array.astype(object)
    if type_.dtype is DType.dynamic or array.dtype == type_.dtype.numpy:
        return np.array(array, order="C")
    if array.dtype.kind not in "biufc" or type_.dtype.is_complex:
        raise ShapeError("onnx.reference gave another type", got=array.dtype, expected=type_)
    return array.astype(type_.dtype.numpy)
