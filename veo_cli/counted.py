"""Numbers of things, for people: "1 job", "2 jobs"."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number, with a comma at the thousands, and the noun, with an s unless there is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
