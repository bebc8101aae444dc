"""JobSpecs to Jobs: presets, --set and the model's own defaults laid over each other, checked, named and
hashed.

Order of precedence: --set, the prompt file, the preset (--preset, else the file's `preset:`), the model's
defaults, veo's. Every fault of every file is reported at once, and two jobs with one name are a fault,
before anything loads.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from veo_cli import yaml12
from veo_cli.drawn_seeds import DrawnSeeds
from veo_cli.errors import Fault, ModelMissing, SpecificationError
from veo_cli.field_names import TEXT_FIELDS
from veo_cli.job import Job
from veo_cli.job_draft import JobDraft
from veo_cli.layer import EXCLUSIVE, Layer, claims, flattened, read_layer
from veo_cli.located import MapNode, Node, Scalar, SyntaxFault
from veo_cli.models.model_info import ModelInfo
from veo_cli.naming import DEFAULT_TEMPLATE, ID_DIGITS, NameTemplate, output_template
from veo_cli.presets import Preset, load_preset
from veo_cli.prompt_file import STDIN, JobSpec

_NAME_FIX = "write a name that ends in .mp4, or for a folder one that ends in /"


@dataclass(frozen=True)
class ResolvedJob:
    """A job ready to run.

    provenance: dotted field -> "set", "file:line:column", "preset:NAME" or a preset's path, "model",
    "default", "derived". notes: what a person should hear once, on stderr and in the sidecar (the spec's
    own warnings not among them). open_path: None but in a plan whose seed only the render will draw; then seed,
    job_id and output_path stand in for those to come, and it is output_path with `{seed}` and `{id}` in their place.
    """

    job: Job
    job_id: str
    output_path: Path
    provenance: Mapping[str, str]
    notes: tuple[str, ...]
    spec: JobSpec
    model: ModelInfo
    open_path: Path | None = None

    def on_leaner_memory(self) -> ResolvedJob:
        """The same job (and job_id) with the weights moved to the device group by group."""
        memory = self.job.memory.model_copy(update={"offload": "group"})
        return replace(self, job=self.job.model_copy(update={"memory": memory}))


def resolve_jobs(
    specs: Sequence[JobSpec],
    *,
    preset: str | None = None,
    settings: Sequence[str] = (),
    output: Path | None = None,
    name_template: str | None = None,
    describe: Callable[[str], ModelInfo],
    keep_seeds: bool = False,
) -> list[ResolvedJob]:
    """One ResolvedJob for each spec, in order.

    settings: --set texts, "encode.crf=20"; of two for one field the later counts. output: the output folder
    (None: the current one). describe: a model's name to what is known of it, called once a name.
    keep_seeds: write the folder's seed salt if a seed is drawn (render does; a plan does not, and has an
    open_path for it). Raises
    SpecificationError with all faults, or ModelMissing when that is all that is wrong.
    """
    resolver = _Resolver(preset, settings, output, name_template, describe, keep_seeds)
    jobs = [resolver.job(spec) for spec in specs]
    resolver.check_unique([job for job in jobs if job is not None])
    if not specs:
        resolver.faults[Fault("no prompt files", fix="name one, or - for stdin")] = None
    resolver.raise_faults()
    if (
        keep_seeds and not resolver.seeds.save()
    ):  # another run drew this folder's salt meanwhile: take that one
        return resolve_jobs(
            specs,
            preset=preset,
            settings=settings,
            output=output,
            name_template=name_template,
            describe=describe,
        )
    return [job for job in jobs if job is not None]


class _Resolver:
    def __init__(
        self,
        preset: str | None,
        settings: Sequence[str],
        output: Path | None,
        name_template: str | None,
        describe: Callable[[str], ModelInfo],
        keep_seeds: bool,
    ) -> None:
        self.faults: dict[Fault, None] = {}  # in order, each once
        self._missing: dict[str, ModelMissing] = {}
        self._models: dict[str, ModelInfo] = {}
        self._describe = describe
        self._folder = output or Path()
        self._check_folder()
        self.seeds = DrawnSeeds(self._folder)
        self._seeds_will_stay = keep_seeds or self.seeds.are_kept
        self._preset_option = preset
        self._settings = self._read_settings(settings)
        self._template = self._name_template(name_template or DEFAULT_TEMPLATE, "--name")
        self._templates: dict[str, NameTemplate | None] = {}
        self._presets: dict[tuple[str, str], Layer | None] = {}

    def raise_faults(self) -> None:
        if self.faults:
            raise SpecificationError([*self.faults, *(error.fault for error in self._missing.values())])
        for error in self._missing.values():
            raise error

    def check_unique(self, jobs: Sequence[ResolvedJob]) -> None:
        by_path: dict[str, ResolvedJob] = {}
        by_id: dict[str, ResolvedJob] = {}
        for job in jobs:
            path = os.path.abspath(job.output_path)
            twin = by_id.setdefault(job.job_id, job)
            rival = by_path.setdefault(path, job)
            if twin is not job:
                other, here = _places(twin.spec, job.spec, "prompt")
                fix = "delete one of them, or give them different seeds"
                self.add(Fault(f"the same job is at {other}", here, fix=fix))
            elif rival is not job:
                other, here = _places(rival.spec, job.spec, "output")
                fix = "put {seed} or {id} into the name, or leave it to veo"
                self.add(
                    Fault(f"two jobs would write {job.output_path}", here, f"the other is at {other}", fix)
                )

    def job(self, spec: JobSpec) -> ResolvedJob | None:
        """The resolved job, or None when something is wrong with it (then there are faults)."""
        for fault in spec.faults:
            self.add(fault)
        if spec.faults and not spec.fields:
            return None
        draft = JobDraft(spec, self._merged(spec), self.add)
        model = self._model(draft.model_name(), draft.place("model"))
        if model is None:
            return None
        draft.complete(model)
        if draft.wrong:
            return None
        job, drawn = draft.build(model, self.seeds)
        if job is None:
            return None
        job_id = job.job_id(model.fingerprint + draft.lora_fingerprints)
        where = draft.place("output")
        path = self._output_path(spec, job, job_id, where)
        open_path = None
        if drawn and not self._seeds_will_stay:
            open_path = self._output_path(spec, job, job_id, where, is_open=True)
            draft.notes.append(
                "no seed is given: the first render into this folder draws one, which the next ones keep; "
                "--set seed=NUMBER gives one"
            )
        elif drawn:
            draft.notes.append(
                "a seed was drawn, once for this output folder: the same command makes the same clip again, "
                "--set seed=NUMBER another"
            )
        notes = tuple(dict.fromkeys(draft.notes))
        return ResolvedJob(job, job_id, path, draft.provenance(job), notes, spec, model, open_path)

    def add(self, fault: Fault) -> None:
        self.faults[fault] = None

    def _check_folder(self) -> None:
        if self._folder.suffix.lower() == ".mp4":
            fix = f"--output {self._folder.parent} --set output={self._folder.name}"
            self.add(Fault("the output folder's name ends in .mp4", "--output", fix=fix))
            return
        if _has_undecodable(str(self._folder)) or _has_control(str(self._folder)):
            what = "the folder's name is not UTF-8, or has control characters in it"
            self.add(Fault(what, f"--output {self._folder}", fix="name another"))
            return
        try:
            os.lstat(self._folder)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                self.add(Fault("the folder's name is too long", "--output", fix="name a shorter one"))
                return
        there = next((path for path in (self._folder, *self._folder.parents) if os.path.lexists(path)), None)
        if there is None or os.path.isdir(there):
            return
        what = f"the folder cannot be made: {there} is a file"
        if not os.path.exists(there):
            what = f"{there} is a symbolic link to nothing"
        self.add(Fault(what, f"--output {self._folder}", fix="name a folder; it is made if it is not there"))

    # -- the layers ----------------------------------------------------------------------------------------

    def _merged(self, spec: JobSpec) -> Layer:
        own = Layer(flattened(dict(spec.fields)), dict(spec.positions))
        preset = self._preset(spec)
        merged = own.over(preset) if preset is not None else own
        return self._settings.over(merged)

    def _preset(self, spec: JobSpec) -> Layer | None:
        if self._preset_option is not None:
            return self._load_preset(self._preset_option, "--preset")
        if spec.preset is None:
            return None
        name = spec.preset
        if "/" in name or name.endswith((".yaml", ".yml")):
            beside = Path(spec.source.path).parent / os.path.expanduser(name)
            name = str(beside) if spec.source.path != STDIN and beside.is_file() else name
        return self._load_preset(name, spec.preset_position)

    def _load_preset(self, name: str, where: str) -> Layer | None:
        key = (name, where)
        if key not in self._presets:
            self._presets[key] = None
            try:
                preset: Preset = load_preset(name)
            except SpecificationError as error:
                for fault in error.faults:
                    self.add(fault if fault.where else replace(fault, where=where))
            else:
                self._presets[key] = Layer(flattened(dict(preset.fields)), dict(preset.origins))
        return self._presets[key]

    def _read_settings(self, settings: Sequence[str]) -> Layer:
        """One layer of all --set: of two for one field the later counts; that fields exclude each other is a fault."""
        merged = Layer()
        for setting in settings:
            where = f"--set {setting if len(setting) <= 60 else setting[:57] + '...'}"
            layer = self._read_setting(setting, where)
            merged.values |= layer.values
            merged.positions |= layer.positions
        for group in EXCLUSIVE:
            rivals = [name for name, value in merged.values.items() if name in group and claims(name, value)]
            if len(rivals) > 1:
                what = f"{' and '.join(rivals)} exclude each other"
                self.add(Fault(what, merged.positions[rivals[-1]], fix="keep one of them"))
                for name in rivals[1:]:
                    del merged.values[name]  # said; what follows from both need not be
        return merged

    def _read_setting(self, setting: str, where: str) -> Layer:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if _has_undecodable(setting):
            self.add(Fault("not UTF-8", where, fix="check the encoding of the shell, or of the script"))
            return Layer()
        if not equals or not name:
            self.add(Fault("a setting is FIELD=VALUE", where, fix="write --set seed=7"))
            return Layer()
        try:
            value = _setting_value(name, text)
        except SyntaxFault as error:
            self.add(Fault(error.what, where, error.why, error.fix))
            return Layer()
        layer = read_layer(_wrapped(name, value), lambda node: where)
        for fault in layer.faults:
            self.add(fault)
        for written, known, _ in layer.renamed:
            self.add(Fault(f"{written} is {known} here", where, fix=f"write --set {known}={text}"))
        if not layer.faults and isinstance(value, Scalar) and value.value is None:
            why = "null would leave the field as it is" if text.strip() else "nothing stands behind ="
            self.add(Fault(f"{name} is given no value", where, why, "give it one, or leave the option out"))
        return layer

    def _model(self, name: str, where: str) -> ModelInfo | None:
        if name not in self._models and name not in self._missing:
            try:
                self._models[name] = self._describe(name)
            except ModelMissing as error:
                why = "; ".join(filter(None, (error.fault.why, f"asked for at {where}")))
                error.fault = replace(error.fault, why=why)
                self._missing[name] = error
        return self._models.get(name)

    # -- names ---------------------------------------------------------------------------------------------

    def _name_template(self, template: str, where: str) -> NameTemplate | None:
        try:
            return NameTemplate(template)
        except ValueError as error:
            self.add(
                Fault(f"{template!r} cannot name clips", where, str(error), "write, say, {slug}-{seed}.mp4")
            )
            return None

    def _output_path(
        self, spec: JobSpec, job: Job, job_id: str, where: str, *, is_open: bool = False
    ) -> Path:
        """is_open: what follows from the seed stays as its field of the template, `{seed}`."""
        values: dict[str, int | float | str] = {
            "seed": job.seed, "id": job_id[:ID_DIGITS], "job_id": job_id, "model": job.model,
            "width": job.width, "height": job.height, "fps": job.fps, "num_frames": job.num_frames,
            "steps": job.num_inference_steps, "guidance": job.guidance_scale,
        }  # fmt: skip
        if is_open:
            values |= {name: f"{{{name}}}" for name in ("seed", "id", "job_id")}
        template = self._template
        if job.output is not None:
            if "{" not in job.output and not job.output.endswith("/"):
                return self._literal_output(job.output, where)
            if job.output not in self._templates:
                self._templates[job.output] = self._explicit_template(job.output, where)
            template = self._templates[job.output]
        if template is None:
            return self._folder / f"{job_id}.mp4"
        return self._folder / template.path(values, job.prompt, spec.stem)

    def _literal_output(self, output: str, where: str) -> Path:
        """`output:` without fields: any path the file system takes; absolute, or under the output folder."""
        try:
            path = Path(os.path.expanduser(output_template(output)))
        except ValueError as error:
            self.add(Fault(f"output: {output!r} cannot name a clip", where, str(error), _NAME_FIX))
            return Path(output)
        if _has_control(output) or any(len(part.encode()) > 250 for part in path.parts):
            why = "too long, or with control characters in it"
            self.add(Fault("output is not a file's path", where, why, _NAME_FIX))
        return self._folder / path

    def _explicit_template(self, output: str, where: str) -> NameTemplate | None:
        try:
            return NameTemplate(output_template(os.path.expanduser(output)))
        except ValueError as error:
            self.add(Fault(f"output: {output!r} cannot name clips", where, str(error), _NAME_FIX))
            return None


def _places(first: JobSpec, second: JobSpec, name: str) -> tuple[str, str]:
    """Where two jobs that collide say so: at `name`, or where that is one place for both, at what differs."""

    def place(spec: JobSpec, field: str) -> str:
        return spec.positions.get(field) or spec.positions.get("prompt") or str(spec.source)

    pairs = [(place(first, field), place(second, field)) for field in (name, *second.positions)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


def _has_undecodable(text: str) -> bool:
    """Whether a text from the command line has bytes that are not UTF-8: Python makes half characters of them."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def _has_control(text: str) -> bool:
    """Such a path would not be one line of the results."""
    return any(ord(char) < 32 or char == "\x7f" for char in text)


def _setting_value(name: str, text: str) -> Node:
    if name in TEXT_FIELDS:
        return Scalar(text, False, 1, 1)  # as if in quotes: nothing is a text, too, and so is null
    documents = yaml12.read_documents(text)
    node = documents[0] if documents else None
    return node if node is not None else Scalar("", True, 1, 1)


def _wrapped(name: str, value: Node) -> MapNode:
    return MapNode(((Scalar(name, True, 1, 1), value),), 1, 1)
