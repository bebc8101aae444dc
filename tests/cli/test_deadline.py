"""Times on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from veo_cli.deadline import parse_deadline, parse_since
from veo_cli.errors import SpecificationError

NOW = datetime(2026, 3, 31, 22, 15, 30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("23:00", datetime(2026, 3, 31, 23, 0)),
        ("06:00", datetime(2026, 4, 1, 6, 0)),  # past today: tomorrow's
        ("22:15", datetime(2026, 4, 1, 22, 15)),  # just past
        ("6:05", datetime(2026, 4, 1, 6, 5)),
        ("00:00", datetime(2026, 4, 1, 0, 0)),
        ("90m", NOW + timedelta(minutes=90)),
        ("90 min", NOW + timedelta(minutes=90)),
        ("1.5h", NOW + timedelta(minutes=90)),
        ("1h30m", NOW + timedelta(minutes=90)),
        ("45s", NOW + timedelta(seconds=45)),
    ],
)
def test_deadline(text: str, expected: datetime) -> None:
    assert parse_deadline(text, NOW) == expected


@pytest.mark.parametrize(
    "text", ["24:00", "6", "", "soon", "6:5", "0m", "-5m", "5m later", "12:60", "1e400h"]
)
def test_what_is_no_deadline_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        parse_deadline(text, NOW)
    assert caught.value.faults[0].where == "--deadline"
    assert "06:00" in caught.value.faults[0].fix


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24h", NOW.astimezone() - timedelta(hours=24)),
        ("7d", NOW.astimezone() - timedelta(days=7)),
        ("2026-03-30", datetime(2026, 3, 30).astimezone()),
        ("2026-03-30T06:00", datetime(2026, 3, 30, 6).astimezone()),
        ("2026-03-30T06:00+00:00", datetime.fromisoformat("2026-03-30T06:00+00:00")),
    ],
)
def test_since(text: str, expected: datetime) -> None:
    assert parse_since(text, NOW.astimezone()) == expected


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(SpecificationError) as caught:
        parse_since("yesterday", NOW.astimezone())
    assert caught.value.faults[0].where == "--since"
