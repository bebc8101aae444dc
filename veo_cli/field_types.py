"""Types and ranges of single fields, taken from Job, with errors that a person can act on."""

from __future__ import annotations

import difflib
import re
import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from veo_cli.job import Job

_EXAMPLES = {
    "width": "1280", "height": "720", "num_frames": "33", "fps": "24", "num_inference_steps": "24",
    "guidance_scale": "5.0", "seed": "7", "flow_shift": "3.0", "encode.crf": "18", "encode.bitrate": "20M",
}  # fmt: skip


class FieldError(Exception):
    """What is wrong with a value, why, and the edit that helps."""

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.why, self.fix = what, why, fix


def checked(name: str, value: Any) -> Any:
    """The value of a (dotted) field in its own type. Raises FieldError."""
    adapter, base = _adapter(name)
    if base is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if base in (int, float) and (isinstance(value, (str, bool)) or value is None):
        raise _not_a_number(name, value, base)
    if base is bool and not isinstance(value, bool):
        raise FieldError(f"{name}: {_shown(value)} is not true or false", fix=f"write {name}: true")
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise _explained(name, value, base, error) from None


def choices(name: str) -> tuple[str, ...]:
    """The words a field allows; () for other fields."""
    _, base = _adapter(name)
    return tuple(str(choice) for choice in get_args(base)) if get_origin(base) is Literal else ()


@cache
def _adapter(name: str) -> tuple[TypeAdapter[Any], Any]:
    group, _, leaf = name.rpartition(".")
    model: type[BaseModel] = Job
    if group:
        annotation = Job.model_fields[group].annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        model = annotation
    info: FieldInfo = model.model_fields[leaf]
    whole: Any = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    return TypeAdapter(whole), _base(info.annotation)


def _base(annotation: Any) -> Any:
    """The annotation without None, Annotated and unions: int, float, bool, str, a Literal, or something
    larger.
    """
    if get_origin(annotation) is Annotated:
        return _base(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        members = [_base(member) for member in get_args(annotation) if member is not type(None)]
        return members[0] if len(members) == 1 else annotation
    return annotation


def _not_a_number(name: str, value: Any, base: type) -> FieldError:
    wanted = "a whole number" if base is int else "a number"
    text = str(value)
    fix = f"write {name}: {_EXAMPLES.get(name, '1')}"
    why = ""
    if re.fullmatch(r"[-+]?0[0-9]+", text):
        why = "a leading zero means octal to some tools and nothing to others"
        fix = (
            f"write {name}: {int(text)}, or {int(text, 8)} if octal was meant"
            if set(text) <= set("01234567+-")
            else (f"write {name}: {int(text)}")
        )
    elif re.fullmatch(r"[-+]?[0-9][0-9_]*_[0-9_]*", text):
        why = "underscores in numbers are not YAML 1.2"
        fix = f"write {name}: {text.replace('_', '')}"
    elif re.fullmatch(r"[0-9]+(:[0-5]?[0-9])+(\.[0-9]+)?", text):
        why = "base-60 numbers are not YAML 1.2"
    elif re.fullmatch(r"[0-9]+,[0-9]+", text):
        fix = f"write {name}: {text.replace(',', '.')}"
    return FieldError(f"{name}: {_shown(value)} is not {wanted}", why, fix)


def _explained(name: str, value: Any, base: Any, error: ValidationError) -> FieldError:
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    kind = first["type"]
    if name == "guidance_schedule":
        return FieldError(
            f"{name}: {_shown(value)} is not a guidance schedule",
            "the interval's ends lie between 0 and 1" if isinstance(value, dict) else "",
            fix="write constant, sqrt_decay, or {interval: [0.2, 0.8]}",
        )
    if get_origin(base) is Literal:
        allowed = choices(name)
        near = difflib.get_close_matches(str(value).lower(), allowed, 1, 0.5)
        fix = (
            f"did you mean {near[0]}? There are {', '.join(allowed)}"
            if near
            else f"write one of {', '.join(allowed)}"
        )
        return FieldError(f"{name}: {_shown(value)} is not one of its words", fix=fix)
    limits = {
        "greater_than": ("more than", "gt"),
        "greater_than_equal": ("at least", "ge"),
        "less_than": ("less than", "lt"),
        "less_than_equal": ("at most", "le"),
    }
    if kind in limits:
        words, key = limits[kind]
        limit = context[key]
        limit = int(limit) if float(limit).is_integer() else limit
        return FieldError(
            f"{name} is {_shown(value)}; it must be {words} {limit}", fix=_range_fix(name, value)
        )
    if kind == "finite_number":
        return FieldError(
            f"{name}: {_shown(value)} is not a finite number",
            fix=f"write {name}: {_EXAMPLES.get(name, '1.0')}",
        )
    if kind == "int_from_float" or (base is int and isinstance(value, float)):
        return FieldError(
            f"{name}: {_shown(value)} is not a whole number", fix=f"write {name}: {_EXAMPLES.get(name, '1')}"
        )
    if name == "prompt" and kind == "string_too_short":
        return FieldError("the prompt is empty", fix="say what is to be seen")
    return FieldError(f"{name}: {_shown(value)}: {first['msg']}")


def _range_fix(name: str, value: Any) -> str:
    if name == "seed" and isinstance(value, int) and value < 0:
        return "leave seed out to have one drawn"
    return f"write, say, {name}: {_EXAMPLES[name]}" if name in _EXAMPLES else ""


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value != value:
        return ".nan"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
