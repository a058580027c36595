"""N-grams counted in texts in one step, against onnxruntime's three."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime
import pytest
from irc_compiler.ir.ops import CountTextNgrams
from support.models.text_models import make_counting_model

TEXTS = ["the cat the dog", "", "A a,a;cat-dog", "dog  the\ncat", "_ e9 9e", "# the # cat", "Cat"]
BEYOND_ASCII = ["the caté dog", "été", "the\x00cat", "cat\x00\x00", "ſ the K"]
PAIRS: dict[str, Any] = {
    "max_gram_length": 2,
    "ngram_counts": [0, 4],
    "ngram_indexes": list(range(8)),
    "pool_strings": "a cat dog the the cat cat the a a dog the".split(),
}
LETTERS: dict[str, Any] = {
    "max_gram_length": 3,
    "ngram_counts": [0, 4, 8],
    "ngram_indexes": list(range(8)),
    "pool_strings": [*"ate ", *"atte", *"thecat"],
}
LOWER = {"case_change_action": "LOWER", "is_case_sensitive": 0}
NORMALIZERS: dict[str, Any] = {
    "no normalizer": None,
    "lower": LOWER,
    "upper": {"case_change_action": "UPPER"},
    "stop texts": LOWER | {"stopwords": ["cat", ""]},
}
TOKENIZERS: dict[str, Any] = {
    "words": {},
    "long words": {"mincharnum": 2},
    "marks": {"mark": 1},
    "any case": {"tokenexp": "(?i)[a-z]+"},
    "perhaps nothing": {"tokenexp": "[a-z]*"},
    "group": {"tokenexp": "([a-z])+"},
    "not": {"tokenexp": "[^ ]+"},
    "with spaces": {"tokenexp": "[a-z ]+"},
    "characters": {"tokenexp": "."},
    "all characters": {"tokenexp": None, "separators": [""]},
    "separators": {"tokenexp": None, "separators": [" ", "[,;]"]},
    "pad in the pool": {"pad_value": "the"},
}
COUNTERS: dict[str, Any] = {
    "items": {},
    "pairs": PAIRS,
    "pairs only": PAIRS | {"min_gram_length": 2},
    "skips": PAIRS | {"max_skip_count": 2},
    "letters": LETTERS,
    "idf": {"mode": "IDF", "weights": [0.5, 1.0, 2.0, 3.0, 1.5, 0.25]},
}


def compile_fused(model: bytes) -> irc.CompiledModel:
    net = irc.compile_model(model)
    terminals = [r.terminal.op for r in net.plan.regions if r.terminal is not None]
    assert [type(op) for op in terminals] == [CountTextNgrams]
    return net


def agree(model: bytes, texts: Any) -> Any:
    data = np.array(texts, object).reshape(-1, 1)
    want: Any = onnxruntime.InferenceSession(model).run(None, {"x": data})[0]
    net = compile_fused(model)
    np.testing.assert_array_equal(net({"x": data})[0], want)
    np.testing.assert_array_equal(net({"x": data.astype(str)})[0], want)
    return want


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_words_are_those_of_onnxruntime(normalizer: str, tokenizer: str) -> None:
    model = make_counting_model(
        normalizer=NORMALIZERS[normalizer],
        tokenizer=TOKENIZERS[tokenizer],
        # Items in both cases, since the first pool has none of the other one.
        counter={"pool_strings": ["a", "CAT", "cat", "the", "THE", "A"]},
    )
    agree(model, TEXTS)


@pytest.mark.parametrize(
    "tokenizer, counter",
    [(t, c) for t in ("words", "pad in the pool") for c in COUNTERS if c != "letters"]
    + [("characters", "letters"), ("all characters", "letters")],
)
def test_counts_are_those_of_onnxruntime(tokenizer: str, counter: str) -> None:
    given = {"tokenizer": TOKENIZERS[tokenizer], "counter": COUNTERS[counter]}
    assert agree(make_counting_model(normalizer=LOWER, **given), TEXTS).any()


@pytest.mark.parametrize("tokenizer", ["words", "characters"])
def test_texts_beyond_ascii(tokenizer: str) -> None:
    # One text is enough to leave the way of ASCII texts, and so is a character that ends them.
    letters = tokenizer == "characters"
    for text in BEYOND_ASCII:
        model = make_counting_model(
            normalizer={"case_change_action": "NONE"},
            tokenizer=TOKENIZERS[tokenizer],
            counter={"pool_strings": list("étſKab")} if letters else {},
        )
        net = compile_fused(model)
        plain = onnxruntime.InferenceSession(model)
        data = np.array([["the cat"], [text]], object)
        if "\x00" in text:  # onnxruntime's strings from NumPy end there
            data = np.array([["the cat"], [text.replace("\x00", ";")]], object)
        want: Any = plain.run(None, {"x": data})[0]
        data[1, 0] = text
        np.testing.assert_array_equal(net({"x": data})[0], want)


def test_lists_of_texts_without_a_reshape() -> None:
    model = make_counting_model(normalizer=LOWER, flatten=False)
    data = np.array(TEXTS, object)
    want: Any = onnxruntime.InferenceSession(model).run(None, {"x": data})[0]
    np.testing.assert_array_equal(compile_fused(model)({"x": data})[0], want)


def test_no_texts() -> None:
    none = np.zeros((0, 1), object)
    net = compile_fused(make_counting_model(normalizer=LOWER))
    assert net({"x": none})[0].tolist() == [[0.0] * 6]  # the normalizer returns one empty text
    with pytest.raises(irc.ExecutionError, match="n-grams are of"):
        compile_fused(make_counting_model())({"x": none})


def test_large_pools_are_searched() -> None:
    pool = [f"w{i}" for i in range(700)]
    pairs = [word for i in range(0, 700, 7) for word in (f"w{i}", f"w{(i * 5) % 700}")]
    counter = {
        "max_gram_length": 2,
        "ngram_counts": [0, 700],
        "ngram_indexes": list(range(700 + len(pairs) // 2)),
        "pool_strings": pool + pairs,
    }
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(pool, 30)) for _ in range(8)]
    texts += [" ".join(pairs), " ".join(reversed(pairs))]
    agree(make_counting_model(counter=counter), texts)


def test_words_are_charged() -> None:
    net = irc.compile_model(make_counting_model(normalizer=LOWER), max_memory=1 << 20)
    net({"x": np.array([["the cat"]], object)})
    with pytest.raises(irc.MemoryLimitError, match="words"):
        net({"x": np.array([["a " * 50_000]], object)})
