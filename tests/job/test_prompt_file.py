from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from veo_cli.field_names import FIELDS, GROUPS, OTHER_TOOLS, TOP_LEVEL
from veo_cli.job import Job
from veo_cli.prompt_file import JobSpec, read_specs


def specs_of(text: str, tmp_path: Path, name: str = "job.yaml") -> list[JobSpec]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_specs([str(path)])


def fields_of(text: str, tmp_path: Path, name: str = "job.yaml") -> list[dict[str, Any]]:
    specs = specs_of(text, tmp_path, name)
    assert [fault for spec in specs for fault in spec.faults] == []
    return [dict(spec.fields) for spec in specs]


def fault_of(text: str, tmp_path: Path, name: str = "job.yaml") -> str:
    (fault,) = [fault for spec in specs_of(text, tmp_path, name) for fault in spec.faults]
    return str(fault).partition(f"{name}:")[2]


def test_names_are_those_of_job() -> None:
    expected = set()
    for name, info in Job.model_fields.items():
        if name in GROUPS:
            assert tuple(info.annotation.model_fields) == GROUPS[name]
            expected |= {f"{name}.{leaf}" for leaf in GROUPS[name]}
        else:
            assert name in TOP_LEVEL
            expected.add(name)
    assert expected == FIELDS
    assert set(OTHER_TOOLS.values()) <= FIELDS | {"resolution", "duration"}
    assert not OTHER_TOOLS.keys() & FIELDS


def test_reading_imports_neither_torch_nor_pydantic() -> None:
    code = "import sys, veo_cli.prompt_file, veo_cli.presets\n"
    code += "assert not {'torch', 'pydantic', 'numpy'} & sys.modules.keys(), sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_text_fields_take_what_is_written(tmp_path: Path) -> None:
    (fields,) = fields_of("prompt: 2024\nnegative_prompt: no\nmodel: 007\nencode: {chroma: 444}\n", tmp_path)
    assert fields == {
        "prompt": "2024",
        "negative_prompt": "no",
        "model": "007",
        "encode": {"chroma": "444"},
    }


def test_null_is_not_set(tmp_path: Path) -> None:
    assert fields_of("prompt: a\nseed:\nnegative_prompt: null\nencode:\n", tmp_path) == [{"prompt": "a"}]


