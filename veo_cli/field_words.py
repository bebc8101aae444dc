"""Sizes and durations in words."""

from __future__ import annotations

import re

RESOLUTIONS: dict[str, tuple[int, int]] = {
    "144p": (256, 144),
    "240p": (426, 240),
    "360p": (640, 360),
    "480p": (854, 480),
    "540p": (960, 540),
    "720p": (1280, 720),
    "hd": (1280, 720),
    "1080p": (1920, 1080),
    "full-hd": (1920, 1080),
    "fhd": (1920, 1080),
    "1440p": (2560, 1440),
    "qhd": (2560, 1440),
    "2k": (2560, 1440),
    "2160p": (3840, 2160),
    "uhd": (3840, 2160),
    "4k": (3840, 2160),
    "dci-2k": (2048, 1080),
    "dci-4k": (4096, 2160),
    "4320p": (7680, 4320),
    "8k": (7680, 4320),
}

_PAIR = re.compile(r"([0-9]{1,6})\s*[x×X*]\s*([0-9]{1,6})")
_DURATION = re.compile(
    r"([0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})\s*(ms|s|sec|secs|seconds?|m|min|minutes?)?"
)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0}


def parse_resolution(text: str) -> tuple[int, int]:
    """(width, height) in pixels of "1280x720", "1280*720", "720p", "4k". Raises ValueError."""
    word = text.strip().lower().replace(" ", "-").replace("_", "-")
    if word in RESOLUTIONS:
        return RESOLUTIONS[word]
    pair = _PAIR.fullmatch(text.strip())
    if not pair:
        raise ValueError(text)
    return int(pair[1]), int(pair[2])


def parse_duration(text: str) -> float:
    """Seconds of "4s", "2.5 s", "250ms", "1.5 min", or of a bare number. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if not match:
        raise ValueError(text)
    unit = match[2] or "s"
    return float(match[1]) * _UNIT_S["ms" if unit == "ms" else unit[0]]
