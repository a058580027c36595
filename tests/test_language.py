"""Phrases and metaphors that code, messages and docs avoid (docs/dev/style.md)."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from support.packages import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (*PACKAGES, "samples")
SOURCES = sorted(
    path
    for folder in (*FOLDERS, "benchmarks", "docs")
    for suffix in ("*.py", "*.md")
    for path in (ROOT / folder).rglob(suffix)
) + sorted(path for path in ROOT.glob("*") if path.suffix in (".py", ".md"))

# A phrase -> what to write instead. Letters are the boundaries, so parts of identifiers count.
BANNED = {
    r"(?<!there )(is|are|was|were) no(?! (longer|more|one|such)\b)": "is not a ...",
    r"(hand|hands|handed|handing) (on|over)": "pass, forward, propagate",
    r"gangs?": "thread pool",
    r"of run time": "at run time",
    r"whole numbers?": "integers",
    r"(no|some)body|who(ever)? reads": "each consumer, an unused value",
    r"(tell|tells|told|telling)": "define, determine, state",
    r"(house|houses|door|doors|riddle|riddles)": "scope, buffer, entry point",
    r"(spell|spells|spelt|spelled|spelling|spellings)": "decompose, format, name",
    r"halves of bytes|(are|masks of) halves": "int4, f16",
    r"(judge|judges|judged|judging)": "check, oracle, comparison",
    r"rivals?": "reference engine, baseline",
    r"what is left": "the remaining ...",
    r"(hang|hangs|hung) on": "depend on",
    r"lets? pass": "accept, ignore",
    r"(lie|lies|lain) (in|on|at|behind|before|where|there|next)": "is stored at, is located",
    r"(settle|settles|settled|settling)": "resolve, determine",
    r"beside": "next to, in addition to",
    r"(stand|stands|stood) (for|on|in|at|before|behind|between|alone|twice|once)": "is, denotes",
    r"stands? elsewhere": "is stored elsewhere",
    r"(speak|speaks) (of|against)": "name, refuse",
    r"had better": "should",
    r"whoever": "each thread, the caller, the user",
}


@cache
def prose(path: Path) -> list[tuple[int, str]]:
    """Each line with its number, and each pair of lines joined, for phrases across line ends."""
    lines = [line.strip().lstrip("#").strip() for line in path.read_text("utf-8").splitlines()]
    pairs = [f"{a} {b}" for a, b in zip(lines, [*lines, ""][1:], strict=True)]
    return list(enumerate(pairs, 1))


@pytest.mark.parametrize("phrase", BANNED, ids=lambda p: p[:24])
def test_banned_phrase_is_absent(phrase: str) -> None:
    pattern = re.compile(rf"(?<![A-Za-z])(?:{phrase})(?![A-Za-z])", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in SOURCES
        for number, text in prose(path)
        if (match := pattern.search(text))
    ]
    assert not found, f"write {BANNED[phrase]} instead of:\n" + "\n".join(found)


def test_patterns_match_what_they_ban() -> None:
    """Each pattern still finds an example of its phrase."""
    examples = "is no|handed on|gang|of run time|whole numbers|nobody|told|door|spelled"
    examples += "|halves of bytes|judge|rival|what is left|hangs on|lets pass|lies in|settled"
    examples += "|beside|had better|whoever|stands for|speaks of"
    for example in examples.split("|"):
        assert any(re.fullmatch(phrase, example) for phrase in BANNED), example


MODULES = [path for path in SOURCES if path.suffix == ".py" and path.parts[-2] != "benchmarks"]
MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in PACKAGES]
# Names that are a past participle or an adjective alone name neither an action nor an object.
PARTICIPLES = frozenset(
    """told held seen shown spread kept lost found given made taken written chosen drawn lain lies
    alike alone above across again around behind below beyond best better big brief broken distinct
    either equal even far flat full generic good heavy inner inside largest last later latest least
    light lowest longest mine missing more narrow near newest next none nothing numeric odd opposite
    other ours outer outside plain positive present short small some soon straight there together
    trusted undefined unequal unfit unreadable within without wide whole where""".split()
)
VERBS_IN_ED = frozenset(("embed", "feed", "need", "seed", "shed"))
# Functions that keep such a name.
NAMED_SO_BY = {
    "where": "NumPy's, ONNX's and OpenVINO's name of the operation",
    "next": "Python's name of the method of an iterator",
}
# Classes of one name in several files.
SHARED_CLASS_NAMES = {
    "CompiledModel": "OpenVINO's class, in compat/openvino/",
    "ExecutionMode": "onnxruntime's and OpenVINO's enumerations, in compat/",
    "Fail": "onnxruntime's exception, in compat/onnxruntime/errors.py",
    "ModelConfig": "Hugging Face's sizes of a model, in llm/; Triton's configuration, in serve/",
    "InferRequest": "OpenVINO's class, in compat/openvino/",
    "Model": "OpenVINO's class, in compat/openvino/",
    "Node": "OpenVINO's class, in compat/openvino/",
    "Tensor": "OpenVINO's class, in compat/openvino/",
    "Type": "OpenVINO's class, in compat/openvino/",
    "Tokenizer": "OpenVINO GenAI's class, in compat/openvino_genai/",
    "Value": "an SSA value, as MLIR and LLVM both name it: of the graph, and of LLVM text",
    "VariableState": "OpenVINO's class, in compat/openvino/",
}
# Constants that name neither a quantity nor a unit.
VAGUE_CONSTANT = re.compile(
    r"_?(FEW|MANY|MOST|LEAST|LONG|SHORT|SMALL|LARGE|LIGHT|HEAVY|WORTH|GAIN|BACK|FORTH|A?FAR|NEAR"
    r"|GOOD|TIMES|TRIES|TRIED|STREAK|GAP|LIMIT|SLACK|GRAIN|LOOKED_AT|REMEMBERED|TYPICAL|MOST_\w+"
    r"|FEW_\w+|WORTH_\w+)"
)


# Variables and parameters that name no concept -> what they are called instead, in these folders.
VAGUE_VARIABLES = {
    "place": "address, offset, position, pixel, index",
    "places": "addresses, offsets, positions, pixels, indices",
    "spot": "position",
    "spots": "positions",
    "lies": "layout, in_place",
    "lying": "tiles_in_place",
    "told": "known_key",
    "fed": "feeds, inputs",
    "part": "tail (of a TailMask), piece, term",
}
NAMED_IN = ("runtime/kernels/", "plan/", "compiler/passes/")
# Folders in which an index, an offset, a coordinate or a path is not called a place either.
WITHOUT_PLACES = (
    *("api/", "builder/", "cli/", "compat/", "compiler/", "ir/", "llm/", "plan/", "quantization/"),
    *("runtime/", "serve/"),
)


@dataclass(frozen=True)
class Outline:
    """The names that a module defines, functions with their lines."""

    functions: tuple[tuple[str, int], ...]
    classes: tuple[str, ...]
    constants: tuple[str, ...]
    variables: frozenset[str]


@cache
def outline(path: Path) -> Outline:
    tree = ast.parse(path.read_text("utf-8"))
    functions = list[tuple[str, int]]()
    variables = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef():
                functions.append((node.name, node.lineno))
            case (
                ast.Name(id=word, ctx=ast.Store())
                | ast.Attribute(attr=word, ctx=ast.Store())
                | ast.arg(arg=word)
            ):
                variables.add(word)
            case _:
                pass
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    constants = list[str]()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            constants += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return Outline(tuple(functions), tuple(classes), tuple(constants), frozenset(variables))


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return word in PARTICIPLES or (
        "_" not in word and word.endswith("ed") and word not in VERBS_IN_ED
    )


def test_function_names_are_not_bare_participles() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in MODULES
        for name, line in outline(path).functions
        if is_participle(name) and name not in NAMED_SO_BY
    ]
    assert not found, "name a function by a verb and its object:\n" + "\n".join(found)


def test_classes_do_not_share_a_name() -> None:
    files: dict[str, list[str]] = {}
    for path in MODULES:
        for name in outline(path).classes:
            files.setdefault(name, []).append(str(path.relative_to(ROOT)))
    shared = {name: where for name, where in files.items() if len(where) > 1}
    assert set(shared) == set(SHARED_CLASS_NAMES), {
        name: where for name, where in shared.items() if name not in SHARED_CLASS_NAMES
    }


def test_constants_name_a_quantity() -> None:
    found = [
        f"{path.name}: {name}"
        for path in MODULES
        for name in outline(path).constants
        if VAGUE_CONSTANT.fullmatch(name)
    ]
    assert not found, "name the quantity and the unit (MAX_..., ..._BYTES):\n" + "\n".join(found)


def test_variables_name_a_concept() -> None:
    found = {
        (name, word)
        for path in MODULES
        if (name := path.relative_to(ROOT).as_posix()).startswith(WITHOUT_PLACES)
        for word in outline(path).variables & VAGUE_VARIABLES.keys()
        if name.startswith(NAMED_IN) or word in ("place", "places")
    }
    assert not found, {word: VAGUE_VARIABLES[word] for _, word in found}


@pytest.mark.parametrize("name", ["joined", "_spread", "scaled", "_told", "lies", "_where"])
def test_a_bare_participle_is_found(name: str) -> None:
    assert is_participle(name) and not is_participle(f"fold_{name.strip('_')}")


# Words of old names of things, in names of tests.
OLD_WORDS = re.compile(
    r"_(rivals?|gangs?|hands?|handed|told|tells?|judges?|spel\w+|lies|nobody|halves|settle\w*"
    r"|whole_numbers?)(_|$)"
)


def test_names_of_tests_use_the_words_of_the_code() -> None:
    files = [p for folder in ("tests", "fuzz") for p in sorted((ROOT / folder).rglob("test_*.py"))]
    names = [
        (p.name, name)
        for p in files
        for name, _ in outline(p).functions
        if name.startswith("test_")
    ]
    assert len(names) > 2000
    found = [f"{path}: {name}" for path, name in names if OLD_WORDS.search(name)]
    assert not found, found
