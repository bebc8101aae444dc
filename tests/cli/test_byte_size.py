"""Amounts of memory, both ways."""

from __future__ import annotations

import pytest

from veo_cli import byte_size
from veo_cli.errors import SpecificationError


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**30, "3.0 GiB"), (5 * 2**40, "5.0 TiB")],
)
def test_in_words(num_bytes: int, words: str) -> None:
    assert byte_size.in_words(num_bytes) == words


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("24GiB", 24 * 2**30),
        ("24G", 24 * 2**30),
        ("1.5 GiB", 3 * 2**29),
        ("500MB", 500_000_000),
        ("8000000000", 8_000_000_000),
        ("512 b", 512),
    ],
)
def test_parse(text: str, num_bytes: int) -> None:
    assert byte_size.parse(text, "--max-vram") == num_bytes


@pytest.mark.parametrize("text", ["", "lots", "0", "-1G", "0.0001", "24 GiBs", "1e9"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        byte_size.parse(text, "--max-vram")
    assert caught.value.faults[0].where == "--max-vram"
