"""How clips are named: slugs, the name template, and where `output:` points."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping
from pathlib import Path

DEFAULT_TEMPLATE = "{stem}-{slug}-{seed}-{id}.mp4"
SUFFIX = ".mp4"
DEFAULT_NAME_BYTES = 80
MAX_NAME_BYTES = 120
ID_DIGITS = 8

# The fields of a template; docs and errors list them from here.
TEMPLATE_FIELDS = {
    "stem": "the prompt file's name without its suffix",
    "slug": "the prompt, made safe for a file name",
    "seed": "the seed",
    "id": f"the first {ID_DIGITS} digits of job_id",
    "job_id": "job_id, 64 digits",
    "model": "the model's name, made safe",
    "width": "of the clip, pixels",
    "height": "of the clip, pixels",
    "fps": "frames a second",
    "num_frames": "of the clip",
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
}

_STEM_BYTES = 24
_SLUG_BYTES = 60
# What a person means as the kind of a file; the digits of `take.2` or `v1.5` are part of the name.
_KIND = re.compile(r"\.[A-Za-z][A-Za-z0-9]*")
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
_LATIN = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ł": "l",
        "ı": "i",
        "'": "",
        "’": "",
    }
)
_ZERO_PADDED = re.compile(r"0?[1-9][0-9]?d?|")


def slug(text: str, max_bytes: int) -> str:
    """Lower-case letters and digits of any script, joined by single hyphens; at most max_bytes bytes of
    UTF-8.

    Accents are taken off Latin letters; scripts other than Latin stay as they are, in NFC. Nothing that any
    common file system, a shell or a URL treats as special is left. Cut at a word where one ends in the last
    third.
    """
    folded = unicodedata.normalize("NFKD", text.lower().translate(_LATIN))
    kept: list[str] = []
    base_is_ascii = False
    for char in folded:
        category = unicodedata.category(char)
        if category.startswith("M"):
            if not base_is_ascii and kept and kept[-1] != "-":
                kept.append(char)
        elif category.startswith("L") or category == "Nd":
            base_is_ascii = char.isascii()
            kept.append(char)
        else:
            base_is_ascii = True
            kept.append("_" if char == "_" else "-")
    words = re.sub(
        r"-*_[-_]*", "_", re.sub(r"-{2,}", "-", unicodedata.normalize("NFC", "".join(kept)))
    ).strip("-_")
    return _cut(words, max_bytes)


def _cut(words: str, max_bytes: int) -> str:
    encoded = words.encode()
    if len(encoded) <= max_bytes:
        return words
    cut = encoded[:max_bytes].decode(errors="ignore")
    end = max(cut.rfind("-"), cut.rfind("_"))
    if words[len(cut)] not in "-_" and end * 3 >= len(cut) * 2:
        cut = cut[:end]
    return cut.rstrip("-_")


class NameTemplate:
    """A parsed template such as DEFAULT_TEMPLATE. Raises ValueError, with the reason, when it is not one."""

    def __init__(self, template: str) -> None:
        self._budget = DEFAULT_NAME_BYTES if template == DEFAULT_TEMPLATE else MAX_NAME_BYTES
        try:
            self._parts = list(string.Formatter().parse(template))
        except ValueError as error:
            raise ValueError(f"{error}; write {{{{ for a brace") from None
        for literal, name, spec, conversion in self._parts:
            if any(
                char in '\0<>:"|?*\\' or ord(char) < 32 or "\ud800" <= char <= "\udfff" for char in literal
            ):
                raise ValueError(
                    'a file name cannot hold < > : " | ? * \\, control characters or bytes that are not UTF-8'
                )
            if name is None:
                continue
            if name not in TEMPLATE_FIELDS:
                raise ValueError(
                    f"unknown field {{{name}}}; there are " + ", ".join(f"{{{f}}}" for f in TEMPLATE_FIELDS)
                )
            if conversion or not _ZERO_PADDED.fullmatch(spec or ""):
                raise ValueError(f"{{{name}:{spec}}}: only a width is allowed, as in {{seed:06}}")
        if ".." in Path("".join(literal for literal, *_ in self._parts)).parts:
            raise ValueError("it may not leave the output folder by ..")
        _check_leaf(template)

    def path(self, values: Mapping[str, int | float | str], prompt: str, stem: str) -> str:
        """The relative path of one clip; `values` has all TEMPLATE_FIELDS but slug, stem and model's slug
        form.
        """
        known = {
            **values,
            "model": slug(str(values["model"]), _STEM_BYTES) or "model",
            "slug": "",
            "stem": "",
        }
        short_stem = slug_stem(stem)
        fixed = len(Path(self._filled(known)).name.encode()) + len(SUFFIX)
        room = self._budget - fixed
        known["stem"] = _cut(short_stem, max(0, min(_STEM_BYTES, room - 8)))
        last = [part for part in self._parts if part[1] == "stem"]
        room -= len(str(known["stem"]).encode()) * len(last)
        known["slug"] = slug(prompt, max(4, min(_SLUG_BYTES, room))) or "clip"
        name = self._filled(known)
        folder, slash, leaf = name.rpartition("/")
        leaf = leaf.removesuffix(SUFFIX)
        leaf = leaf.encode()[: MAX_NAME_BYTES - len(SUFFIX)].decode(errors="ignore").strip(" .") or "clip"
        if leaf.split(".")[0].lower() in _RESERVED:
            leaf += "-clip"
        return f"{folder}{slash}{leaf}{SUFFIX}"

    def _filled(self, values: Mapping[str, int | float | str]) -> str:
        filled = []
        for literal, name, spec, _ in self._parts:
            filled.append(literal)
            if name is not None:
                value = values[name]
                filled.append(format(value, spec or "") if isinstance(value, int) else _number(value))
        return "".join(filled)


def _number(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else value


def slug_stem(stem: str) -> str:
    """A prompt file's stem as it goes into names."""
    return slug(stem, _STEM_BYTES) or "prompt"


def output_template(output: str) -> str:
    """The template that the `output:` field means. Raises ValueError, with the reason, where it names no clip."""
    if output.endswith("/"):
        return output.replace("{", "{{").replace("}", "}}") + DEFAULT_TEMPLATE
    _check_leaf(output)
    return output if output.lower().endswith(SUFFIX) else output + SUFFIX


def _check_leaf(path: str) -> None:
    """Raise ValueError where the last part of a path, or of a template of one, is no name for a clip."""
    leaf = path.rpartition("/")[2].strip()
    if leaf in (".", ".."):
        raise ValueError("it is a folder")
    if leaf.lower() in ("", SUFFIX):
        raise ValueError("it names no file")
    suffix = Path(leaf).suffix.lower()
    if _KIND.fullmatch(suffix) and suffix != SUFFIX:
        raise ValueError(f"clips are written as {SUFFIX}, not {suffix}")
