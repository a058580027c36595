"""Stop words and case of texts, as ONNX's StringNormalizer defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..errors import ExecutionError
from ..lazy_dataclass import dataclass

_CASES: Final[dict[str, Callable[[str], str]]] = {"LOWER": str.lower, "UPPER": str.upper}


@dataclass(frozen=True)
class Normalizing:
    """StringNormalizer's attributes. case_change: LOWER, UPPER or NONE. stopwords: words that are
    left out."""

    case_change: str
    stopwords: tuple[str, ...] = ()
    is_case_sensitive: bool = False


def normalize_text(texts: Any, how: Normalizing) -> Any:
    """Texts [C] or [1, C] without stop words, in another case; one empty text where none is left.
    ExecutionError for another rank or case.

    The process's locale is not changed, as onnx.reference changes it: cases are Unicode's.
    """
    array = np.asarray(texts, object)
    if array.ndim not in (1, 2) or (array.ndim == 2 and len(array) != 1):
        raise ExecutionError("StringNormalizer takes [C] or [1, C]", got=list(array.shape))
    changed = normalize_words(list(map(str, array.reshape(-1).tolist())), how)
    return np.array(changed, object).reshape((*array.shape[:-1], -1))


def normalize_words(words: Sequence[str], how: Normalizing) -> Sequence[str]:
    """`normalize_text` of a list."""
    case = how.case_change
    if case not in ("NONE", *_CASES):
        raise ExecutionError("no such case", got=case, expected="LOWER, UPPER or NONE")
    changed = list(map(_CASES[case], words)) if case in _CASES else words
    if how.stopwords:
        compare = str if how.is_case_sensitive else _CASES.get(case, str.lower)
        stops = set(map(compare, how.stopwords))
        pairs = zip(map(compare, words), changed, strict=True)
        changed = [word for compared, word in pairs if compared not in stops]
    return changed or [""]
