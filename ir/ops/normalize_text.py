"""Stop words and case of texts, as ONNX's StringNormalizer defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..errors import ExecutionError

_CASES: Final[dict[str, Callable[[str], str]]] = {"LOWER": str.lower, "UPPER": str.upper}


def normalize_text(
    texts: Any, case_change: str, stopwords: Sequence[str], *, is_case_sensitive: bool
) -> Any:
    """Texts [C] or [1, C] without stop words, in another case (LOWER, UPPER or NONE); one empty
    text where none is left. ExecutionError for another rank or case.

    The process's locale is not changed, as onnx.reference changes it: cases are Unicode's.
    """
    array = np.asarray(texts, object)
    if array.ndim not in (1, 2) or (array.ndim == 2 and len(array) != 1):
        raise ExecutionError("StringNormalizer takes [C] or [1, C]", got=list(array.shape))
    if case_change not in ("NONE", *_CASES):
        raise ExecutionError("no such case", got=case_change, expected="LOWER, UPPER or NONE")
    words = list(map(str, array.reshape(-1).tolist()))
    changed = list(map(_CASES[case_change], words)) if case_change in _CASES else words
    if stopwords:
        compare = str if is_case_sensitive else _CASES.get(case_change, str.lower)
        stops = set(map(compare, stopwords))
        pairs = zip(map(compare, words), changed, strict=True)
        changed = [word for compared, word in pairs if compared not in stops]
    return np.array(changed or [""], object).reshape((*array.shape[:-1], -1))
