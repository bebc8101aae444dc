"""`--events FILE`: one JSON object a line, appended; several runs may share a file."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from veo_cli import durable_file
from veo_cli.events import SCHEMA_VERSION, Event

_MID_WRITE_S = 0.05  # a write of one line is over long before


class EventsFile:
    """A Listener. Every line is one write on an O_APPEND descriptor, so lines of two processes never mix.

    A file that cannot be opened, for want of its folder as well, is an EnvironmentFault; a disk that fills up later is
    told to `warn`, once, and the run goes on: a clip is worth more than the account of it. Events come again as soon as
    there is room.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._warned = False
        self._run_id = uuid.uuid4().hex[:12]
        durable_file.require_place(path)
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            # A run killed in the middle of a write leaves half a line; ours must not be glued to it.
            self._line_is_torn = _ends_in_half_a_line(path)
        except OSError as error:
            raise durable_file.as_veo_error(error, path) from error

    def __call__(self, event: Event) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = {"v": SCHEMA_VERSION, "time": now, "run_id": self._run_id, "event": event.name}
        line = json.dumps(head | event.fields(), ensure_ascii=False, default=str) + "\n"
        data = (("\n" if self._line_is_torn else "") + line).encode("utf-8", "surrogateescape")
        try:
            written = os.write(self._descriptor, data)
        except OSError as error:
            self._say(error.strerror or str(error))
            return
        self._line_is_torn = written < len(data) and (written > 0 or self._line_is_torn)
        if written < len(data):
            self._say("no space left on the disk")

    def close(self) -> None:
        os.close(self._descriptor)

    def _say(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"events are missing from {self._path} ({why}); the run goes on")


def _ends_in_half_a_line(path: Path) -> bool:
    """Whether the last line has no end, and is not one that another run is just writing."""
    size = _size_of_torn(path)
    if size == 0:
        return False
    time.sleep(_MID_WRITE_S)
    return _size_of_torn(path) == size


def _size_of_torn(path: Path) -> int:
    """The size of a file in bytes; 0 if its last line is whole."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return 0
        file.seek(size - 1)
        return 0 if file.read(1) == b"\n" else size
