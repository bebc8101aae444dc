"""Bytes of a prompt file to text: UTF-8 with or without BOM, or an error that names the byte and what
helps.
"""

from __future__ import annotations

import codecs
import re
import shlex

from veo_cli.errors import Fault

_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32LE"),
    (codecs.BOM_UTF32_BE, "UTF-32BE"),
    (codecs.BOM_UTF16_LE, "UTF-16LE"),
    (codecs.BOM_UTF16_BE, "UTF-16BE"),
)
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")


def decode(data: bytes, path: str) -> str | Fault:
    """The text with LF line ends and no BOM; a Fault when the bytes are not UTF-8."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _not_utf8(path, 0, 1, 1, name, data[: len(bom)])
    head = data[:200]
    if head.count(0) * 4 > len(head):  # half of the bytes of English in UTF-16 are 0
        guess = "UTF-16BE" if head[::2].count(0) > head[1::2].count(0) else "UTF-16LE"
        return _not_utf8(path, data.find(0), 1, data.find(0) + 1, guess, b"\x00")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        offset = error.start + (3 if data.startswith(codecs.BOM_UTF8) else 0)
        line, column = _place(data, offset)
        return _not_utf8(path, offset, line, column, guess_encoding(data), data[offset : offset + 1])
    if 0 in data:
        line, column = _place(data, data.find(0))
        fix = f"delete it: tr -d '\\000' {_rewriting(path, 'clean', '< ')}".rstrip()
        return Fault(
            "a NUL byte", f"{path}:{line}:{column}", "no text has one: not a text file, or a damaged one", fix
        )
    # Joined files have a BOM inside; it is no character of any prompt.
    return text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n")


def guess_encoding(data: bytes) -> str:
    """iconv's name of the likeliest legacy encoding of a text that is not UTF-8; "" when none fits.

    A guess: lone high bytes between ASCII letters are a Western or Cyrillic code page; runs of them East
    Asian pairs.
    """
    runs = _HIGH_RUN.findall(data)
    for codec, name in (("shift_jis", "SHIFT_JIS"), ("euc_jp", "EUC-JP")):
        if _share(data, codec, "\u3041", "\u30fa") > 0.15:  # kana: no Japanese text goes without
            return name
    if sum(len(run) == 1 for run in runs) * 2 > len(runs):
        return "WINDOWS-1252"
    capitals_up = sum(byte >= 0xC0 for run in runs for byte in run)  # where CP1251 has its letters
    high = sum(len(run) for run in runs)
    if sum(len(run) % 2 for run in runs) * 3 > len(runs) and capitals_up * 10 >= high * 9:
        return "WINDOWS-1251"
    if high >= 12 and _share(data, "euc_kr", "\uac00", "\ud7a3") > 0.95:  # Chinese read so is part hanja
        return "EUC-KR"
    for codec, name in (("gbk", "GBK"), ("big5", "BIG5")):
        if _share(data, codec, "\u0080", "\uffff") > 0:
            return name
    return "WINDOWS-1252"


def _share(data: bytes, codec: str, first: str, last: str) -> float:
    """Of the non-ASCII characters, the share from `first` to `last`; 0 when the bytes are not in that
    encoding.
    """
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return 0.0
    foreign = [char for char in text if not char.isascii()]
    return sum(first <= char <= last for char in foreign) / max(1, len(foreign))


def _place(data: bytes, offset: int) -> tuple[int, int]:
    """Line and column, in characters, from 1."""
    before = data[:offset]
    line_start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[line_start:].decode("utf-8", "replace")) + 1


def _rewriting(path: str, word: str, reads: str = "") -> str:
    """The arguments with which a filter reads `path` and writes a copy with `word` in its name; "" for stdin."""
    if path == "stdin":
        return ""
    stem, dot, suffix = path.rpartition(".")
    target = f"{stem}.{word}.{suffix}" if dot and "/" not in suffix else f"{path}.{word}"
    return f"{reads}{shlex.quote(path)} > {shlex.quote(target)}"


def _not_utf8(path: str, offset: int, line: int, column: int, guess: str, bad: bytes) -> Fault:
    command = f"iconv -f {guess or 'ENCODING'} -t UTF-8 {_rewriting(path, 'utf8')}".rstrip()
    return Fault(
        "the file is not UTF-8",
        f"{path}:{line}:{column}",
        f"byte {offset} is 0x{bad.hex().upper()}" + (f"; it looks like {guess}" if guess else ""),
        f"convert it: {command}",
    )
