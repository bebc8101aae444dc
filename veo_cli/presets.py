"""Presets: YAML files of fields, shipped in `presets/`, a person's own in ~/.config/veo/presets, or any path.

A preset is a mapping of fields, with `description:` and, to build on another preset, `extends: NAME`. A
person's own preset hides a shipped one of the same name, and may extend it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veo_cli import yaml12
from veo_cli.errors import Fault, SpecificationError
from veo_cli.field_names import GROUPS, TOP_LEVEL, WORDS
from veo_cli.layer import Layer, flattened, nested, read_layer
from veo_cli.located import MapNode, Node, Scalar, SyntaxFault
from veo_cli.package_data import data_path
from veo_cli.text_encoding import decode

MAX_FILE_BYTES = 2**20
_ORDER = [*TOP_LEVEL, *WORDS, *(f"{group}.{leaf}" for group, leaves in GROUPS.items() for leaf in leaves)]
_EXTRAS = ("extends", "description")
_PER_JOB = ("prompt", "seed", "output")  # one value for every clip of a batch would only make clips collide


@dataclass(frozen=True)
class Preset:
    """fields: nested plain values, `extends` resolved. origins: dotted field -> "preset:NAME" or a path."""

    name: str
    description: str
    fields: Mapping[str, Any]
    origins: Mapping[str, str]
    path: Path


def user_folder() -> Path | None:
    """$XDG_CONFIG_HOME/veo/presets, by default ~/.config/veo/presets; None where there is no home (cron)."""
    config = os.environ.get("XDG_CONFIG_HOME")
    if config:
        return Path(config) / "veo" / "presets"
    home = os.environ.get("HOME")
    return Path(home) / ".config" / "veo" / "presets" if home else None


def load_preset(name_or_path: str) -> Preset:
    """The preset of that name, or in that file. Raises SpecificationError: unknown, not readable, in a
    circle.
    """
    return _load(name_or_path, where="", base=None, above=())


def list_presets() -> list[Preset]:
    """All presets by name, a person's own in place of shipped ones; a faulty one has the fault as its
    description.
    """
    found: dict[str, Path] = {}
    for folder in (data_path("presets"), user_folder()):
        if folder is not None and folder.is_dir():
            found.update({path.stem: path for path in sorted(folder.glob("*.yaml"))})
    presets = []
    for name, path in sorted(found.items()):
        try:
            presets.append(load_preset(str(path)))
        except SpecificationError as error:
            presets.append(
                Preset(name, f"cannot be used: {error.fault.what} ({error.fault.where})", {}, {}, path)
            )
    return presets


def _load(name_or_path: str, *, where: str, base: Path | None, above: tuple[Path, ...]) -> Preset:
    """`where`: the position that asks for it; `base`: the folder of the file that does; `above`: the files
    on the way.
    """
    path = _find(name_or_path, where, base, above)
    if path.resolve() in above:
        circle = " -> ".join(part.stem for part in (*above, path))
        raise SpecificationError(
            Fault("presets that extend each other in a circle", where, circle, "delete one extends:")
        )
    layer, place = _read(path)
    label = _label(path)
    values, origins = dict(layer.values), dict.fromkeys(layer.values, label)
    description = layer.extras.get("description")
    extends = layer.extras.get("extends")
    if isinstance(extends, Scalar) and not (extends.plain and extends.value is None):
        parent = _load(
            extends.text.strip(), where=place(extends), base=path.parent, above=(*above, path.resolve())
        )
        lower = Layer(flattened(dict(parent.fields)), dict(parent.origins))
        merged = Layer(values, dict(origins)).over(lower)
        values, origins = merged.values, merged.positions
    elif extends is not None and not isinstance(extends, Scalar):
        raise SpecificationError(Fault("extends is one name", place(extends), fix="write extends: standard"))
    text = " ".join(description.text.split()) if isinstance(description, Scalar) else ""
    shown = {name: values[name] for name in sorted(values, key=_ORDER.index)}
    return Preset(path.stem, text, nested(shown), origins, path)


def _label(path: Path) -> str:
    folders = [data_path("presets"), user_folder()]
    return f"preset:{path.stem}" if path.parent in folders else str(path)


def _find(name_or_path: str, where: str, base: Path | None, above: tuple[Path, ...]) -> Path:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(os.path.expanduser(name_or_path))
        if base is not None and not path.is_absolute():
            path = base / path
        if not path.is_file():
            raise SpecificationError(
                Fault(f"no preset at {path}", where, fix="veo presets lists those there are")
            )
        return path
    folders = [folder for folder in (user_folder(), data_path("presets")) if folder is not None]
    for folder in folders:
        path = folder / f"{name_or_path}.yaml"
        # A person's `draft` that extends `draft` means the shipped one.
        if path.is_file() and not (above and above[-1] == path.resolve() and folder != folders[-1]):
            return path
    names = sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})
    near = difflib.get_close_matches(name_or_path.lower(), names, 1, 0.5)
    fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    raise SpecificationError(Fault(f"no preset {name_or_path}", where, fix=fix))


def _read(path: Path) -> tuple[Layer, Callable[[Node], str]]:
    def place(node: Node) -> str:
        return f"{path}:{node.line}:{node.column}"

    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SpecificationError(Fault(f"cannot be read: {error.strerror or error}", str(path))) from error
    if len(data) > MAX_FILE_BYTES:
        raise SpecificationError(
            Fault(f"more than {MAX_FILE_BYTES // 2**20} MiB", str(path), "not a preset?", "name another file")
        )
    text = decode(data, str(path))
    if isinstance(text, Fault):
        raise SpecificationError(text)
    try:
        documents = [document for document in yaml12.read_documents(text) if document is not None]
    except SyntaxFault as error:
        fault = Fault(error.what, f"{path}:{error.line}:{error.column}", error.why, error.fix)
        raise SpecificationError(fault) from None
    if len(documents) != 1 or not isinstance(documents[0], MapNode):
        raise SpecificationError(
            Fault("a preset is one mapping of fields", str(path), fix="write, say, width: 1280")
        )
    layer = read_layer(documents[0], place, _EXTRAS)
    faults = list(layer.faults)
    for name in _PER_JOB:
        if name in layer.values:
            faults.append(
                Fault(f"a preset cannot set {name}", layer.positions[name], fix="put it into the prompt file")
            )
    for written, name, where in layer.renamed:
        faults.append(Fault(f"{written} is {name} here", where, fix=f"write {name}"))
    if faults:
        raise SpecificationError(faults)
    return layer, place
