"""The values of one job on their way to a Job: the model's defaults, what follows from them, and the checks
that need the model.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from veo_cli.drawn_seeds import DrawnSeeds
from veo_cli.errors import Fault
from veo_cli.field_names import FIELDS
from veo_cli.field_types import FieldError, checked
from veo_cli.job import EncodeSettings, Job
from veo_cli.layer import Layer, flattened, nested
from veo_cli.models.fingerprint import fingerprint
from veo_cli.models.model_info import ModelInfo
from veo_cli.prompt_file import SMALLEST, STDIN, JobSpec, readable
from veo_cli.sampler_size import sampler_size

DEFAULT_MODEL = "veo-mini"

_LAST_LATIN = "\u024f"

# For models whose folder says nothing: the commonest values of open text-to-video models.
_FALLBACK: dict[str, Any] = {
    "model": DEFAULT_MODEL,
    "width": 832,
    "height": 480,
    "num_frames": 33,
    "fps": 16.0,
    "num_inference_steps": 50,
    "guidance_scale": 5.0,
}


class JobDraft:
    """The values of one job on their way to a Job. `wrong` is set when a fault was reported."""

    def __init__(self, spec: JobSpec, layer: Layer, report: Callable[[Fault], None]) -> None:
        self._report = report
        self._spec = spec
        self._positions = dict(layer.positions)
        self._derived: set[str] = set()
        self._from_model: set[str] = set()
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []
        self.lora_fingerprints = ""
        self.wrong = bool(spec.faults)
        for name, value in layer.values.items():
            if name == "duration":
                self.values[name] = value
                continue
            try:
                self.values[name] = checked(name, value)
            except FieldError as error:
                self.fault(error.what, name, error.why, error.fix)
        if self.values.get("model") == "":
            self.fault("the model's name is empty", "model", fix="list the models that are here:  veo models")
            del self.values["model"]
        self._broken = set(layer.values) - set(self.values)

    def fault(self, what: str, name: str, why: str = "", fix: str = "") -> None:
        self.wrong = True
        self._report(Fault(what, self.place(name), why, fix))

    def place(self, name: str) -> str:
        return self._positions.get(name) or str(self._spec.source)

    def model_name(self) -> str:
        """The model asked for. `./folder` in a prompt file is looked for beside it, so that cron finds it
        too.
        """
        name = os.path.expanduser(str(self.values.get("model", DEFAULT_MODEL)))
        if name.startswith(".") and self._positions["model"] == self._spec.positions.get("model"):
            beside = Path(self._spec.source.path).parent / name
            if self._spec.source.path != STDIN and os.path.isdir(beside):
                name = str(beside)
        if os.path.isdir(name) and Path(name) != Path(Path(name).name):
            name = str(Path(name).absolute())  # the sidecar's job is to run from any folder
        if "model" in self.values:
            self.values["model"] = name
        return name

    def complete(self, model: ModelInfo) -> None:
        """Fill in the model's defaults, derive what follows, and check what depends on the model."""
        self._complete_size(model)
        self._lay_under(flattened(dict(model.defaults)), model)
        self._lay_under(_FALLBACK, None)
        if "prompt" not in self.values and "prompt" not in self._broken:
            self.fault("no prompt", "prompt", fix=f"write {SMALLEST}")
        if "duration" in self.values:
            self._frames_of_duration(model)
        self._check_frames("num_frames", model)
        self._derive_sampler(model)
        self._check_guidance(model)
        self._check_encode()
        self._check_loras()
        if model.prompt_language_hint and any(
            char.isalpha() and char > _LAST_LATIN for char in str(self.values.get("prompt", ""))
        ):
            self.notes.append(
                f"{model.title} understands {model.prompt_language_hint}; "
                "the prompt has letters of other scripts"
            )

    def _complete_size(self, model: ModelInfo) -> None:
        """With only a width or a height given, the other keeps the model's shape, rounded to an even
        number.
        """
        given = {"width", "height"} & (self.values.keys() | self._broken)
        native = {name: model.defaults.get(name) for name in ("width", "height")}
        if len(given) != 1 or given & self._broken or not all(native.values()):
            return
        (have,) = given
        (lack,) = native.keys() - given
        value = 2 * max(1, round(self.values[have] * native[lack] / native[have] / 2))
        try:
            self.values[lack] = checked(lack, value)
        except FieldError as error:
            self._broken.add(lack)
            self.fault(error.what, have, f"it follows from {have} {self.values[have]}", f"write {lack} too")
            return
        self._derived.add(lack)
        if value != native[lack]:
            self.notes.append(f"{lack} {value} follows from {have} {self.values[have]}, in the model's shape")

    def _lay_under(self, defaults: Mapping[str, Any], model: ModelInfo | None) -> None:
        taken = Layer(dict.fromkeys([*self.values, *self._broken]), {})
        for name in taken.over(Layer(dict(defaults))).values:
            if name not in taken.values and name in FIELDS and defaults[name] is not None:
                self.values[name] = checked(name, defaults[name])
                if model is not None:
                    self._from_model.add(name)

    def _from_preset(self, name: str) -> bool:
        position = self._positions.get(name, "")
        return (
            bool(position) and not position.startswith("--set") and position != self._spec.positions.get(name)
        )

    # -- frames --------------------------------------------------------------------------------------------

    def _frames_of_duration(self, model: ModelInfo) -> None:
        seconds = self.values.pop("duration")
        if "fps" in self._broken:
            self._broken.add("num_frames")
            return
        fps = self.values["fps"]
        wanted = seconds * fps
        if seconds <= 0:
            self._broken.add("num_frames")
            self.fault("duration must be more than 0", "duration", fix="write duration: 2s")
            return
        step = model.frame_step
        count = max(1, step * math.floor((wanted - 1) / step + 0.5) + 1)
        self._positions["num_frames"] = self.place("duration")
        self._derived.add("num_frames")
        if count > model.max_num_frames:
            self._broken.add("num_frames")
            longest = model.max_num_frames / fps
            self.fault(
                f"duration {seconds:g} s at {fps:g} fps is {count} frames; "
                f"{model.title} makes at most {model.max_num_frames}",
                "duration",
                fix=f"write duration: {math.floor(longest * 100) / 100:g}s, or lower the fps",
            )
            return
        self.values["num_frames"] = count
        if abs(count - wanted) > 1e-6:
            rule = f"; num_frames is {step}n+1" if step > 1 else ""
            self.notes.append(
                f"duration {seconds:g} s at {fps:g} fps is {wanted:g} frames; "
                f"{count} {'is' if count == 1 else 'are'} made ({count / fps:.3f} s{rule})"
            )

    def _check_frames(self, name: str, model: ModelInfo) -> None:
        count = self.values.get(name)
        if not isinstance(count, int) or name in self._broken:
            return
        step = model.frame_step
        if count > model.max_num_frames:
            fix = f"write {name}: {model.max_num_frames} or less"
            self._broken.add(name)
            self.fault(
                f"{name} is {count}; {model.title} makes at most {model.max_num_frames}", name, fix=fix
            )
        elif (count - 1) % step:
            lower = (count - 1) // step * step + 1
            nearest = f"{lower}" if lower + step > model.max_num_frames else f"{lower} or {lower + step}"
            self._broken.add(name)
            self.fault(
                f"{name} is {count}; {model.title} makes {step}n+1 frames",
                name,
                fix=f"write {name}: {nearest}",
            )

    # -- the sampler's side --------------------------------------------------------------------------------

    def _derive_sampler(self, model: ModelInfo) -> None:
        for name in ("num_frames", "fps"):
            own = f"sampler.{name}"
            if name in self._broken or own in self._broken:
                continue
            if own not in self.values:
                self.values[own] = self.values[name]
                self._derived.add(own)
            elif self.values[own] != self.values[name]:
                why = "the rest would be frame interpolation, which is not built yet"
                fix = f"delete it, or write {name}: {self.values[own]:g}"
                self.fault(
                    f"{own} is {self.values[own]:g} and {name} is {self.values[name]:g}", own, why, fix
                )
        if {"width", "height", "sampler.width", "sampler.height"} & self._broken:
            return
        width, height = self.values["width"], self.values["height"]
        made = sampler_size(model, width, height)
        for own, side in zip(("sampler.width", "sampler.height"), made, strict=True):
            if own not in self.values:
                self.values[own] = side
                self._derived.add(own)
        made = self.values["sampler.width"], self.values["sampler.height"]
        if self._check_made_size(model, made) and made != (width, height):
            self.notes.append(_fit_note(model, made, (width, height), self._fit()))
        by_size = model.extra.get("flow_shift_by_size", {})
        if "flow_shift" in self._from_model and made in by_size:
            self.values["flow_shift"] = float(by_size[made])
        native_fps = model.defaults.get("fps")
        if (
            native_fps
            and "fps" in self.values
            and self.values["fps"] != native_fps
            and self.values.get("num_frames") != 1
        ):
            pace = self.values["fps"] / float(native_fps)
            self.notes.append(
                f"{model.title} makes motion for {native_fps:g} frames a second: "
                f"at {self.values['fps']:g} it plays {pace:.2g} times as fast"
            )

    def _fit(self) -> str:
        return str(self.values.get("upscale.fit", "crop"))

    def _check_made_size(self, model: ModelInfo, made: tuple[int, int]) -> bool:
        multiple = max(1, model.size_multiple)
        name = "sampler.width" if "sampler.width" in self._positions else "sampler.height"
        if model.sizes and made not in model.sizes:
            sizes = ", ".join(f"{width}x{height}" for width, height in model.sizes)
            self.fault(
                f"{model.title} cannot generate {made[0]}x{made[1]}",
                name,
                f"it makes {sizes}",
                "leave sampler.width and height out",
            )
        elif not model.sizes and (made[0] % multiple or made[1] % multiple):
            near = " and ".join(f"{max(1, round(side / multiple)) * multiple}" for side in made)
            self.fault(
                f"{model.title} cannot generate {made[0]}x{made[1]}",
                name,
                f"width and height are multiples of {multiple}",
                f"write {near}, or leave sampler.width and height out",
            )
        else:
            return True
        return False

    # -- the rest ------------------------------------------------------------------------------------------

    def _check_guidance(self, model: ModelInfo) -> None:
        if "guidance_scale_2" in self.values and not model.two_experts:
            self.fault(
                f"guidance_scale_2 is for models with two experts; {model.title} has one",
                "guidance_scale_2",
                fix="delete it",
            )
        schedule = self.values.get("guidance_schedule")
        interval = getattr(schedule, "interval", None)
        if interval is not None and interval[0] >= interval[1]:
            self.fault(
                f"guidance_schedule: the interval {list(interval)} is empty",
                "guidance_schedule",
                fix="write {interval: [0.2, 0.8]}: the first number is the smaller",
            )
        scale = self.values.get("guidance_scale")
        if (
            scale is not None
            and scale <= 1
            and self.values.get("negative_prompt")
            and "guidance_scale_2" not in self.values
        ):
            self.notes.append("guidance_scale is at most 1, so negative_prompt has no effect")

    def _check_encode(self) -> None:
        from veo_cli.stages.video_encode import setting_faults, size_faults

        encode = nested({name: value for name, value in self.values.items() if name.startswith("encode.")})
        settings = EncodeSettings(**encode.get("encode", {}))
        faults = setting_faults(settings)
        if not {"width", "height"} & self._broken:
            faults += size_faults(settings, self.values["width"], self.values["height"])
        for fault in faults:
            self.fault(fault.what, fault.where, fault.why, fault.fix)

    def _check_loras(self) -> None:
        loras = self.values.get("loras", ())
        found = []
        for lora in loras:
            named = Path(os.path.expanduser(lora.path))
            beside = Path(self._spec.source.path).parent / named
            path = next((path for path in (beside, named) if os.path.exists(path)), None)
            fix = "write the path of a .safetensors file, from the prompt file's folder or absolute"
            if path is None:
                self.fault(f"no LoRA at {lora.path}", "loras", fix=fix)
            elif not path.is_file():
                self.fault(f"the LoRA {lora.path} is not a file", "loras", fix=fix)
            else:
                try:
                    self.lora_fingerprints += _file_fingerprint(path.resolve(), path.stat().st_mtime_ns)
                except OSError as error:
                    self.fault(f"the LoRA {lora.path} cannot be read: {error.strerror or error}", "loras")
                found.append(lora.model_copy(update={"path": str(path.absolute())}))
        if loras:
            self.values["loras"] = tuple(found)

    def build(self, model: ModelInfo, seeds: DrawnSeeds) -> tuple[Job | None, bool]:
        """The Job, and whether its seed was drawn."""
        drawn = "seed" not in self.values
        values = {**self.values, "seed": 0} if drawn else self.values
        try:
            job = Job(**nested(values))
        except ValidationError as error:
            for item in error.errors():
                name = ".".join(str(part) for part in item["loc"])
                self.fault(f"{name}: {item['msg']}", name)
            return None, drawn
        if model.family == "generic":
            job = self._left_to_pipeline(job, model)
        if self.wrong:
            return None, drawn
        if drawn:
            identity = json.dumps(
                [job.identity(), model.fingerprint + self.lora_fingerprints], sort_keys=True
            )
            job = job.model_copy(update={"seed": seeds.seed_of(identity)})
        return job, drawn

    def _left_to_pipeline(self, job: Job, model: ModelInfo) -> Job:
        """A preset must not break a model: what of it a diffusers pipeline decides by itself is dropped,
        and said.
        """
        from veo_cli.models.generic_settings import unsupported_settings

        for fault in unsupported_settings(job):
            if self._from_preset(fault.where):
                value = self.values.pop(fault.where)
                self._positions.pop(fault.where)
                self.notes.append(
                    f"{fault.where}: {value} of the preset is left out; {model.title} samples by itself"
                )
            else:
                self.fault(fault.what, fault.where, fault.why, fault.fix)
        return Job(**nested({**self.values, "seed": job.seed}))

    def provenance(self, job: Job) -> dict[str, str]:
        result = {}
        for name in flattened(job.model_dump()):
            position = self._positions.get(name)
            if name in self._from_model:
                result[name] = "model"
            elif name in self._derived:
                result[name] = "derived"
            elif position is not None:
                result[name] = "set" if position.startswith("--set") else readable(position)
            elif name == "seed":
                result[name] = "derived"
            else:
                result[name] = "default"
        return result


@functools.lru_cache(maxsize=256)
def _file_fingerprint(path: Path, modified_ns: int) -> str:
    """`modified_ns` is part of the cache's key."""
    del modified_ns
    return fingerprint(path.parent, [path])


def _fit_note(model: ModelInfo, made: tuple[int, int], wanted: tuple[int, int], fit: str) -> str:
    """Says plainly that the delivered pixels are not those that the model makes."""
    text = f"{model.title} generates {made[0]}x{made[1]}; "
    text += f"each frame is fitted to {wanted[0]}x{wanted[1]} by Lanczos-3"
    if fit != "stretch":
        scale = (max if fit == "crop" else min)(wanted[0] / made[0], wanted[1] / made[1])
    else:
        scale = math.sqrt(wanted[0] * wanted[1] / (made[0] * made[1]))
    lost = [1 - side / (own * scale) for side, own in zip(wanted, made, strict=True)]
    if fit == "crop" and max(lost) > 0.005:
        text += f", {max(lost):.0%} of the {'width' if lost[0] > lost[1] else 'height'} cropped away"
    elif fit == "pad" and min(lost) < -0.005:
        text += ", with black bars"
    if scale > 1.02:
        text += f" ({scale:.1f} times as large, no sharper)"
    return text
