"""Prompt files to JobSpecs: YAML, JSON, text with a prompt a line, stdin, globs and folders.

A document is one job, or, with `prompts:` and `matrix:`, one for every combination: the entries of
`prompts` in order and, within each, the matrix with its last field running fastest. The document's other
fields are defaults of all of them. A field given by an entry of `prompts` is kept: that field of the matrix
does not apply to that entry. A field of the matrix goes before the document's own. A list at the top of a
file is read as `prompts:`. A field that is null is not set. A folder means its .yaml, .yml, .json and .txt
files, in natural order, not those of folders within it. A FIFO or a process substitution is read once, as stdin is.
"""

from __future__ import annotations

import difflib
import glob
import itertools
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from veo_cli import json_located, yaml12
from veo_cli.errors import Fault
from veo_cli.layer import Layer, nested, read_layer, silenced
from veo_cli.located import ListNode, MapNode, Node, Scalar, SyntaxFault
from veo_cli.text_encoding import decode

STDIN = "stdin"
SUFFIXES = (".yaml", ".yml", ".json", ".txt")
MAX_FILE_BYTES = 16 * 2**20
MAX_JOBS_PER_DOCUMENT = 100_000
SMALLEST = "prompt: a red striped lighthouse on a rocky coast"

_NOT_PROMPTS = {
    ".mp4",
    ".mov",
    ".mkv",
    ".webm",
    ".avi",
    ".gif",
    ".png",
    ".jpg",
    ".jpeg",
    ".safetensors",
    ".pt",
    ".zip",
}
_EXTRAS = ("preset", "prompts", "matrix")


@dataclass(frozen=True)
class Source:
    """Where a job was written: `path` as given (or "stdin"), the document's number and the line it begins
    at, from 1.
    """

    path: str
    document: int
    line: int

    def __str__(self) -> str:
        return readable(f"{self.path}:{self.line}:1")


@dataclass(frozen=True)
class JobSpec:
    """One job as asked for, before presets, --set and the model's defaults.

    fields: nested plain values under the names of Job, plus `duration` (seconds) where num_frames was given
    so. positions: dotted field -> "file:line:column". faults: what is wrong with it; resolve_jobs reports
    them all at once. A spec with faults and no fields stands for a file that could not be read.
    """

    fields: Mapping[str, Any]
    positions: Mapping[str, str]
    source: Source
    stem: str
    preset: str | None = None
    preset_position: str = ""
    warnings: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


@dataclass
class _File:
    path: str
    stem: str
    specs: list[JobSpec] = field(default_factory=list)

    def place(self, node: Node) -> str:
        return f"{self.path}:{node.line}:{node.column}"

    def broken(self, fault: Fault) -> list[JobSpec]:
        return [JobSpec({}, {}, Source(self.path, 1, 1), self.stem, faults=(fault,))]


