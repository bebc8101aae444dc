"""One source of fields (a prompt file's mapping, a preset, the --set options) as flat, named values.

Names are checked, other tools' names translated, sizes and durations in words turned into numbers. Types
and ranges are not checked here but in resolve, by the Job itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from veo_cli.errors import Fault
from veo_cli.field_names import FIELDS, GROUPS, INSTEAD, NOT_BUILT, OTHER_TOOLS, TEXT_FIELDS, WORDS, nearest
from veo_cli.field_words import RESOLUTIONS, parse_duration, parse_resolution
from veo_cli.located import ListNode, MapNode, Node, Scalar, core_value, plain_value

Place = Callable[[Node], str]  # a node -> "file:line:column"

# Fields that say the same thing: a source of higher rank that gives one of them silences the others below it.
EXCLUSIVE = (
    frozenset({"num_frames", "duration"}),
    frozenset({"encode.crf", "encode.bitrate", "encode.lossless"}),
)


@dataclass
class Layer:
    """values and positions: by dotted field name; `duration` (seconds) stands beside the fields of Job.

    renamed: (name as written, name here, position). extras: the nodes of names that the caller asked for.
    """

    values: dict[str, Any] = field(default_factory=dict)
    positions: dict[str, str] = field(default_factory=dict)
    renamed: list[tuple[str, str, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    extras: dict[str, Node] = field(default_factory=dict)

    def over(self, lower: Layer) -> Layer:
        """This layer's fields where it has them, the lower one's elsewhere. Neither is changed."""
        hidden = silenced({name for name, value in self.values.items() if claims(name, value)}) | set(
            self.values
        )
        kept = {name for name in lower.values if name not in hidden}
        return Layer(
            {**{name: lower.values[name] for name in lower.values if name in kept}, **self.values},
            {**{name: lower.positions[name] for name in lower.positions if name in kept}, **self.positions},
        )


def claims(name: str, value: Any) -> bool:
    """Whether a field says something against those that exclude it; `lossless: false` does not."""
    return not (name == "encode.lossless" and value is False)


def silenced(names: Any) -> set[str]:
    """The fields that a source of lower rank can no longer set, given those that a higher one sets."""
    hidden = set(names)
    for group in EXCLUSIVE:
        if not group.isdisjoint(hidden):
            hidden |= group
    return hidden


def read_layer(node: MapNode, place: Place, extras: tuple[str, ...] = ()) -> Layer:
    """The fields of one mapping. `extras`: names that are not fields but allowed here, such as `prompts`."""
    reader = _Reader(place, extras)
    reader.read_map(node, "")
    return reader.layer


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """{"encode.crf": 20} as {"encode": {"crf": 20}}."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        group, _, leaf = name.rpartition(".")
        (result.setdefault(group, {}) if group else result)[leaf] = value
    return result


def flattened(fields: dict[str, Any]) -> dict[str, Any]:
    """The reverse of `nested`."""
    result: dict[str, Any] = {}
    for name, value in fields.items():
        if name in GROUPS and isinstance(value, dict):
            result.update({f"{name}.{leaf}": item for leaf, item in value.items()})
        else:
            result[name] = value
    return result


