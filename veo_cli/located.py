"""Values as written in a file, each with its line and column (both from 1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_DEPTH = 32
MAX_NODES = 200_000

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER = 400  # characters; anything longer is text


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, and whether it stood there without quotes (only then can it be a number, true, false or null)."""

    text: str
    plain: bool
    line: int
    column: int

    @property
    def value(self) -> bool | int | float | str | None:
        return core_value(self.text) if self.plain else self.text


@dataclass(frozen=True, slots=True)
class ListNode:
    items: tuple[Node, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class MapNode:
    """Keys are unique, in the order written."""

    entries: tuple[tuple[Scalar, Node], ...]
    line: int
    column: int


Node = Scalar | ListNode | MapNode


class SyntaxFault(Exception):
    """The text is not what its format allows; the place is where reading stopped."""

    def __init__(self, what: str, line: int, column: int, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.line, self.column, self.why, self.fix = what, line, column, why, fix


def core_value(text: str) -> bool | int | float | str | None:
    """A plain scalar by the YAML 1.2 core schema, except that a number with a leading zero stays text.

    (010 is 10 to YAML 1.2, 8 to YAML 1.1: so it is neither here, and an error where a number is asked.)
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def plain_value(node: Node) -> object:
    """The node as None, bool, int, float, str, list and dict."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, ListNode):
        return [plain_value(item) for item in node.items]
    return {key.text: plain_value(value) for key, value in node.entries}
