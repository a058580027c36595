"""Inference requests: each keeps the values of the model's variables from run to run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..ir.errors import ExecutionError
from ..plan.specs.attention import BLOCK_KEYS
from ..runtime.driver.thread_pool import watch_forks
from ..runtime.execution.variables import VariableStore
from .ports import Outputs, PortTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..runtime.execution.session import Session

# Attention adds up keys block by block, from the first on. A masked key adds nothing, so sums do
# not depend on masked keys as long as the others stay in their blocks and in order.
ATTENTION_BLOCK_KEYS: Final = BLOCK_KEYS


class InferRequest:
    """A model with state of its own: what one run assigns to a variable, the next one reads.

    Any number of requests of one model run at the same time, each with its own values; one request
    runs once at a time (ExecutionError for a second thread). A model without variables runs here
    as it does when it is called.
    """

    def __init__(
        self,
        session: Session,
        ordered: Callable[[Any, Mapping[str, Any]], list[Any]],
        given: PortTable,
        show: Callable[[Sequence[Any]], Outputs],
    ) -> None:
        self._session, self._ordered, self._given, self._show = session, ordered, given, show
        self._state = VariableStore(session.program.plan)
        self._busy = threading.Lock()
        watch_forks(self)

    def after_fork(self) -> None:
        """In a child no other thread is running this request: what one had begun is not done."""
        self._busy = threading.Lock()

    def infer(self, inputs: Any = None, /, *, out: Any = None, **named: Any) -> Outputs:
        """Run; inputs, `out` and results are those of a call of the model.

        Where a run fails, the variables keep the values they had.
        """
        values = self._ordered(inputs, named)
        with self._exclusive_state():
            given = None if out is None else self._given.order_inputs(out)
            return self._show(self._session.run(values, self._state, out=given))

    __call__ = infer

    def query_state(self) -> tuple[VariableState, ...]:
        """The variables, in the model's order."""
        return tuple(VariableState(self, n) for n in range(len(self._state.variables)))

    def reset_state(self) -> None:
        """All variables take their initial values in the next run."""
        with self._exclusive_state():
            self._state.reset()

    def state_nbytes(self) -> int:
        """Bytes of the variables' values."""
        with self._exclusive_state() as state:
            return state.nbytes()

    def trim_state(self, axis: int, size: int) -> None:
        """Keep the first `size` positions along an axis of every variable that has more: a
        key-value cache forgets its last tokens. InputError for an axis that a value lacks."""
        with self._exclusive_state() as state:
            state.trim(axis, size)

    def drop_state(self, axis: int, count: int) -> None:
        """Forget the first `count` positions along an axis of every variable: those that a sliding
        window has left. InputError for an axis that a value lacks."""
        with self._exclusive_state() as state:
            state.drop(axis, count)

    def state_views(self) -> list[NDArray[Any]]:
        """The variables' values without a copy, in the model's order: what is written there is what
        the next run reads. They are valid up to the next run. InputError before the first run."""
        with self._exclusive_state() as state:
            return state.views()

    def renew_state(self, sizes: Mapping[int, int]) -> list[NDArray[Any]]:
        """Give every variable zeros, of these sizes by axis and the model's sizes along others;
        returns `state_views`. InputError for a size that the model does not allow."""
        with self._exclusive_state() as state:
            return state.renew(sizes)

    @contextmanager
    def _exclusive_state(self) -> Iterator[VariableStore]:
        if not self._busy.acquire(blocking=False):
            raise ExecutionError(
                "the request is running in another thread",
                fix="create a request per thread: they run side by side",
            )
        try:
            yield self._state
        finally:
            self._busy.release()


class VariableState:
    """One variable of a request."""

    def __init__(self, request: InferRequest, number: int) -> None:
        self._request, self._number = request, number

    @property
    def name(self) -> str:
        """The variable's name in the model (`variable_id`)."""
        return self._request._state.variables[self._number].name

    @property
    def state(self) -> NDArray[Any]:
        """A copy of its value. Before the first run, and after a reset: zeros, of the least size
        along open axes; what initialises it is computed by the next run."""
        with self._request._exclusive_state() as state:
            return state.show(self._number)

    @state.setter
    def state(self, value: Any) -> None:
        """Give it another value (copied) of its type. InputError."""
        with self._request._exclusive_state() as state:
            state.put(self._number, value)

    def reset(self) -> None:
        """It takes its initial value in the next run."""
        with self._request._exclusive_state() as state:
            state.values[self._number] = None

    def __repr__(self) -> str:
        return f"<irc variable {self.name!r}>"
