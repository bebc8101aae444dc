from __future__ import annotations

import codecs
import shutil
import subprocess
from pathlib import Path

import pytest

from veo_cli.errors import Fault
from veo_cli.text_encoding import decode

TEXTS = {
    "GBK": ("gbk", "prompt: 夜晚的灯塔，海浪拍打着岩石"),
    "SHIFT_JIS": ("shift_jis", "prompt: 夜の灯台と荒れた海のしぶき"),
    "BIG5": ("big5", "prompt: 一座燈塔在霧中，海邊的風與浪"),
    "EUC-KR": ("euc_kr", "prompt: 안개 낀 바위 해안의 등대"),
    "WINDOWS-1252": ("cp1252", "prompt: café près de la mer, naïve façade"),
    "WINDOWS-1251": ("cp1251", "prompt: маяк на скалистом берегу ночью"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_encoding_is_guessed_and_the_command_works(name: str, tmp_path: Path) -> None:
    codec, text = TEXTS[name]
    path = tmp_path / "a file.yaml"
    path.write_bytes(text.encode(codec))
    fault = decode(path.read_bytes(), str(path))
    assert isinstance(fault, Fault)
    assert name in fault.why
    if shutil.which("iconv"):
        command = fault.fix.removeprefix("convert it: ")
        subprocess.run(["sh", "-c", command], check=True)
        assert (tmp_path / "a file.utf8.yaml").read_text(encoding="utf-8") == text


def test_the_bad_byte_is_named() -> None:
    fault = decode("a: é\nb: ".encode() + b"\xff\n", "job.yaml")
    assert isinstance(fault, Fault)
    assert fault.where == "job.yaml:2:4"
    assert "byte 9 is 0xFF" in fault.why


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be", "utf-16-le", "utf-32"])
def test_wide_encodings(codec: str) -> None:
    fault = decode("prompt: a".encode(codec), "job.yaml")
    assert isinstance(fault, Fault)
    assert "UTF-" in fault.why and "iconv -f UTF-" in fault.fix


def test_bom_and_line_ends_go() -> None:
    assert decode(codecs.BOM_UTF8 + b"a: 1\r\nb: 2\rc: 3\n", "job.yaml") == "a: 1\nb: 2\nc: 3\n"
    assert decode((codecs.BOM_UTF8 + b"a\n") * 2, "joined.txt") == "a\na\n"


def test_empty_is_text() -> None:
    assert decode(b"", "job.yaml") == ""
