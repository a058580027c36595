"""Products of groups of K on tiles of AMX, whose sums are scaled apart.

The sums of one group are stored to memory while the products of the next one follow: each register
begins anew behind its store (docs/dev/tuning/int8-activations-amx.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...llvmir.builder import Function
from ...llvmir.values import Value, integer
from .amx_registers import AMX_ROWS, AmxTiles, TileAddress, on_tile

_REGISTER_BYTES = 64
Writes = Sequence[Callable[[], None]]
# What loads the left and the right factors of one step of K.
GroupStep = tuple[Callable[[int], TileAddress], Callable[[int], TileAddress]]


class GroupProducts:
    """Products of `shape` registers of sums (down, across), which are stored at `sums`, rows `line`
    bytes apart."""

    def __init__(
        self,
        f: Function,
        tiles: AmxTiles,
        instruction: str,
        shape: tuple[int, int],
        sums: Value,
        line: int,
    ) -> None:
        self.f, self.tiles, self.instruction = f, tiles, instruction
        self.shape, self.sums, self.line = shape, sums, line

    def multiply_all(
        self,
        count: Value,
        steps: Callable[[Value], Sequence[GroupStep]],
        use: Callable[[Value], None],
    ) -> None:
        """The products of `count` groups, one or more. steps: of a group; use: reads the sums of a
        group, which are stored."""
        f = self.f
        self.multiply(steps(integer(0)))
        with f.range(0, count, outer=True) as index:
            following = f.add(index, 1)
            with f.if_(f.icmp("slt", following, count)) as branch:
                self.multiply_next(steps(following))
                branch.else_()
                self.store()
            use(index)

    def multiply(self, steps: Sequence[GroupStep], interleaved: Writes = ()) -> None:
        """The products of the first group. What `interleaved` writes is spread among them."""
        self._multiply(steps, [partial(self._clear, i) for i in self._registers()], interleaved)

    def multiply_next(self, steps: Sequence[GroupStep], interleaved: Writes = ()) -> None:
        """The products of another group, each behind the store of its register's last sums."""
        clears = [partial(self._store_and_clear, i) for i in self._registers()]
        self._multiply(steps, clears, interleaved)

    def store(self) -> None:
        """The stores of the last group's sums."""
        for index in self._registers():
            self._store(index)

    def _registers(self) -> list[tuple[int, int]]:
        down, across = self.shape
        return [(i, j) for i in range(down) for j in range(across)]

    def _multiply(self, steps: Sequence[GroupStep], clears: Writes, interleaved: Writes) -> None:
        count = len(steps)
        for n, (left, right) in enumerate(steps):
            share = interleaved[len(interleaved) * n // count : len(interleaved) * (n + 1) // count]
            writes = _interleave(clears, share) if n == 0 else share
            self.tiles.multiply(self.f, self.instruction, self.shape, left, right, writes)

    def _store(self, index: tuple[int, int]) -> None:
        down, across = index
        at = down * AMX_ROWS * self.line + across * _REGISTER_BYTES
        to, register = self.f.offset(self.sums, at), self.tiles.total(down, across)
        on_tile(self.f, "tilestored64", register, to, integer(self.line))

    def _clear(self, index: tuple[int, int]) -> None:
        on_tile(self.f, "tilezero", self.tiles.total(*index))

    def _store_and_clear(self, index: tuple[int, int]) -> None:
        self._store(index)
        self._clear(index)


def _interleave(first: Writes, second: Writes) -> Writes:
    """Each of `first` in front of its share of `second`."""
    found: list[Callable[[], None]] = []
    for i, write in enumerate(first):
        share = second[len(second) * i // len(first) : len(second) * (i + 1) // len(first)]
        found.append(partial(_write_all, [write, *share]))
    return found


def _write_all(writes: Writes) -> None:
    for write in writes:
        write()
