"""Asking a run to stop at its next safe point: signals and the deadline."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType

from veo_cli.errors import DeadlineReached, Interrupted, Stopped, Terminated


class StopRequest:
    """Set by a signal or the deadline, looked at between steps and chunks.

    SIGINT once: finish the step, checkpoint, stop; twice: stop at once (KeyboardInterrupt). SIGTERM: as SIGINT once.
    SIGHUP is ignored, so that a batch outlives the terminal it was started from.
    """

    def __init__(
        self, deadline: datetime | None = None, on_signal: Callable[[str], None] | None = None
    ) -> None:
        """on_signal: told "interrupted" or "terminated" at the first signal, from a thread of its own, since a signal
        handler may interrupt the very write that it would make."""
        self.deadline = deadline
        self._tell = on_signal
        # Queues and not events: their `put` may be called by a handler that interrupts another `put`.
        self._signalled: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._wake_teller: queue.SimpleQueue[None] = queue.SimpleQueue()  # a signal, or the end of listening
        self._reason: type[Stopped] | None = None

    @property
    def reason(self) -> type[Stopped] | None:
        if self._reason is None and self.deadline is not None and datetime.now() >= self.deadline:
            return DeadlineReached
        return self._reason

    def raise_if_requested(self, kept: str) -> None:
        """Raise Interrupted, Terminated or DeadlineReached if a stop was asked for. `kept` says what is safe on disk."""
        reason = self.reason
        if reason is not None:
            what = {Interrupted: "interrupted", Terminated: "terminated"}.get(
                reason, "stopped at the deadline"
            )
            raise reason(what, fix="run the same command again to go on", kept=kept)

    def sleep(self, seconds: float) -> None:
        """Wait, but not past the deadline, and no longer once a signal asks for a stop."""
        if self.deadline is not None:
            seconds = min(seconds, max(0.0, (self.deadline - datetime.now()).total_seconds()))
        if self._reason is None:
            with contextlib.suppress(queue.Empty):
                self._signalled.get(timeout=seconds)

    def _tell_of_signal(self) -> None:
        self._wake_teller.get()
        tell = self._tell
        if tell is not None and self._reason is not None:
            tell(self._reason.code)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self._reason = Terminated
        elif self._reason is not None:
            raise KeyboardInterrupt
        else:
            self._reason = Interrupted
        self._signalled.put(None)
        self._wake_teller.put(None)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside the block (main thread only) and put the old handlers back after it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        # A run started by `nohup` or in a shell's background inherits an ignored SIGINT; keep it so.
        if old[signal.SIGINT] is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        threading.Thread(target=self._tell_of_signal, name="signal-teller", daemon=True).start()
        try:
            yield
        finally:
            self._tell = None  # too late to say it
            self._wake_teller.put(None)
            for number, handler in old.items():
                signal.signal(number, handler)