def test_prompt_blanks_are_trimmed(tmp_path: Path) -> None:
    (fields,) = fields_of("prompt: |\n  two\n  lines\n\n", tmp_path)
    assert fields["prompt"] == "two\nlines"


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("720p", (1280, 720)),
        ("4k", (3840, 2160)),
        ("4K", (3840, 2160)),
        ("2k", (2560, 1440)),
        ("full hd", (1920, 1080)),
        ("1280x720", (1280, 720)),
        ("1280*720", (1280, 720)),
        ("1280 × 720", (1280, 720)),
        ("[640, 360]", (640, 360)),
    ],
)
def test_resolutions(written: str, size: tuple[int, int], tmp_path: Path) -> None:
    (fields,) = fields_of(f"prompt: a\nresolution: {written}\n", tmp_path)
    assert (fields["width"], fields["height"]) == size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("4s", 4), ("2.5 s", 2.5), ("250ms", 0.25), ("3", 3), ("0.5", 0.5), ("1 min", 60), ("10 seconds", 10)],
)
def test_durations(written: str, seconds: float, tmp_path: Path) -> None:
    (fields,) = fields_of(f"prompt: a\nduration: {written}\n", tmp_path)
    assert fields["duration"] == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("prompt: a\nguidance_scal: 5", "2:1: unknown field guidance_scal\n  did you mean guidance_scale?"),
        ("prompt: a\nGuidance-Scale: 5", "2:1: unknown field Guidance-Scale\n  did you mean guidance_scale?"),
        ("prompt: a\nencode: {cfr: 5}", "2:10: unknown field encode.cfr\n  did you mean encode.crf?"),
        ("prompt: a\nencode.cfr: 5", "2:1: unknown field encode.cfr\n  did you mean encode.crf?"),
        (
            "prompt: a\ncrf: 5",
            "2:1: unknown field crf\n  did you mean crf in the group encode, encode: {crf: ...}?",
        ),
        ("prompt: a\nmatrx: {seed: [1]}", "2:1: unknown field matrx\n  did you mean matrix?"),
        ("prompt: a\nencode: 5", "2:9: encode is a group of fields\n  write encode: {codec: ...}"),
        (
            "prompt: [a, b]",
            "1:9: prompt is one value, not a list\n  put quotes around a text with [ ] { } in it",
        ),
        (
            "prompt: a\nseed: [1, 2]",
            "2:7: seed is one value, not a list\n  for several clips: matrix: {seed: [...]}",
        ),
        ("prompt: a\nseed: '5'", "2:7: seed: '5' is text, for it stands in quotes\n  write seed: 5"),
        ("prompt: a\nduration: long", "2:11: duration: 'long' is not a duration\n  write 4s, 2.5s or 250ms"),
        (
            "prompt: a\nnum_videos: 3",
            "2:1: there is no field num_videos\n  one clip a job; for several: matrix: {seed: [1, 2, 3]}",
        ),
        (
            "calm ocean",
            "1:1: a text instead of fields\n"
            '  write prompt: "calm ocean", or name the file .txt: one prompt a line',
        ),
        (
            "matrix: {seed: 3}\nprompt: a",
            "1:16: matrix: seed needs a list of values\n  write matrix: {seed: [first, second]}",
        ),
        ("matrix: {sed: [1, 2]}\nprompt: a", "1:10: unknown field sed\n  did you mean seed?"),
        ("prompts: a", "1:10: prompts is a list\n  write prompts: [first text, second text]"),
        ("prompt: a\npreset: [draft]", "2:9: preset is one name\n  write preset: draft"),
        (
            "prompt: a\nloras: [{file: x}]",
            "2:9: loras: not a LoRA\n  write loras: [{path: style.safetensors, scale: 0.8}]",
        ),
    ],
)
def test_faults(text: str, fault: str, tmp_path: Path) -> None:
    assert fault_of(text, tmp_path) == fault


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prompt: a\nsteps: 5\nnum_inference_steps: 6", "num_inference_steps and steps say the same thing"),
        ("prompt: a\nduration: 2s\nnum_frames: 17", "num_frames and duration say the same thing"),
        ("prompt: a\nwidth: 64\nresolution: 720p", "resolution and width say the same thing"),
        ("prompt: a\nencode: {crf: 3, bitrate: 2M}", "encode.bitrate and encode.crf say the same thing"),
        ("prompt: a\nencode: {lossless: true, crf: 3}", "encode.crf and encode.lossless say the same thing"),
        ("prompt: a\nresolution: 16:9", "'16:9' is not a resolution"),
        ("prompt: a\ninterpolate: {factor: 2}", "frame interpolation is not built yet"),
        ("prompt: a\nupscale: {model: x}", "super-resolution networks are not built yet"),
        ("prompt: a\nprompts: [b]", "both prompt and prompts"),
        ("prompt: a\nmatrix: {seed: [1], base_seed: [2]}", "base_seed and seed set the same field"),
        (
            "prompt: a\nmatrix: {num_frames: [5], duration: [2s]}",
            "duration and num_frames set the same field",
        ),
        (
            f"prompt: a\nmatrix: {{seed: [{'1,' * 400}], flow_shift: [{'1,' * 400}]}}",
            "160,000 jobs from one document",
        ),
        ("prompts: [a, [b]]", "not a prompt"),
        (
            "seed: 1\nprompts: []",
            "2:10: prompts is an empty list\n  write prompts: [first text, second text]",
        ),
    ],
)
def test_contradictions(text: str, words: str, tmp_path: Path) -> None:
    assert words in fault_of(text, tmp_path)


def test_lossless_false_is_no_claim(tmp_path: Path) -> None:
    (fields,) = fields_of("prompt: a\nencode: {lossless: false, crf: 3}", tmp_path)
    assert fields["encode"] == {"lossless": False, "crf": 3}


def test_other_tools_names_are_said_once_for_a_job(tmp_path: Path) -> None:
    (spec,) = specs_of("prompt: a\nsteps: 5\nCFG: 4\nsample_solver: unipc\n", tmp_path)
    assert spec.fields == {
        "prompt": "a",
        "num_inference_steps": 5,
        "guidance_scale": 4,
        "sampler": {"scheduler": "unipc"},
    }
    (warning,) = spec.warnings
    assert warning.endswith(
        "job.yaml:2:1: names of other tools, understood: steps is num_inference_steps here, "
        "CFG is guidance_scale here, sample_solver is sampler.scheduler here"
    )


