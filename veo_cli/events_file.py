"""`--events FILE`: one JSON object a line, appended; several runs may share a file."""

from __future__ import annotations

import json
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path

from veo_cli import durable_file
from veo_cli.events import SCHEMA_VERSION, Event


class EventsFile:
    """A Listener. Every line is one write on an O_APPEND descriptor, so lines of two processes never mix."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._run_id = uuid.uuid4().hex[:12]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            self._end_a_torn_line()
        except OSError as error:
            raise durable_file.as_veo_error(error, path) from error

    def __call__(self, event: Event) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        head = {"v": SCHEMA_VERSION, "time": now, "run_id": self._run_id, "event": event.name}
        line = json.dumps(head | event.fields(), ensure_ascii=False, default=str) + "\n"
        try:
            os.write(self._descriptor, line.encode())
        except OSError as error:
            raise durable_file.as_veo_error(error, self._path) from error

    def close(self) -> None:
        os.close(self._descriptor)

    def _end_a_torn_line(self) -> None:
        """A run killed in the middle of a write leaves half a line; ours must not be glued to it."""
        size = self._path.stat().st_size
        if size:
            with self._path.open("rb") as file:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    os.write(self._descriptor, b"\n")
