"""The whole error family: one clear message says what, where, got, expected and how to fix it.

The exit codes are the command line's contract (docs/dev/architecture.md): 2 usage, 3 a file is
unreadable or invalid, 4 unsupported, 5 failed at run time; 1 is a comparison that failed.
"""

from __future__ import annotations

from .escape import escape_text


class Lines(tuple[str, ...]):
    """A part of a message that takes several lines, such as a list of operations."""

    def __str__(self) -> str:
        return "".join(f"\n    {escape_text(line)}" for line in self)


class Error(Exception):
    """Base of everything irc raises on purpose.

    `what` is one sentence; the optional parts are printed as one indented line each. Parts that
    hold a model's own text are shortened by the caller where it could be long. The message escapes
    control characters; the attributes hold the text as given.
    """

    exit_code = 5

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        got: object = None,
        expected: object = None,
        fix: str | None = None,
    ) -> None:
        self.what, self.where, self.got, self.expected, self.fix = what, where, got, expected, fix
        super().__init__(what)

    def __str__(self) -> str:
        parts = (
            ("where", self.where),
            ("got", self.got),
            ("expected", self.expected),
            ("fix", self.fix),
        )
        shown = (f"  {k}: {_format_part(v)}" for k, v in parts if v is not None)
        return "\n".join([escape_text(self.what), *shown])

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.got, self.expected, self.fix)


def _format_part(part: object) -> str:
    return str(part) if isinstance(part, Lines) else escape_text(str(part))


def _rebuild(kind: type[Error], what: str, *parts: object) -> Error:
    names = ("where", "got", "expected", "fix")
    return kind(what, **dict(zip(names, parts, strict=True)))  # type: ignore[arg-type]


class UsageError(Error):
    """An option or argument is wrong; nothing was read."""

    exit_code = 2


class ModelFormatError(Error):
    """A model file is unreadable, broken or contradicts itself."""

    exit_code = 3


class ShapeError(ModelFormatError):
    """Shapes or element types of a model do not fit together."""


class ArtifactError(Error):
    """A `.irc` file is damaged, of another version, or not one at all."""

    exit_code = 3


class UnsupportedOperationError(Error):
    """The model needs what irc does not have; all such operations are listed in one error."""

    exit_code = 4


class InputError(Error):
    """An input of a run is missing, unknown, or of the wrong type or shape."""


class InputFileError(InputError):
    """A file that holds an input's values can't be read."""

    exit_code = 3


class ExecutionError(Error):
    """A step failed while running: the message names the node, the code and the element."""


class MemoryLimitError(Error):
    """A tensor or arena would exceed `max_memory`."""


class memory_errors:
    """MemoryLimitError for a MemoryError inside: memory that the system refuses, such as for the
    copy of an array that is not contiguous."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemoryError):
            raise MemoryLimitError(
                "the system has not enough memory for this",
                got=str(error)[:200] or "no more memory",
                fix="use smaller inputs, or set max_memory to refuse them before memory is taken",
            ) from error


class VerificationError(Error):
    """A graph or plan breaks an invariant: a fault of a pass or a forged artefact."""
