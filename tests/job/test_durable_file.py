"""A durable file is the old one or the new one whole, whatever fails on the way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from veo_cli import durable_file
from veo_cli.errors import DiskFull, EnvironmentFault


def failing(code: int):
    def fail(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("call", ["write_all", "fsync", "rename"])
@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, DiskFull), (errno.EIO, EnvironmentFault)])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, error: type[Exception]
) -> None:
    path = tmp_path / "state"
    durable_file.replace_checked(path, b"old")
    monkeypatch.setattr(durable_file, call, failing(code))
    with pytest.raises(error, match=str(path)):
        durable_file.replace_checked(path, b"new")
    assert durable_file.read_checked(path) == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("position", [0, 7, 20, 40, -1])
def test_a_flipped_bit_is_found(tmp_path: Path, position: int) -> None:
    path = tmp_path / "state"
    durable_file.replace_checked(path, b"payload of some length")
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(durable_file.Damaged):
        durable_file.read_checked(path)


@pytest.mark.parametrize("length", [0, 3, 37, 50])
def test_a_truncated_file_is_found(tmp_path: Path, length: int) -> None:
    path = tmp_path / "state"
    durable_file.replace_checked(path, b"payload of some length")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(durable_file.Damaged):
        durable_file.read_checked(path)
