"""JSON to located values: one or more top-level values (so JSON Lines too), strict otherwise."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner; typeshed leaves it out

from veo_cli.located import MAX_DEPTH, ListNode, MapNode, Node, Scalar, SyntaxFault

_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile("[\ud800-\udfff]")  # json joins the pairs; what is left is alone
_LITERAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")


def read_documents(text: str) -> list[Node | None]:
    """The top-level values. Raises SyntaxFault, for duplicate keys too."""
    return list(_Reader(text).documents())


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._line = 0

    def documents(self) -> list[Node | None]:
        documents: list[Node | None] = []
        while self._peek():
            documents.append(self._value(0))
        return documents

    def _peek(self) -> str:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _place(self, index: int) -> tuple[int, int]:
        while self._line + 1 < len(self._line_starts) and self._line_starts[self._line + 1] <= index:
            self._line += 1
        line = self._line
        while self._line_starts[line] > index:
            line -= 1
        return line + 1, index - self._line_starts[line] + 1

    def _fault(self, what: str, fix: str = "") -> SyntaxFault:
        return SyntaxFault("not valid JSON", *self._place(self._at), why=what, fix=fix)

    def _value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._fault(f"nested more than {MAX_DEPTH} deep")
        first = self._peek()
        if first == "{":
            return self._map(depth)
        if first == "[":
            return self._list(depth)
        if first == '"':
            return self._string()
        line, column = self._place(self._at)
        match = _LITERAL.match(self._text, self._at)
        if not match:
            fix = "use double quotes" if first == "'" else ""
            raise self._fault(
                f"a value is missing before {first!r}" if first else "the file ends too early", fix
            )
        self._at = match.end()
        return Scalar(match.group(), True, line, column)

    def _string(self) -> Scalar:
        line, column = self._place(self._at)
        try:
            text, self._at = scanstring(self._text, self._at + 1, True)
        except json.JSONDecodeError as error:
            self._at = error.pos
            raise self._fault(error.msg) from None
        half = _SURROGATE.search(text)
        if half:
            why = f"\\u{ord(half.group()):04x} is half of a character"
            fix = "write the character itself, or both halves, as in \\ud83d\\ude80"
            raise SyntaxFault("not valid JSON", line, column, why=why, fix=fix)
        return Scalar(text, False, line, column)

    def _list(self, depth: int) -> ListNode:
        line, column = self._place(self._at)
        self._at += 1
        items: list[Node] = []
        if self._peek() != "]":
            items.append(self._value(depth + 1))
            while self._peek() == ",":
                self._at += 1
                items.append(self._value(depth + 1))
            if self._peek() != "]":
                raise self._fault("a comma or ] is missing here")
        self._at += 1
        return ListNode(tuple(items), line, column)

    def _map(self, depth: int) -> MapNode:
        line, column = self._place(self._at)
        self._at += 1
        entries: dict[str, tuple[Scalar, Node]] = {}
        if self._peek() != "}":
            self._entry(entries, depth)
            while self._peek() == ",":
                self._at += 1
                self._entry(entries, depth)
            if self._peek() != "}":
                raise self._fault("a comma or } is missing here")
        self._at += 1
        return MapNode(tuple(entries.values()), line, column)

    def _entry(self, entries: dict[str, tuple[Scalar, Node]], depth: int) -> None:
        if self._peek() != '"':
            fix = "delete the comma before it" if self._peek() == "}" else ""
            raise self._fault("a field's name in double quotes is missing here", fix)
        key = self._string()
        if key.text in entries:
            first = entries[key.text][0]
            raise SyntaxFault(
                f"{key.text} is given twice",
                key.line,
                key.column,
                why=f"first at line {first.line}, column {first.column}",
                fix="delete one of them",
            )
        if self._peek() != ":":
            raise self._fault("a colon is missing here")
        self._at += 1
        entries[key.text] = (key, self._value(depth + 1))
