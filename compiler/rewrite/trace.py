"""What the passes did: rule hits, near misses with their reasons, and graphs after each pass.

`IRC_TRACE=1` prints the events to stderr as they come; `IRC_DUMP_GRAPH=folder` writes the graph's
text after each pass there, numbered in order.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from dataclasses import field
from pathlib import Path

from ...ir.escape import escape_text
from ...ir.graph import Graph
from ...ir.lazy_dataclass import dataclass
from ...ir.text.graph_text import print_graph


@dataclass(frozen=True)
class Event:
    """One application of a rule, or one near miss (`refused` says why)."""

    passname: str
    rule: str
    node: str
    refused: str | None = None


@dataclass
class Trace:
    """Collects events; `budget` counts down applied patches (None: without end). `seconds` are by
    pass, without verification."""

    budget: int | None = None
    events: list[Event] = field(default_factory=list[Event])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    # Traces of the bodies of control flow by the name of node and body.
    bodies: dict[str, Trace] = field(default_factory=dict[str, "Trace"])
    name: str = ""
    # Whether IRC_TRACE prints it.
    aloud: bool = True
    _refused: set[Event] = field(default_factory=set[Event])
    _dumped: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether the budget of rule applications is used up."""
        return self.budget is not None and self.budget <= 0

    def enter(self, body: str) -> Trace:
        """The trace of a body, which spends this one's budget until `leave`."""
        inner = Trace(
            self.budget, name=f"{self.name}{body}.", aloud=self.aloud, _dumped=self._dumped
        )
        return self.bodies.setdefault(body, inner)

    def leave(self, inner: Trace) -> None:
        """Go on with the rest of the budget."""
        self.budget, self._dumped = inner.budget, inner._dumped

    def hit(self, passname: str, rule: str, node: str) -> None:
        """Record an applied patch."""
        if self.budget is not None:
            self.budget -= 1
        self._record(Event(passname, rule, node))

    def refusal(self, passname: str, rule: str, node: str, reason: str) -> None:
        """Record a near miss, once per rule and node."""
        event = Event(passname, rule, node, reason)
        if event not in self._refused:
            self._refused.add(event)
            self._record(event)

    def _record(self, event: Event) -> None:
        self.events.append(event)
        if self.aloud and os.environ.get("IRC_TRACE") == "1":
            text = f"refused: {event.refused}" if event.refused else "applied"
            line = f"[{event.passname}] {event.rule} at {event.node}: {text}"
            print(escape_text(line), file=sys.stderr)

    def hits(self) -> Counter[str]:
        """How often each rule was applied."""
        return Counter(e.rule for e in self.events if e.refused is None)

    def hits_everywhere(self) -> Counter[str]:
        """The same, with what was applied inside control flow."""
        inside = (body.hits_everywhere() for body in self.bodies.values())
        return sum(inside, start=self.hits())

    def refusals(self) -> list[Event]:
        """The near misses."""
        return [e for e in self.events if e.refused is not None]

    def after_pass(self, passname: str, graph: Graph, seconds: float) -> None:
        """Note the time of a pass and dump the graph if requested."""
        self.seconds[passname] = self.seconds.get(passname, 0.0) + seconds
        folder = os.environ.get("IRC_DUMP_GRAPH")
        if folder:
            self._dumped += 1
            where = re.sub(r"[^\w.-]", "_", self.name)
            path = Path(folder) / f"{self._dumped:02d}_{where}{passname}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(print_graph(graph), encoding="utf-8")