def readable(text: str) -> str:
    """The text with those bytes of file names that are not UTF-8 written out, for sidecars: `\\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def read_specs(sources: Sequence[str], *, stdin: TextIO | None = None) -> list[JobSpec]:
    """The jobs of all sources, in order; a file that is named twice is read once.

    sources: paths, globs, folders, "-" for stdin. Raises nothing for what is wrong in them: see
    JobSpec.faults.
    """
    specs: list[JobSpec] = []
    seen: set[str] = set()
    for source in sources:
        for path in _expand(source):
            if isinstance(path, Fault):
                specs += _File(source, "").broken(path)
            elif path == "-":
                if "-" not in seen:
                    specs += _read_stdin(stdin)
                seen.add("-")
            else:
                identity = str(Path(path).resolve())
                if identity not in seen:
                    specs += _read_path(path)
                seen.add(identity)
    return specs


def _expand(source: str) -> Iterator[str | Fault]:
    if not source:  # Path("") would be the current folder, and all that is in it
        yield Fault(
            "a file's name is empty", fix="is a variable of the command unset? name a file, or - for stdin"
        )
    elif source == "-" or os.path.isfile(source):
        yield source
    elif os.path.isdir(source):
        yield from _prompt_files(source)
    elif glob.has_magic(source):
        matches = sorted(glob.glob(source, recursive=True), key=natural)
        files = [match for match in matches if os.path.isfile(match)]
        if not files:
            yield Fault(
                "no file matches",
                source,
                fix="check the pattern; a folder's name alone means all its prompt files",
            )
        yield from files
    elif os.path.exists(source):
        yield source  # a FIFO, /dev/stdin, a process substitution
    else:
        yield _no_such_file(source)


def _prompt_files(folder: str) -> Iterator[str | Fault]:
    try:
        entries = sorted(Path(folder).iterdir(), key=lambda entry: natural(entry.name))
    except OSError as error:
        yield Fault(
            f"the folder cannot be read: {error.strerror or error}", folder, fix="mend its permissions"
        )
        return
    found = [str(entry) for entry in entries if _is_prompt_file(entry)]
    if not found:
        inner = shlex.quote(os.path.join(folder, "**", "*.yaml"))
        fix = f"put one into it; or for those of the folders in it, a glob in quotes: {inner}"
        yield Fault(
            "no prompt files in this folder", folder, f"looked for names in {', '.join(SUFFIXES)}", fix
        )
    yield from found


def _is_prompt_file(path: Path) -> bool:
    """Files only, not FIFOs, on which a scan would wait; but links to nothing too: a job left out has to be heard of."""
    is_file = os.path.isfile(path) or (path.is_symlink() and not os.path.exists(path))
    if path.name.startswith(".") or path.suffix.lower() not in SUFFIXES or not is_file:
        return False
    return not (path.suffix == ".json" and path.with_suffix(".mp4").exists())  # the sidecar of a clip


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key in which `shot 9` comes before `shot 10`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [
        (0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part.casefold())
        for part in parts
    ]


def _no_such_file(source: str) -> Fault:
    folder = Path(source).parent
    if os.path.islink(source):
        target = os.readlink(source)
        return Fault(
            "a symbolic link to nothing", source, f"it points to {target}", "point it to a file, or delete it"
        )
    try:
        names = [
            entry.name for entry in folder.iterdir() if entry.is_dir() or entry.suffix.lower() in SUFFIXES
        ]
    except OSError:
        names = []
    near = difflib.get_close_matches(Path(source).name, names, 1, 0.6)
    if near:
        return Fault("no such file", source, fix=f"did you mean {folder / near[0]}?")
    if " " in source and not Path(source).suffix:
        return Fault(
            "no such file",
            source,
            fix="to render a text, write it into a file, or: echo 'TEXT' | veo render -",
        )
    return Fault("no such file", source, fix=f"the smallest one holds one line: {SMALLEST}")


def _read_stdin(stdin: TextIO | None) -> list[JobSpec]:
    file = _File(STDIN, STDIN)
    if stdin is None:
        return file.broken(Fault("stdin cannot be read", STDIN, fix="name a file"))
    buffer = getattr(stdin, "buffer", None)
    limit = MAX_FILE_BYTES + 1
    data = _read_at_most(buffer, limit) if buffer is not None else stdin.read(limit).encode()
    return _read_bytes(file, data, "")


def _read_path(path: str) -> list[JobSpec]:
    suffix = Path(path).suffix.lower()
    # The /dev/fd/63 of a process substitution is another number in the next run; clips are to keep their names.
    file = _File(path, STDIN if _is_unnamed(path, suffix) else Path(path).stem)
    if suffix in _NOT_PROMPTS:
        return file.broken(
            Fault(
                "not a prompt file", path, fix="a prompt file is YAML, JSON or text; for a clip: veo inspect"
            )
        )
    try:
        with open(path, "rb") as handle:
            data = _read_at_most(handle, MAX_FILE_BYTES + 1)
    except OSError as error:
        if os.path.islink(path) and not os.path.exists(path):
            return file.broken(_no_such_file(path))
        return file.broken(Fault(f"cannot be read: {error.strerror or error}", path))
    return _read_bytes(file, data, suffix)


def _read_at_most(handle: BinaryIO, size_bytes: int) -> bytes:
    """Like handle.read(size_bytes), which would allocate that much for the smallest file."""
    parts: list[bytes] = []
    while size_bytes > 0 and (part := handle.read(min(size_bytes, 2**16))):
        parts.append(part)
        size_bytes -= len(part)
    return b"".join(parts)


def _read_bytes(file: _File, data: bytes, suffix: str) -> list[JobSpec]:
    if len(data) > MAX_FILE_BYTES:
        return file.broken(
            Fault(f"more than {MAX_FILE_BYTES // 2**20} MiB", file.path, "not a prompt file?", "split it")
        )
    text = decode(data, file.path)
    if isinstance(text, Fault):
        return file.broken(text)
    try:
        if suffix == ".txt" or (_is_unnamed(file.path, suffix) and _has_no_fields(text)):
            return _read_lines(file, text) or file.broken(_empty(file, "a prompt on a line of its own"))
        documents = _read_documents(file, text, suffix)
    except SyntaxFault as error:
        return file.broken(
            Fault(error.what, f"{file.path}:{error.line}:{error.column}", error.why, error.fix)
        )
    for number, document in enumerate(documents, start=1):
        if document is not None:
            _read_document(file, document, number)
    return file.specs or file.broken(_empty(file, SMALLEST))


def _read_documents(file: _File, text: str, suffix: str) -> list[Node | None]:
    if suffix == ".json":
        return json_located.read_documents(text)
    if _is_unnamed(file.path, suffix) and text.lstrip()[:1] in ("{", "["):
        try:
            return json_located.read_documents(text)
        except SyntaxFault:
            pass  # a YAML flow mapping, or wrong as either: YAML's message is given
    return yaml12.read_documents(text)


def _is_unnamed(path: str, suffix: str) -> bool:
    """Whether nothing but the text itself says what kind it is: stdin, and pipes whose name has no known suffix."""
    return path == STDIN or (suffix not in SUFFIXES and os.path.exists(path) and not os.path.isfile(path))


def _has_no_fields(text: str) -> bool:
    """Whether a text from stdin is prompts, one a line: its first line that counts is neither a field nor a
    list.
    """
    lines = (line.strip() for line in text.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "---")
    return not re.match(r"""[-{\[&!%?]|["']?[\w.-]+["']?\s*:(\s|$)""", first)


def _empty(file: _File, smallest: str) -> Fault:
    return Fault(
        "nothing came" if file.path == STDIN else "the file is empty",
        f"{file.path}:1:1",
        "there is no prompt in it",
        f"the smallest valid file: {smallest}",
    )


def _read_lines(file: _File, text: str) -> list[JobSpec]:
    """One prompt a line; `#` begins a comment line; blank lines are passed over."""
    for number, line in enumerate(text.split("\n"), start=1):
        prompt = line.strip()
        if prompt and not prompt.startswith("#"):
            column = len(line) - len(line.lstrip()) + 1
            file.specs.append(
                JobSpec(
                    {"prompt": prompt},
                    {"prompt": f"{file.path}:{number}:{column}"},
                    Source(file.path, number, number),
                    file.stem,
                )
            )
    return file.specs


def _read_document(file: _File, document: Node, number: int) -> None:
    """Append the jobs of one document to file.specs."""
    source = Source(file.path, number, document.line)
    if isinstance(document, ListNode):
        document = MapNode(
            ((Scalar("prompts", True, document.line, document.column), document),),
            document.line,
            document.column,
        )
    if isinstance(document, Scalar):
        fix = f"write prompt: {json.dumps(document.text[:60], ensure_ascii=False)}"
        fault = Fault(
            "a text instead of fields",
            file.place(document),
            fix=f"{fix}, or name the file .txt: one prompt a line",
        )
        file.specs.append(JobSpec({}, {}, source, file.stem, faults=(fault,)))
        return
    base = read_layer(document, file.place, _EXTRAS)
    faults = list(base.faults)
    entries = _entries(file, base, faults)
    axes = _axes(file, base, faults)
    total = len(entries)
    for axis in axes:
        total *= len(axis)
    if total > MAX_JOBS_PER_DOCUMENT:
        what = f"{total:,} jobs from one document; the most is {MAX_JOBS_PER_DOCUMENT:,}"
        faults.append(Fault(what, file.place(base.extras["matrix"]), fix="shorten the lists of the matrix"))
        axes = []
    for entry in entries:
        own = silenced(entry.values) | ({"preset"} if "preset" in entry.extras else set())
        free = [axis for axis in axes if own.isdisjoint(axis[0].values.keys() | axis[0].extras.keys())]
        for point in itertools.product(*free):
            file.specs.append(_spec(file, source, base, point, entry, faults))
            faults = []  # carried by the document's first job only


def _spec(
    file: _File, source: Source, base: Layer, point: tuple[Layer, ...], entry: Layer, faults: list[Fault]
) -> JobSpec:
    merged = base
    for layer in (*point, entry):
        merged = layer.over(merged)
    preset = next(
        (layer.extras["preset"] for layer in (entry, *point, base) if "preset" in layer.extras), None
    )
    named = isinstance(preset, Scalar) and not (preset.plain and preset.value is None)
    renamed = dict.fromkeys(item for layer in (base, *point, entry) for item in layer.renamed)
    warnings: tuple[str, ...] = ()
    if renamed:
        pairs = ", ".join(f"{written} is {name} here" for written, name, _ in renamed)
        warnings = (f"{next(iter(renamed))[2]}: names of other tools, understood: {pairs}",)
    return JobSpec(
        nested(merged.values),
        merged.positions,
        source,
        file.stem,
        preset.text.strip() if isinstance(preset, Scalar) and named else None,
        file.place(preset) if preset is not None else "",
        warnings,
        tuple(faults),
    )


def _entries(file: _File, base: Layer, faults: list[Fault]) -> list[Layer]:
    """The layers of `prompts:`; one empty layer when there is none. Faults are appended."""
    _check_preset(file, base, faults)
    node = base.extras.get("prompts")
    if node is None or (isinstance(node, Scalar) and node.value is None and node.plain):
        return [Layer()]
    if not isinstance(node, ListNode) or not node.items:
        what = "prompts is an empty list" if isinstance(node, ListNode) else "prompts is a list"
        faults.append(Fault(what, file.place(node), fix="write prompts: [first text, second text]"))
        return [Layer()]
    layers: list[Layer] = []
    for item in node.items:
        if isinstance(item, Scalar) and not (item.plain and item.value is None):
            layers.append(Layer({"prompt": item.text.strip()}, {"prompt": file.place(item)}))
        elif isinstance(item, MapNode):
            layer = read_layer(item, file.place, ("preset",))
            _check_preset(file, layer, faults)
            faults += layer.faults
            layers.append(layer)
        else:
            fix = 'an entry is a text or fields: - {prompt: "a text", seed: 5}'
            faults.append(Fault("not a prompt", file.place(item), fix=fix))
            layers.append(Layer())
    if "prompt" in base.values and any("prompt" in layer.values for layer in layers):
        where = base.positions["prompt"]
        faults.append(Fault("both prompt and prompts", where, fix="move this text into the list of prompts"))
    return layers


def _check_preset(file: _File, layer: Layer, faults: list[Fault]) -> None:
    preset = layer.extras.get("preset")
    if preset is not None and not isinstance(preset, Scalar):
        faults.append(Fault("preset is one name", file.place(preset), fix="write preset: draft"))


def _axes(file: _File, base: Layer, faults: list[Fault]) -> list[list[Layer]]:
    """The matrix: for each of its fields, the layers of its values. Faults are appended."""
    node = base.extras.get("matrix")
    if node is None or (isinstance(node, Scalar) and node.plain and node.value is None):
        return []
    if not isinstance(node, MapNode):
        faults.append(Fault("matrix is a mapping", file.place(node), fix="write matrix: {seed: [1, 2, 3]}"))
        return []
    axes: list[list[Layer]] = []
    claimed: dict[str, str] = {}
    for path, values in _matrix_fields(node, ()):
        name = ".".join(key.text for key in path)
        if not isinstance(values, ListNode) or not values.items:
            fix = f"write matrix: {{{name}: [first, second]}}"
            faults.append(Fault(f"matrix: {name} needs a list of values", file.place(values), fix=fix))
            continue
        axis: list[Layer] = []
        for item in values.items:
            layer = read_layer(_wrapped(path, item), file.place, ("preset",))
            _check_preset(file, layer, faults)
            faults += layer.faults
            if layer.faults and layer.faults[0].where == file.place(path[-1]):
                break  # the name is wrong: said once, not for each value
            axis.append(layer)
        touched = {touched for layer in axis for touched in (*layer.values, *layer.extras)}
        clash = next((other for other in sorted(silenced(touched)) if other in claimed), None)
        if clash:
            what = f"matrix: {name} and {claimed[clash]} set the same field"
            faults.append(Fault(what, file.place(path[-1]), fix="delete one of them"))
        elif axis:
            claimed.update(dict.fromkeys(touched, name))
            axes.append(axis)
    return axes


def _matrix_fields(node: MapNode, path: tuple[Scalar, ...]) -> Iterator[tuple[tuple[Scalar, ...], Node]]:
    for key, value in node.entries:
        if isinstance(value, MapNode):
            yield from _matrix_fields(value, (*path, key))
        else:
            yield (*path, key), value


def _wrapped(path: tuple[Scalar, ...], value: Node) -> MapNode:
    node: Node = value
    for key in reversed(path):
        node = MapNode(((key, node),), key.line, key.column)
    assert isinstance(node, MapNode)
    return node
