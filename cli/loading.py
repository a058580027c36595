"""Interrupts while modules are imported."""

from __future__ import annotations

import signal


class Loading:
    """While this is entered, Ctrl-C waits for its end and is a KeyboardInterrupt there: inside an
    import it may arrive as another error, and libraries in C print its traceback."""

    def __enter__(self) -> None:
        self.came, self.before = False, signal.getsignal(signal.SIGINT)
        self.ours = callable(self.before)  # neither ignored nor the system's
        try:
            if self.ours:
                signal.signal(signal.SIGINT, self.note)
        except ValueError:  # not the main thread: interrupts are not ours
            self.ours = False

    def note(self, number: int, frame: object) -> None:
        self.came = True

    def __exit__(self, *error: object) -> None:
        if self.ours:
            signal.signal(signal.SIGINT, self.before)
        if self.came:
            raise KeyboardInterrupt from None