class _Reader:
    def __init__(self, place: Place, extras: tuple[str, ...]) -> None:
        self.layer = Layer()
        self._place = place
        self._extras = extras
        self._written: dict[str, tuple[str, str]] = {}  # field -> (name as written, position)

    def _fault(self, node: Node, what: str, why: str = "", fix: str = "") -> None:
        self.layer.faults.append(Fault(what, self._place(node), why, fix))

    def read_map(self, node: MapNode, group: str) -> None:
        for key, value in node.entries:
            self._read_entry(key, value, group)

    def _read_entry(self, key: Scalar, value: Node, group: str) -> None:
        written = f"{group}.{key.text}" if group else key.text
        name = written
        if not group and name in self._extras:
            self.layer.extras[name] = value
            return
        if name not in FIELDS and name not in GROUPS and name not in WORDS and name not in NOT_BUILT:
            translated = OTHER_TOOLS.get(name.lower())
            if translated is None:
                self._unknown(key, written, group)
                return
            name = translated
            self.layer.renamed.append((written, name, self._place(key)))
        if name in NOT_BUILT:
            self._fault(key, f"{written}: {NOT_BUILT[name]}", fix="delete it")
        elif name in GROUPS:
            self._read_group(key, value, name)
        else:
            self._read_field(name, written, value)

    def _read_group(self, key: Scalar, value: Node, name: str) -> None:
        if isinstance(value, MapNode):
            self.read_map(value, name)
        elif not (isinstance(value, Scalar) and value.value is None):
            self._fault(
                value, f"{key.text} is a group of fields", fix=f"write {name}: {{{GROUPS[name][0]}: ...}}"
            )

    def _unknown(self, key: Scalar, written: str, group: str) -> None:
        if written in INSTEAD:
            self._fault(key, f"there is no field {written}", fix=INSTEAD[written])
            return
        outer_group, _, leaf_name = key.text.rpartition(".")
        if not group and outer_group in GROUPS:
            guess = nearest(leaf_name, outer_group)
        else:
            guess = nearest(key.text, group, self._extras)
        fix = f"did you mean {guess}?" if guess else ""
        if guess and "." in guess and guess.split(".")[0] not in (group, outer_group):
            outer, leaf = guess.split(".")
            fix = f"did you mean {leaf} in the group {outer}, {outer}: {{{leaf}: ...}}?"
        if not guess:
            known = ", ".join(
                sorted(GROUPS[group] if group else {*(n for n in FIELDS if "." not in n), *GROUPS})
            )
            fix = f"the fields here are {known}"
        self._fault(key, f"unknown field {written}", fix=fix)

    def _read_field(self, name: str, written: str, node: Node) -> None:
        if name == "resolution":
            self._read_resolution(written, node)
            return
        value = self._value(name, written, node)
        if value is not None:
            self._set(name, written, node, value)

    def _set(self, name: str, written: str, node: Node, value: Any) -> None:
        position = self._place(node)
        rivals = silenced({name}) if claims(name, value) else {name}
        for rival in sorted(rivals & self._written.keys()):
            if name != rival and not claims(rival, self.layer.values.get(rival)):
                continue
            other, where = self._written[rival]
            self._fault(
                node,
                f"{written} and {other} say the same thing",
                f"{other} is at {where}",
                "delete one of them",
            )
            return
        self._written[name] = (written, position)
        self.layer.values[name] = value
        self.layer.positions[name] = position

    def _read_resolution(self, written: str, node: Node) -> None:
        size: tuple[int, int] | None = None
        if isinstance(node, Scalar):
            if node.value is None:
                return
            with contextlib.suppress(ValueError):
                size = parse_resolution(node.text)
        elif isinstance(node, ListNode):
            pair = plain_value(node)
            if isinstance(pair, list) and len(pair) == 2 and all(type(side) is int for side in pair):
                size = (pair[0], pair[1])
        if size is None:
            shown = node.text if isinstance(node, Scalar) else plain_value(node)
            self._fault(
                node,
                f"{written}: {shown!r} is not a resolution",
                fix=f"write 1280x720, or one of {', '.join(RESOLUTIONS)}",
            )
            return
        self._set("width", written, node, size[0])
        if self._written.get("width", ("", ""))[0] == written:
            self._set("height", written, node, size[1])

    def _value(self, name: str, written: str, node: Node) -> Any:
        """The plain value of a field; None when it is null (not set here) or wrong (a fault was noted)."""
        if name == "loras":
            return self._loras(written, node)
        if isinstance(node, MapNode):
            if name == "guidance_schedule":
                return plain_value(node)
            self._fault(node, f"{written} is one value, not a mapping", fix=_quote_hint(name))
            return None
        if isinstance(node, ListNode):
            fix = _quote_hint(name) or f"for several clips: matrix: {{{name}: [...]}}"
            self._fault(node, f"{written} is one value, not a list", fix=fix)
            return None
        if name in TEXT_FIELDS:
            return None if node.plain and node.value is None else node.text.strip()
        if name == "duration" and node.value is not None:
            try:
                return parse_duration(node.text)
            except ValueError:
                self._fault(
                    node, f"{written}: {node.text!r} is not a duration", fix="write 4s, 2.5s or 250ms"
                )
                return None
        value = node.value
        if isinstance(value, str) and not node.plain and not isinstance(core := _core(node), str):
            self._fault(
                node,
                f"{written}: {node.text!r} is text, for it stands in quotes",
                fix=f"write {written}: {core}",
            )
            return None
        return value

    def _loras(self, written: str, node: Node) -> Any:
        items = node.items if isinstance(node, ListNode) else (node,)
        if isinstance(node, Scalar) and node.value is None:
            return None
        result: list[dict[str, Any]] = []
        for item in items:
            entry: Any = {"path": item.text} if isinstance(item, Scalar) and item.text else plain_value(item)
            if (
                not isinstance(entry, dict)
                or not set(entry) <= {"path", "scale"}
                or not isinstance(entry.get("path"), str)
            ):
                self._fault(
                    item, f"{written}: not a LoRA", fix="write loras: [{path: style.safetensors, scale: 0.8}]"
                )
                return None
            result.append(entry)
        return result


def _core(node: Scalar) -> Any:
    return core_value(node.text) if node.text else node.text


def _quote_hint(name: str) -> str:
    return "put quotes around a text with [ ] { } in it" if name in TEXT_FIELDS else ""