def test_matrix_order_and_own_values(tmp_path: Path) -> None:
    text = """
seed: 99
prompts: [a, {prompt: b, seed: 5}, {prompt: c, preset: draft}]
matrix:
  preset: [standard, draft]
  encode: {crf: [20, 30]}
  seed: [1, 2]
"""
    specs = specs_of(text, tmp_path)
    rows = [(s.fields["prompt"], s.preset, s.fields["encode"]["crf"], s.fields["seed"]) for s in specs]
    assert rows == [
        *[
            ("a", preset, crf, seed)
            for preset in ("standard", "draft")
            for crf in (20, 30)
            for seed in (1, 2)
        ],
        *[("b", preset, crf, 5) for preset in ("standard", "draft") for crf in (20, 30)],
        *[("c", "draft", crf, seed) for crf in (20, 30) for seed in (1, 2)],
    ]


def test_matrix_over_words_and_texts(tmp_path: Path) -> None:
    rows = fields_of("matrix:\n  prompt: [a, b]\n  resolution: [720p, 64x32]\n  encode.crf: [1]", tmp_path)
    assert [(row["prompt"], row["width"], row["height"], row["encode"]["crf"]) for row in rows] == [
        ("a", 1280, 720, 1),
        ("a", 64, 32, 1),
        ("b", 1280, 720, 1),
        ("b", 64, 32, 1),
    ]


def test_a_document_s_defaults_are_its_own(tmp_path: Path) -> None:
    rows = fields_of("prompt: a\nseed: 1\n---\nprompt: b\n---\n", tmp_path)
    assert rows == [{"prompt": "a", "seed": 1}, {"prompt": "b"}]


def test_positions_point_at_values(tmp_path: Path) -> None:
    (spec,) = specs_of("\nprompt: a\nencode: {crf: 20}\nresolution: 720p\n", tmp_path)
    path = tmp_path / "job.yaml"
    assert spec.positions == {
        "prompt": f"{path}:2:9",
        "encode.crf": f"{path}:3:15",
        "width": f"{path}:4:13",
        "height": f"{path}:4:13",
    }


def test_json_object_list_and_lines(tmp_path: Path) -> None:
    assert fields_of('{"prompt": "a \\ud83c\\udf88", "seed": 1e1}', tmp_path, "a.json") == [
        {"prompt": "a 🎈", "seed": 10.0}
    ]
    assert fields_of('["a", {"prompt": "b"}]', tmp_path, "b.json") == [{"prompt": "a"}, {"prompt": "b"}]
    assert fields_of('{"prompt": "a"}\n{"prompt": "b"}\n', tmp_path, "c.json") == [
        {"prompt": "a"},
        {"prompt": "b"},
    ]


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        ("prompt: a\n---\nprompt: b", ["a", "b"]),
        ('{"prompt": "a"}', ["a"]),
        ("{prompt: a}", ["a"]),
        ("calm ocean\n# no\na boat\n", ["calm ocean", "a boat"]),
        ("- a\n- b\n", ["a", "b"]),
    ],
)
def test_stdin(text: str, prompts: list[str]) -> None:
    specs = read_specs(["-", "-"], stdin=io.TextIOWrapper(io.BytesIO(text.encode())))
    assert [spec.fields["prompt"] for spec in specs] == prompts
    assert {spec.stem for spec in specs} == {"stdin"}


@pytest.mark.parametrize(
    ("name", "text", "stem"),
    [("boats.txt", "a boat\n", "boats"), ("pipe", "a boat\n", "stdin"), ("b.yaml", "prompt: a boat", "b")],
)
def test_a_fifo_is_read_once_as_stdin_is(name: str, text: str, stem: str, tmp_path: Path) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    (spec,) = read_specs([str(path), str(path)])
    writer.join()
    assert (spec.fields, spec.stem, spec.faults) == ({"prompt": "a boat"}, stem, ())


def test_a_scan_does_not_wait_at_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "job.yaml").write_text("prompt: a")
    for source in (tmp_path, tmp_path / "*.yaml"):
        assert [spec.stem for spec in read_specs([str(source)])] == ["job"]


