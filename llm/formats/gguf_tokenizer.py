"""Tokenizers and chat templates of GGUF metadata, built for the `tokenizers` library.

Two models: `gpt2`, byte-pair encoding of bytes with merges by rank, and `llama`, SentencePiece's
pieces, which are merged by score (the best first, of equal ones the leftmost). For the latter every
way to split a piece into two pieces becomes a merge, ranked by the piece's score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import ModelFormatError, UnsupportedOperationError
from ...ir.lazy_dataclass import dataclass
from ..chat_template import ChatTemplate
from ..tokenizer import Tokenizer
from .gguf_metadata import Metadata

if TYPE_CHECKING:
    import tokenizers

_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
# Tokens that end a turn, whatever the metadata call the end.
_END_NAMES = frozenset(
    {
        *("<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<end_of_turn>", "<|eom_id|>"),
        *("<|end_of_text|>", "<|eot|>", "<EOT>", "</s>"),
    }
)
_SPACE = "\u2581"

# Patterns of pre-tokenizers, as the models' own tokenizer.json files have them.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_REST_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_TEKKEN = rf"{_LEAD}{_UPPER}*{_LOWER}+|{_LEAD}{_UPPER}+{_LOWER}*|\p{{N}}|{_REST_SLASH}"
_GPT4O = (
    rf"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}|{_REST_SLASH}"
)
# Name of a pre-tokenizer -> the patterns that split a text, one after another.
_SPLITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpt-2", "gpt2", "mpt", "olmo", "jais"), (_GPT2,)),
    **dict.fromkeys(("llama3", "llama-bpe", "llama-v3", "smaug-bpe", "dbrx"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2"), (_QWEN2,)),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"), (r"\p{N}", _GPT2)
    ),
    "tekken": (_TEKKEN,),
    "gpt-4o": (_GPT4O,),
}
# Pre-tokenizers of models that take a word of the vocabulary whole, whatever merges say.
_WHOLE_WORDS = frozenset({"llama3", "llama-bpe", "llama-v3", "tekken"})


@dataclass(frozen=True)
class SpecialTokens:
    """begin: put in front of a text, None for none; ends: tokens that end a generation."""

    begin: int | None
    ends: tuple[int, ...]


def read_special_tokens(metadata: Metadata) -> SpecialTokens:
    """Begin and ends; ids beyond the vocabulary are an error."""
    tokens = metadata.texts("tokenizer.ggml.tokens")
    ids = {name: _special_id(metadata, name, len(tokens)) for name in ("bos", "eos", "eot", "eom")}
    types = metadata.numbers("tokenizer.ggml.token_type", len(tokens))
    ends = [i for name in ("eos", "eot", "eom") if (i := ids[name]) is not None]
    if types is not None:
        control = np.flatnonzero((types == _CONTROL) | (types == _USER_DEFINED))
        ends += [int(i) for i in control if tokens[i] in _END_NAMES]
    return SpecialTokens(ids["bos"], tuple(dict.fromkeys(ends)))


def _special_id(metadata: Metadata, name: str, count: int) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    if key not in metadata:
        return None
    found = metadata.count(key, least=0)
    if found >= count:
        raise metadata.fail(key, found, f"below {count}")
    return found


def read_chat_template(metadata: Metadata) -> ChatTemplate | None:
    """The template of the file, None where it has none."""
    if "tokenizer.chat_template" not in metadata:
        return None
    tokens, special = metadata.texts("tokenizer.ggml.tokens"), read_special_tokens(metadata)
    names = {"bos_token": special.begin, "eos_token": next(iter(special.ends), None)}
    named = {name: tokens[i] for name, i in names.items() if i is not None}
    return ChatTemplate(metadata.text("tokenizer.chat_template"), named)


def read_tokenizer(metadata: Metadata) -> Tokenizer:
    """The tokenizer. UnsupportedOperationError for a kind or pre-tokenizer that is not known."""
    kind = metadata.text("tokenizer.ggml.model")
    if kind not in _KINDS:
        raise UnsupportedOperationError(
            "this kind of tokenizer is not supported",
            where=metadata.where,
            got=kind[:80],
            expected=", ".join(_KINDS),
        )
    tokens = metadata.texts("tokenizer.ggml.tokens")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    try:
        library = _KINDS[kind](metadata, vocabulary, tokens)
        _add_special(library, metadata, tokens)
    except ModelFormatError:
        raise
    except Exception as error:  # the library raises Exception itself
        raise ModelFormatError(
            "the tokenizer of this file is broken", where=metadata.where, got=str(error)[:200]
        ) from error
    return Tokenizer(library, len(tokens))


def _byte_pairs(
    metadata: Metadata, vocabulary: dict[str, int], tokens: Sequence[str]
) -> tokenizers.Tokenizer:
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    pre = metadata.text("tokenizer.ggml.pre", "gpt-2")
    if pre not in _SPLITS:
        raise UnsupportedOperationError(
            "this pre-tokenizer is not supported",
            where=metadata.where,
            got=pre[:80],
            expected=", ".join(_SPLITS),
        )
    merges = [_split_merge(metadata, m) for m in metadata.texts("tokenizer.ggml.merges")]
    unknown = next((m for m in merges if not {*m, m[0] + m[1]} <= vocabulary.keys()), None)
    if unknown is not None:
        raise metadata.fail("tokenizer.ggml.merges", " ".join(unknown), "merges of known tokens")
    model: Any = models.BPE(vocabulary, merges, ignore_merges=pre in _WHOLE_WORDS)
    library = tokenizers.Tokenizer(model)
    parts: list[Any] = [pre_tokenizers.Split(tokenizers.Regex(p), "isolated") for p in _SPLITS[pre]]
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    setattr(library, "pre_tokenizer", pre_tokenizers.Sequence(parts))  # noqa: B010
    setattr(library, "decoder", decoders.ByteLevel())  # noqa: B010
    return library


def _split_merge(metadata: Metadata, text: str) -> tuple[str, str]:
    left, space, right = text.partition(" ")
    if not space or not left or not right:
        raise metadata.fail("tokenizer.ggml.merges", text, "two tokens with a space between")
    return left, right


def _sentence_pieces(
    metadata: Metadata, vocabulary: dict[str, int], tokens: Sequence[str]
) -> tokenizers.Tokenizer:
    import tokenizers
    from tokenizers import decoders, models, normalizers

    scores = metadata.numbers("tokenizer.ggml.scores", len(tokens))
    if scores is None:
        raise metadata.fail("tokenizer.ggml.scores", None, "a score for each token")
    types = metadata.numbers("tokenizer.ggml.token_type", len(tokens))
    unknown = _special_id(metadata, "unknown", len(tokens))
    model: Any = models.BPE(
        vocabulary,
        _ranked_merges(vocabulary, tokens, scores, types),
        unk_token=None if unknown is None else tokens[unknown],
        fuse_unk=True,
        byte_fallback=types is not None and bool((types == _BYTE).any()),
    )
    library = tokenizers.Tokenizer(model)
    prefix = metadata.flag("tokenizer.ggml.add_space_prefix", True)
    steps: list[Any] = [normalizers.Replace(" ", _SPACE)]
    if prefix:
        steps.insert(0, normalizers.Prepend(_SPACE))
    back: list[Any] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix:
        back.append(decoders.Strip(" ", 1, 0))
    setattr(library, "normalizer", normalizers.Sequence(steps))  # noqa: B010
    setattr(library, "decoder", decoders.Sequence(back))  # noqa: B010
    return library


def _ranked_merges(
    vocabulary: dict[str, int], tokens: Sequence[str], scores: Any, types: Any
) -> list[tuple[str, str]]:
    """Every pair of pieces that is a piece, by the score of that, best first."""
    found: list[tuple[float, int, str, str]] = []
    listed = scores.tolist()
    skipped = set() if types is None else set(np.flatnonzero((types != 1) & (types != 4)).tolist())
    for i, token in enumerate(tokens):
        if i in skipped or len(token) > 256:
            continue
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                found.append((-listed[i], len(found), left, right))
    found.sort()
    return [(left, right) for _, _, left, right in found]


_KINDS = {"gpt2": _byte_pairs, "llama": _sentence_pieces}


def _add_special(library: tokenizers.Tokenizer, metadata: Metadata, tokens: Sequence[str]) -> None:
    """Control and user-defined tokens, which a text is searched for first; and the tokens that
    begin and end every text."""
    from tokenizers import AddedToken, processors

    types = metadata.numbers("tokenizer.ggml.token_type", len(tokens))
    if types is not None:
        control = np.flatnonzero((types == _CONTROL) | (types == _UNKNOWN)).tolist()
        library.add_special_tokens(
            [AddedToken(tokens[i], normalized=False, special=True) for i in control if tokens[i]]
        )
        others = np.flatnonzero(types == _USER_DEFINED).tolist()
        library.add_tokens([AddedToken(tokens[i], normalized=False) for i in others if tokens[i]])
    if library.get_vocab_size(with_added_tokens=True) > len(tokens):
        raise metadata.fail("tokenizer.ggml.tokens", "a token that occurs twice", "distinct tokens")
    pieces = metadata.text("tokenizer.ggml.model") == "llama"
    whole_words = metadata.text("tokenizer.ggml.pre", "") in _WHOLE_WORDS
    around = ["$A"]
    named: list[tuple[str, int]] = []
    for key, name, default in (("add_bos_token", "bos", pieces or whole_words),
                               ("add_eos_token", "eos", False)):  # fmt: skip
        token = _special_id(metadata, name, len(tokens))
        if metadata.flag(f"tokenizer.ggml.{key}", default) and token is not None:
            named.append((tokens[token], token))
            around.insert(0 if name == "bos" else len(around), tokens[token])
    if named:
        template: Any = processors.TemplateProcessing(
            single=around, pair=[*around, "$B"], special_tokens=list(dict.fromkeys(named))
        )
        setattr(library, "post_processor", template)  # noqa: B010
