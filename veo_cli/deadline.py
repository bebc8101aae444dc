"""Times on the command line: `--deadline 06:00`, `--deadline 90m`, `--since 24h`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from veo_cli.errors import Fault, SpecificationError

_UNIT_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PART = r"(\d+(?:\.\d+)?)\s*(min|[smhd])"
_LONGEST_S = 10 * 366 * 86400


def parse_deadline(text: str, now: datetime) -> datetime:
    """The moment that `text` means, local time without a zone, as `now` is.

    `HH:MM` is today, or tomorrow where that is past; `90m`, `1.5h`, `45s` and `1h30m` count from now.
    Raises SpecificationError.
    """
    clock = re.fullmatch(r"(\d{1,2}):(\d{2})", text.strip())
    if clock and int(clock[1]) < 24 and int(clock[2]) < 60:
        today = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        return today if today > now else today + timedelta(days=1)
    duration = _duration(text)
    if duration is not None:
        return now + duration
    raise SpecificationError(
        Fault(
            f"“{text}” is no time of day and no duration",
            where="--deadline",
            fix="write a local time such as 06:00, or a duration such as 90m or 1h30m",
        )
    )


def parse_since(text: str, now: datetime) -> datetime:
    """The moment that `text` means, as an aware datetime: a date or time (local by default) or an age.

    now: aware. Raises SpecificationError.
    """
    duration = _duration(text)
    if duration is not None:
        return now - duration
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise SpecificationError(
            Fault(
                f"“{text}” is no date and no duration",
                where="--since",
                fix="write 2026-01-31, 2026-01-31T06:00, or how long ago: 24h, 7d",
            )
        ) from None


def _duration(text: str) -> timedelta | None:
    if not re.fullmatch(rf"(?:\s*{_PART})+\s*", text):
        return None
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in re.findall(_PART, text))
    return timedelta(seconds=seconds) if 0 < seconds < _LONGEST_S else None