def test_folder_glob_and_repeats(tmp_path: Path) -> None:
    for name in ("shot10.yaml", "shot9.yaml", "b.json", "c.txt", ".hidden.yaml", "notes.md", "clip.json"):
        (tmp_path / name).write_text(json.dumps({"prompt": name}))
    (tmp_path / "clip.mp4").write_bytes(b"")  # so clip.json is its sidecar
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "d.yaml").write_text("prompt: d")
    stems = [spec.stem for spec in read_specs([str(tmp_path)])]
    assert stems == ["b", "c", "shot9", "shot10"]
    stems = [spec.stem for spec in read_specs([str(tmp_path / "shot9.yaml"), str(tmp_path / "shot*.yaml")])]
    assert stems == ["shot9", "shot10"]
    assert [spec.stem for spec in read_specs([str(tmp_path / "**" / "d.yaml")])] == ["d"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jov.yaml", "did you mean {folder}/job.yaml?"),
        ("nothing-like-it", "the smallest one holds one line: prompt: "),
        ("a red boat at sea", "echo 'TEXT' | veo render -"),
        ("*.yml", "no file matches"),
        (
            "empty",
            "/empty: no prompt files in this folder (looked for names in .yaml, .yml, .json, .txt)\n  put one into it",
        ),
        ("link.yaml", "link.yaml: a symbolic link to nothing (it points to gone.yaml)\n  point it to a file"),
        ("links", "links/job.yaml: a symbolic link to nothing (it points to ../gone.yaml)"),
        ("x" * 300, "no such file"),
        ("clip.mp4", "veo inspect"),
        ("big.yaml", "more than 16 MiB"),
    ],
)
def test_sources_that_cannot_be_read(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("prompt: a")
    (tmp_path / "clip.mp4").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link.yaml").symlink_to("gone.yaml")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "job.yaml").symlink_to("../gone.yaml")
    with open(tmp_path / "big.yaml", "wb") as file:
        file.truncate(17 * 2**20)
    (spec,) = read_specs([str(tmp_path / name)])
    assert spec.fields == {}
    assert words.format(folder=tmp_path) in str(spec.faults[0])


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.yaml").write_text("prompt: a")
    monkeypatch.chdir(tmp_path)
    (spec,) = read_specs([""])
    assert "a file's name is empty" in str(spec.faults[0])


@pytest.mark.parametrize("name", ["job.yaml", "job.json", "job.txt"])
def test_a_nul_byte_is_shown_where_it_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b'{"seed": 1,\n"prompt": "a\0b"}')
    (spec,) = read_specs([str(path)])
    (fault,) = spec.faults
    assert (fault.what, fault.where) == ("a NUL byte", f"{path}:2:13")
    subprocess.run(["sh", "-c", fault.fix.removeprefix("delete it: ")], check=True)
    assert (tmp_path / f"job.clean{path.suffix}").read_bytes() == b'{"seed": 1,\n"prompt": "ab"}'


def test_half_a_character_in_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text('{"prompt": "a \\ud83d boat"}')
    (spec,) = read_specs([str(path)])
    assert str(spec.faults[0]) == (
        f"{path}:1:12: not valid JSON (\\ud83d is half of a character)\n"
        "  write the character itself, or both halves, as in \\ud83d\\ude80"
    )
    path.write_text('{"prompt": "a \\ud83d\\ude80"}')
    assert read_specs([str(path)])[0].fields["prompt"] == "a 🚀"


def test_hostile_bytes_give_faults_not_crashes(tmp_path: Path) -> None:
    import random

    generator = random.Random(1)
    seeds = [path.read_bytes() for path in (Path(__file__).parents[1] / "cases" / "dev").iterdir()]
    path = tmp_path / "job.yaml"
    for number in range(300):
        data = bytearray(generator.choice(seeds)[:400])
        for _ in range(generator.randrange(1, 6)):
            at = generator.randrange(len(data) + 1)
            data[at : at + generator.randrange(3)] = generator.choice(
                [
                    b"",
                    b"\t",
                    b": ",
                    b"{",
                    b"]",
                    b"&a ",
                    b"*a",
                    b"\xff",
                    b"\x00",
                    b"\n- ",
                    b'"',
                    b"!!x ",
                    b"---\n",
                ]
            )
        path = path.with_suffix(generator.choice([".yaml", ".json", ".txt"]))
        path.write_bytes(bytes(data))
        specs = read_specs([str(path)])
        assert all(spec.fields or spec.faults or spec.source.path for spec in specs), number
