"""YAML 1.2 (core schema) to located values, through PyYAML's event parser.

Only events are taken from PyYAML, so nothing in a file is ever constructed or run: tags are refused,
aliases may repeat at most MAX_REPEATED nodes, nesting and size are bounded, duplicate keys are errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from veo_cli.located import MAX_DEPTH, MAX_NODES, ListNode, MapNode, Node, Scalar, SyntaxFault

MAX_REPEATED = 10_000  # nodes that aliases may stand for, in one file

# libyaml's parser where PyYAML was built with it: ten times as quick, same events.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_documents(text: str) -> list[Node | None]:
    """One node for each YAML document; None for a document with nothing in it. Raises SyntaxFault."""
    try:
        return list(_Composer(text).documents())
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise SyntaxFault(
            "a character that YAML does not allow",
            line,
            column,
            why=f"control character U+{ord(error.character):04X}"
            if isinstance(error.character, str)
            else error.reason,
            fix="delete it",
        ) from None


class _Composer:
    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_Loader)
        self._anchors: dict[str, tuple[Node, int] | None] = {}  # None while the anchored node is still open
        self._count = 0
        self._repeated = 0

    def documents(self) -> Iterator[Node | None]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                node = self._node(next(self._events), 0)
                empty = isinstance(node, Scalar) and node.plain and not node.text
                yield None if empty else node

    def _node(self, event: Any, depth: int) -> Node:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), line, column)
        if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:str"):
            raise SyntaxFault(
                f"the tag {_short_tag(event.tag)} is refused",
                line,
                column,
                why="prompt files hold plain values only; nothing in them is run",
                fix="delete the tag, or put quotes around a text that begins with !",
            )
        self._count += 1
        if self._count > MAX_NODES:
            raise SyntaxFault(
                f"more than {MAX_NODES:,} values in one file", line, column, fix="split the file"
            )
        if depth > MAX_DEPTH:
            raise SyntaxFault(
                f"nested more than {MAX_DEPTH} deep", line, column, fix="prompt files need three levels"
            )
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        count_before = self._count + self._repeated
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(event.value, bool(event.implicit[0]), line, column)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = ListNode(tuple(self._list_items(depth)), line, column)
        else:
            node = MapNode(tuple(self._map_entries(depth)), line, column)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._count + self._repeated - count_before + 1)
        return node

    def _alias(self, name: str, line: int, column: int) -> Node:
        if name not in self._anchors:
            raise SyntaxFault(
                f"*{name} refers to nothing",
                line,
                column,
                why=f"there is no &{name} above it",
                fix="put quotes around a text that begins with *",
            )
        anchored = self._anchors[name]
        if anchored is None:
            raise SyntaxFault(f"*{name} refers to what it stands in", line, column, fix="write the value out")
        node, size = anchored
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            raise SyntaxFault(
                f"the aliases of this file stand for more than {MAX_REPEATED:,} values",
                line,
                column,
                why="a few lines would expand without bound",
                fix="write the values out, or use matrix:",
            )
        return node

    def _list_items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _map_entries(self, depth: int) -> Iterator[tuple[Scalar, Node]]:
        seen: dict[str, Scalar] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise SyntaxFault("a field's name must be plain text", key.line, key.column)
            if key.text == "<<" and key.plain:
                raise SyntaxFault(
                    "the merge key << is not part of YAML 1.2",
                    key.line,
                    key.column,
                    fix="put what is shared into the document's own fields, or into a preset",
                )
            if key.text in seen:
                raise SyntaxFault(
                    f"{key.text} is given twice",
                    key.line,
                    key.column,
                    why=f"first at line {seen[key.text].line}, column {seen[key.text].column}",
                    fix="delete one of them",
                )
            seen[key.text] = key
            yield key, self._node(next(self._events), depth + 1)


def _short_tag(tag: str) -> str:
    prefix = "tag:yaml.org,2002:"
    return "!!" + tag.removeprefix(prefix) if tag.startswith(prefix) else tag


def _explained(error: yaml.MarkedYAMLError, text: str) -> SyntaxFault:
    """PyYAML's error as what, why and what helps, for the mistakes that people make."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    lines = text.splitlines() or [""]
    written = lines[line - 1] if line <= len(lines) else ""
    problem = error.problem or "not valid YAML"
    indentation = written[: len(written) - len(written.lstrip())]
    at = written[column - 1 : column]
    if "\t" in indentation or at == "\t":
        tab = indentation.find("\t") + 1 if "\t" in indentation else column
        return SyntaxFault("a tab where YAML wants spaces", line, tab, fix="indent with spaces")
    fix = ""
    if "escape code" in problem:
        fix = "write the character itself, or in eight digits: \\U0001F680"
    elif "mapping values are not allowed" in problem:
        fix = 'put quotes around a text that has a colon in it: prompt: "a film: the end"'
    elif "cannot start any token" in problem:
        problem = f"a value cannot begin with {at!r}" if at else problem
        fix = "put quotes around the text"
    elif "unexpected end of stream" in problem or "end of stream" in problem:
        fix = "close the quotes or the bracket"
    elif "did not find expected" in problem or "expected <" in problem:
        fix = "check the indentation, and put quotes around texts with , : [ ] { } # in them"
    return SyntaxFault("not valid YAML", line, column, why=problem, fix=fix)
