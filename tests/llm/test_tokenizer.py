"""Tokenizers: streams of text, and GGUF vocabularies against an independent implementation."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="not run: needs tokenizers")

from irc_compiler.llm.formats.gguf_file import GgufFile
from irc_compiler.llm.formats.gguf_metadata import Metadata
from irc_compiler.llm.formats.gguf_tokenizer import read_special_tokens, read_tokenizer
from irc_compiler.llm.tokenizer import StoredTokenizer, Tokenizer

SPACE = "\u2581"
TEXTS = (
    "Hello, world! I'm here; you're there.",
    "  two spaces, and behind   ",
    "\ttabs\n\n\nnewlines \n",
    "日本語のテキスト。中文，标点。한국어",
    "🎉👩‍👩‍👧‍👦🇫🇷 e\u0301 é ﬁ Ⅻ ½",
    "12345 3.14 1,000 ٣٤٥",
    "<s>special</s> <unk> <user>mine</user>",
    "",
)


def write_metadata(path: Path, entries: dict[str, object]) -> Path:
    """A GGUF file without tensors."""

    def text(value: str) -> bytes:
        data = value.encode()
        return struct.pack("<Q", len(data)) + data

    parts = [b"GGUF", struct.pack("<IQQ", 3, 0, len(entries) + 1)]
    parts.append(text("general.architecture") + struct.pack("<I", 8) + text("llama"))
    for key, value in entries.items():
        parts.append(text(key))
        if isinstance(value, str):
            parts.append(struct.pack("<I", 8) + text(value))
        elif isinstance(value, bool):
            parts.append(struct.pack("<I?", 7, value))
        elif isinstance(value, int):
            parts.append(struct.pack("<II", 4, value))
        elif isinstance(value, np.ndarray):
            kind = {"f": 6, "i": 5}[value.dtype.kind]
            parts.append(struct.pack("<IIQ", 9, kind, value.size) + value.tobytes())
        else:
            assert isinstance(value, list)
            parts.append(struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value)))
    path.write_bytes(b"".join(parts))
    return path


def read(path: Path) -> tuple[Tokenizer, Metadata]:
    with GgufFile(path) as file:
        metadata = Metadata(file)
    return read_tokenizer(metadata), metadata


def sentence_pieces() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Tokens, scores and types: specials, bytes, characters, and random pieces of words."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "<user>"]
    types = [2, 3, 3, *[6] * 256, 4]
    plain = [t for t in TEXTS if "<" not in t]
    missing = set("é🇫한")
    letters = sorted(set("".join(TEXTS).replace(" ", SPACE)) - missing)
    rng = np.random.default_rng(0)
    source = SPACE + " ".join(plain).replace(" ", SPACE)
    pieces: dict[str, None] = {}
    while len(pieces) < 400:
        start, size = int(rng.integers(0, len(source) - 8)), int(rng.integers(2, 7))
        # Whatever is built by merges has parts that are pieces.
        found = [source[start : start + n] for n in range(2, size + 1)]
        pieces |= dict.fromkeys(p for p in found if not missing & set(p))
    words = [*letters, *pieces]
    scores = [0.0] * len(tokens) + [float(-i) for i in rng.permutation(len(words))]
    return (
        [*tokens, *words],
        np.array(scores, np.float32),
        np.array(types + [1] * len(words), np.int32),
    )


def merge_by_score(text: str, tokens: Sequence[str], scores: np.ndarray) -> list[int]:
    """SentencePiece's rule in its plainest form: merge the neighbours whose piece has the highest
    score, the leftmost of equal ones, until none is a piece; then characters that are none become
    bytes."""
    ids = {t: i for i, t in enumerate(tokens)}
    parts = list(text)
    while True:
        pairs = enumerate(zip(parts, parts[1:], strict=False))
        known = [(-scores[ids[a + b]], i) for i, (a, b) in pairs if a + b in ids]
        if not known:
            break
        _, at = min(known)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    found: list[int] = []
    for part in parts:
        found += [ids[part]] if part in ids else [ids[f"<0x{b:02X}>"] for b in part.encode()]
    return found


@pytest.mark.parametrize("prefix", [True, False])
def test_sentence_pieces(prefix: bool, tmp_path: Path) -> None:
    """Hard texts, token for token, and back."""
    tokens, scores, types = sentence_pieces()
    entries = {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.add_space_prefix": prefix,
    }  # fmt: skip
    found, metadata = read(write_metadata(tmp_path / "v.gguf", entries))
    for text in (t for t in TEXTS if "<" not in t and t):
        shown = text.replace(" ", SPACE)
        wanted = merge_by_score((SPACE if prefix else "") + shown, tokens, scores)
        assert found.encode(text, add_special=False) == wanted
        assert found.encode(text) == [1, *wanted]
        assert found.decode(wanted) == text
    ids = found.encode("a<s>b<user>", add_special=False)
    assert 1 in ids and tokens.index("<user>") in ids
    assert "<s>" not in found.decode(ids) and "<s>" in found.decode(ids, skip_special=False)
    assert read_special_tokens(metadata).ends == (2,)


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("gpt-2", ["I", "'m", " 12345", " a", "  ", " b"]),
        ("smollm", ["I", "'m", " ", "1", "2", "3", "4", "5", " a", "  ", " b"]),
        ("llama-bpe", ["I", "'m", " ", "123", "45", " a", "  ", " b"]),
        ("qwen2", ["I", "'m", " ", "1", "2", "3", "4", "5", " a", "  ", " b"]),
    ],
)
def test_pre_tokenizers(pre: str, words: list[str], tmp_path: Path) -> None:
    """Where each splits a text: every word of the vocabulary is reached by merges."""
    alphabet = [chr(c) for c in range(33, 127)] + ["\u0120"]
    whole = [w.replace(" ", "\u0120") for w in dict.fromkeys(words)]
    merges, tokens = list[str](), dict.fromkeys(alphabet)
    for word in whole:
        for n in range(2, len(word) + 1):
            merges.append(f"{word[: n - 1]} {word[n - 1]}")
            tokens[word[:n]] = None
    entries = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": list(tokens), "tokenizer.ggml.merges": list(dict.fromkeys(merges)),
    }  # fmt: skip
    found, _ = read(write_metadata(tmp_path / "v.gguf", entries))
    ids = found.encode("I'm 12345 a   b")
    assert [found.decode([i]) for i in ids] == words


def test_a_stream_has_the_text_of_the_whole(tmp_path: Path) -> None:
    """Token by token, characters of several tokens and leading spaces included."""
    tokens, scores, types = sentence_pieces()
    entries = {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types,
    }  # fmt: skip
    found, _ = read(write_metadata(tmp_path / "v.gguf", entries))
    for text in TEXTS:
        stream = found.stream()
        ids = found.encode(text)
        parts = [stream.step(i) for i in ids]
        assert "".join(parts) + stream.flush() == found.decode(ids)
        assert not any(p.endswith("\ufffd") for p in parts)
    stream = found.stream()
    assert stream.step(tokens.index("<0xF0>")) == "" and stream.flush() == "\ufffd"


def test_tokens_beyond_the_vocabulary(tmp_path: Path) -> None:
    tokens, scores, _ = sentence_pieces()
    entries = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
               "tokenizer.ggml.scores": scores}  # fmt: skip
    found, _ = read(write_metadata(tmp_path / "v.gguf", entries))
    assert found.vocabulary == len(tokens) and found.token_id("<s>") == 1
    for wrong in (-1, len(tokens)):
        with pytest.raises(irc.Error, match="no such token"):
            found.decode([wrong])


def test_a_stored_tokenizer_is_the_same(tmp_path: Path) -> None:
    """Of sentence pieces and of byte pairs, with added tokens, special and not, in parts."""
    import tokenizers
    from support.models.byte_decoder import byte_tokenizer
    from tokenizers import AddedToken

    tokens, scores, types = sentence_pieces()
    pieces = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    bytes_ = tokenizers.Tokenizer.from_str(byte_tokenizer().library.to_str())
    bytes_.add_tokens([AddedToken("<mine>", lstrip=True), AddedToken("plain", normalized=False)])
    bytes_.add_special_tokens([AddedToken("<|im_end|>", rstrip=True, special=True)])
    for library in (read(write_metadata(tmp_path / "p.gguf", pieces))[0].library, bytes_):
        stored = StoredTokenizer.of(library)
        made = stored.load()
        assert stored.tokens and made.to_str() == library.to_str()
        for text in (*TEXTS, "a <mine>b plain<|im_end|> c"):
            assert made.encode(text).ids == library.encode(text).ids


def test_other_tokenizers_are_stored_whole() -> None:
    """Another model, and numbers that are not those of a list."""
    import tokenizers
    from tokenizers import models

    for model in (
        models.Unigram([("a", -1.0), ("b", -2.0)], 0, False),
        models.WordLevel({"a": 0}, "a"),
        models.BPE({"a": 0, "b": 2}, []),
    ):
        library = tokenizers.Tokenizer(model)  # type: ignore[arg-type]
        stored = StoredTokenizer.of(library)
        assert not stored.tokens and stored.load().to_str() == library.to_str()
