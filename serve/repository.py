"""The model repository on disk: NAME/VERSION/model.{onnx,xml,irc,gguf}, or a folder of a language
model at NAME/VERSION; optional NAME/config.json.

Only these paths are read. A name from a request is looked up among the names that a scan found; it
never becomes part of a path. Links that lead out of the repository are left out.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ..ir.errors import UsageError
from .errors import ModelLoadError
from .model_config import MAX_CONFIG_BYTES, ModelConfig, parse_config

SUFFIXES = (".onnx", ".xml", ".irc", ".gguf")
# A folder with this file is a language model (openvino_model.xml, *.safetensors, model.onnx).
TOKENIZER_FILE = "tokenizer.json"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
VERSION = re.compile(r"[1-9][0-9]{0,17}")
MAX_MODELS = 10_000
MAX_FILES = 1000  # of one version, for its signature

# What changes when a file does: path, size, modification time, inode.
Signature = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class VersionFiles:
    """One version on disk. The signature covers every file of its folder and the config. error:
    why it must not be read."""

    version: int
    path: Path
    signature: Signature
    error: str | None = None


@dataclass(frozen=True)
class ModelFiles:
    """One model on disk. error: why its config.json or its folder cannot be used."""

    name: str
    versions: dict[int, VersionFiles]
    config: ModelConfig
    error: str | None = None


class Repository:
    """A folder of models, or one model file, which is then version 1 of a model of its name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root = Path(path).absolute()
        if not self.root.exists():
            raise UsageError(
                "there is no model repository",
                where=str(path),
                expected="a folder with NAME/VERSION/model.{onnx,xml,irc,gguf}, or a model file",
            )
        if self.root.is_file() and self.root.suffix.lower() not in SUFFIXES:
            expected = "a folder, or a file that ends in " + ", ".join(SUFFIXES)
            raise UsageError("this is not a model file", where=str(path), expected=expected)

    def scan(self) -> dict[str, ModelFiles]:
        """The models that are there now, by name."""
        if self.root.is_file() or (self.root / TOKENIZER_FILE).is_file():
            return self._single_model()
        found: dict[str, ModelFiles] = {}
        for folder in _subfolders(self.root):
            if NAME.fullmatch(folder.name) and self._is_inside(folder) and len(found) < MAX_MODELS:
                found[folder.name] = self._read_model(folder)
        return found

    def hide_root(self, text: str) -> str:
        """A message without the repository's own path, which clients need not know."""
        base = self.root.parent if self.root.is_file() else self.root
        return text.replace(str(base) + os.sep, "").replace(os.path.realpath(base) + os.sep, "")

    def _single_model(self) -> dict[str, ModelFiles]:
        name = re.sub(r"[^A-Za-z0-9_.+-]", "_", self.root.stem)[:128].lstrip(".+-") or "model"
        files = [self.root, self.root.with_suffix(".bin")]
        signature = tuple(s for f in files if (s := _sign(f, self.root.parent)) is not None)
        if self.root.is_dir():
            signature = _sign_folder(self.root)
        version = VersionFiles(1, self.root, signature)
        return {name: ModelFiles(name, {1: version}, ModelConfig())}

    def _read_model(self, folder: Path) -> ModelFiles:
        config, error, signed = ModelConfig(), None, None
        path = folder / "config.json"
        if path.exists():
            where = f"{folder.name}/config.json"
            try:
                if not self._is_inside(path):
                    raise ModelLoadError("config.json is not in the repository", where=where)
                config = parse_config(_read_file(path), where)
            except OSError as failure:
                error = f"config.json can't be read: {failure.strerror}"
            except ModelLoadError as failure:
                error = str(failure)
            signed = _sign(path, folder)
        versions: dict[int, VersionFiles] = {}
        for inner in _subfolders(folder):
            if not VERSION.fullmatch(inner.name) or not self._is_inside(inner):
                continue
            models = [p for s in SUFFIXES if (p := inner / f"model{s}").is_file()]
            if (inner / TOKENIZER_FILE).is_file():
                models = [inner]
            if models:
                signature = (*((signed,) if signed else ()), *_sign_folder(inner))
                outside = [p.name for p in _list(inner) if not self._is_inside(p)]
                wrong = f"a link leads out of the repository: {outside[0]}" if outside else None
                number = int(inner.name)
                versions[number] = VersionFiles(number, models[0], signature, wrong)
        return ModelFiles(folder.name, versions, config, error)

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.root.resolve())


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(e.path) for e in entries if e.is_dir())
    except OSError:
        return []


def _list(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder))[:MAX_FILES]]
    except OSError:
        return []


def _sign_folder(folder: Path) -> Signature:
    return tuple(s for path in _list(folder) if (s := _sign(path, folder)) is not None)


def _sign(path: Path, base: Path) -> tuple[str, int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return str(path.relative_to(base)), status.st_size, status.st_mtime_ns, status.st_ino


def _read_file(path: Path) -> bytes:
    """A plain file's first bytes: one more than a config may have. A FIFO is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ModelLoadError("config.json is not a plain file", where=path.parent.name)
        return stream.read(MAX_CONFIG_BYTES + 1)
