from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.job.conftest import Faults, Resolve
from tests.job.described import describe, veo_mini
from veo_cli.errors import EnvironmentFault, ModelMissing, SpecificationError
from veo_cli.field_names import FIELDS
from veo_cli.models.model_info import ModelInfo
from veo_cli.prompt_file import read_specs
from veo_cli.resolve import resolve_jobs
from veo_cli.sampler_size import sampler_size


def test_order_of_precedence_and_provenance(resolve: Resolve, tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(
        "num_inference_steps: 3\nguidance_scale: 3\nflow_shift: 2\nencode: {crf: 30, codec_preset: slow}"
    )
    (entry,) = resolve(
        "prompt: a\nguidance_scale: 2\nflow_shift: 4",
        preset=str(preset),
        settings=["flow_shift=7", "encode.crf=11", "flow_shift=6", "seed=5"],
    )
    job, origin = entry.job, entry.provenance
    assert (job.flow_shift, origin["flow_shift"]) == (6.0, "set")
    assert (job.encode.crf, origin["encode.crf"]) == (11.0, "set")
    assert job.guidance_scale == 2.0
    assert origin["guidance_scale"].endswith("job.yaml:2:17")
    assert (job.num_inference_steps, origin["num_inference_steps"]) == (3, str(preset))
    assert (job.encode.codec_preset, origin["encode.codec_preset"]) == ("slow", str(preset))
    assert (job.num_frames, origin["num_frames"]) == (33, "model")
    assert (job.encode.chroma, origin["encode.chroma"]) == ("420", "default")
    assert (job.sampler.width, origin["sampler.width"]) == (256, "derived")


def test_every_value_has_a_provenance(resolve: Resolve) -> None:
    from veo_cli.layer import flattened

    (entry,) = resolve("prompt: a")
    assert entry.provenance.keys() == flattened(entry.job.model_dump()).keys()


def test_the_option_goes_before_the_file_s_own_preset(resolve: Resolve) -> None:
    (entry,) = resolve("prompt: a\npreset: draft\nseed: 1")
    assert entry.job.num_inference_steps == 8
    assert entry.provenance["num_inference_steps"] == "preset:draft"
    (entry,) = resolve("prompt: a\npreset: draft\nseed: 1", preset="standard")
    assert entry.job.num_inference_steps == 24


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        (["prompt=a: b, *c"], "prompt", "a: b, *c"),
        (["prompt=no"], "prompt", "no"),
        (["num_frames=5"], "num_frames", 5),
        (["duration=1s"], "num_frames", 13),
        (["resolution=128x72"], "width", 128),
        (["guidance_scale=1e1"], "guidance_scale", 10.0),
        (["negative_prompt="], "negative_prompt", ""),
        (["prompt=null"], "prompt", "null"),
        (["num_frames=17", "num_frames=5"], "num_frames", 5),
    ],
)
def test_settings(settings: list[str], field: str, value: Any, resolve: Resolve) -> None:
    (entry,) = resolve("prompt: x\nseed: 1\nnum_frames: 9\nnegative_prompt: people", settings=settings)
    assert getattr(entry.job, field) == value


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("seed", "--set seed: a setting is FIELD=VALUE\n  write --set seed=7"),
        ("sed=3", "--set sed=3: unknown field sed\n  did you mean seed?"),
        ("steps=3", "--set steps=3: steps is num_inference_steps here\n  write --set num_inference_steps=3"),
        ("seed=010", "--set seed=010: seed: '010' is not a whole number"),
        ("fps=0", "--set fps=0: fps is 0; it must be more than 0"),
        ("encode.crf=[", "--set encode.crf=[: not valid YAML"),
        ("num_frames=20", "--set num_frames=20: num_frames is 20; veo-mini makes 4n+1 frames"),
        ("prompt=", "--set prompt=: the prompt is empty\n  say what is to be seen"),
        ("prompt=  ", "--set prompt=  : the prompt is empty"),
        ("seed=", "--set seed=: seed is given no value (nothing stands behind =)"),
        ("seed=null", "--set seed=null: seed is given no value (null would leave the field as it is)"),
        ("output=", "--set output=: output: '' cannot name a clip (it names no file)"),
        ("output=..", "--set output=..: output: '..' cannot name a clip (it is a folder)"),
        ("output=a\nb.mp4", "--set output=a\nb.mp4: output is not a file's path (too long, or with control"),
        (
            "output=x.txt",
            "--set output=x.txt: output: 'x.txt' cannot name a clip (clips are written as .mp4, not .txt)",
        ),
        ("encode.bitrate=", "--set encode.bitrate=: encode.bitrate: '' is not a bitrate"),
        ("title=", "--set title=: unknown field title"),
        ("prompt=\udcff", "--set prompt=\udcff: not UTF-8"),
    ],
)
def test_faulty_settings(setting: str, fault: str, faults: Faults) -> None:
    (found,) = faults("prompt: a\nseed: 1", settings=[setting])
    assert found.startswith(fault)


@pytest.mark.parametrize(
    "settings",
    [
        ["encode.lossless=true", "encode.crf=20"],
        ["encode.crf=20", "seed=3", "encode.bitrate=20M"],
        ["num_frames=5", "duration=2s"],
    ],
)
def test_settings_that_exclude_each_other_are_a_fault(settings: list[str], faults: Faults) -> None:
    (found,) = faults("prompt: a\nseed: 1", settings=settings)
    names = [setting.partition("=")[0] for setting in (settings[0], settings[-1])]
    assert found == f"--set {settings[-1]}: {names[0]} and {names[1]} exclude each other\n  keep one of them"


def test_not_lossless_leaves_crf_as_it_is(resolve: Resolve) -> None:
    (entry,) = resolve("prompt: a\nseed: 1\nencode: {crf: 30}", settings=["encode.lossless=false"])
    assert (entry.job.encode.crf, entry.job.encode.lossless) == (30, False)
    (entry,) = resolve("prompt: a\nseed: 1", settings=["encode.crf=30", "encode.lossless=false"])
    assert entry.job.encode.crf == 30


def test_an_output_folder_that_cannot_be_one_is_refused_at_once(tmp_path: Path, faults: Faults) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for output, fault in (
        (tmp_path / "notes.txt", f"the folder cannot be made: {tmp_path / 'notes.txt'} is a file"),
        (
            tmp_path / "notes.txt" / "deep" / "er",
            f"the folder cannot be made: {tmp_path / 'notes.txt'} is a file",
        ),
        (tmp_path / "link", f"{tmp_path / 'link'} is a symbolic link to nothing"),
    ):
        (found,) = faults("prompt: a\nseed: 1", output=output)
        assert found.startswith(f"--output {output}: {fault}\n  name a folder")
    (found,) = faults("prompt: a\nseed: 1", output=tmp_path / ("x" * 300))
    assert found.startswith("--output: the folder's name is too long")
    (found,) = faults("prompt: a\nseed: 1", output=tmp_path / "\udcff")
    assert "the folder's name is not UTF-8" in found
    (found,) = faults("prompt: a\nseed: 1", output=tmp_path / "a\nb")
    assert "has control characters in it" in found


def test_a_folder_that_takes_no_salt_is_the_folder_s_fault(resolve: Resolve, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".veo").write_text("a file of mine")
    with pytest.raises(EnvironmentFault) as caught:
        resolve("prompt: a", keep_seeds=True)
    assert str(caught.value).startswith(f"{tmp_path / 'out'}: cannot write into the output folder (")


def test_jobs_that_collide_are_shown_where_they_differ(faults: Faults) -> None:
    (found,) = faults("prompt: a\nmatrix: {seed: [1, 1]}")
    assert found.startswith("2:20: the same job is at ") and "job.yaml:2:17\n" in found
    (found,) = faults("seed: 1\noutput: x\nprompts: [a, b]")
    assert found.startswith("3:14: two jobs would write ") and "job.yaml:3:11)" in found


def test_the_root_of_all_folders_is_one(resolve: Resolve) -> None:
    for output, name in (("/", "job-a-1-"), ("/{slug}", "a.mp4")):
        (entry,) = resolve(f"prompt: a\nseed: 1\noutput: '{output}'")
        assert entry.output_path.parent == Path("/")
        assert entry.output_path.name.startswith(name)


def test_a_home_that_is_not_there_is_a_folder_s_name(resolve: Resolve, tmp_path: Path) -> None:
    for output in ("~no-such-user/a.mp4", "~no-such-user/{seed}.mp4"):
        (entry,) = resolve(f"prompt: a\nseed: 1\noutput: '{output}'")
        assert entry.output_path.parent == tmp_path / "out" / "~no-such-user"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("num_frames: 20", "num_frames is 20; veo-mini makes 4n+1 frames\n  write num_frames: 17 or 21"),
        ("num_frames: 128", "num_frames is 128; veo-mini makes 4n+1 frames\n  write num_frames: 125 or 129"),
        ("num_frames: 133", "num_frames is 133; veo-mini makes at most 129\n  write num_frames: 129 or less"),
        ("num_frames: 0", "num_frames is 0; it must be at least 1"),
        ("num_frames: 9.5", "num_frames: 9.5 is not a whole number"),
        (
            "duration: 20s",
            "duration 20 s at 12 fps is 241 frames; veo-mini makes at most 129\n  write duration: 10.75s",
        ),
        ("duration: 0", "duration must be more than 0"),
        ("width: 255", "width 255 is odd"),
        ("width: 99999", "width is 99999; it must be at most 16384"),
        ("fps: 1:30", "fps: '1:30' is not a number (base-60 numbers are not YAML 1.2)"),
        ("fps: 12fps", "fps: '12fps' is not a number"),
        ("guidance_scale: -.inf", "guidance_scale: -inf is not a finite number"),
        ("seed: -1", "seed is -1; it must be at least 0\n  leave seed out to have one drawn"),
        ("seed: 9223372036854775808", "seed is 9223372036854775808; it must be at most 9223372036854775807"),
        ("seed: true", "seed: true is not a whole number"),
        ("noise_schedule: karas", "noise_schedule: 'karas' is not one of its words\n  did you mean karras?"),
        ("guidance_schedule: sqrt", "guidance_schedule: 'sqrt' is not a guidance schedule"),
        ("guidance_schedule: {interval: [0.5, 0.2]}", "guidance_schedule: the interval [0.5, 0.2] is empty"),
        (
            "guidance_schedule: {interval: [0, 2]}",
            "guidance_schedule: {'interval': [0, 2]} is not a guidance",
        ),
        ("guidance_scale_2: 3", "guidance_scale_2 is for models with two experts; veo-mini has one"),
        ("encode: {lossless: yes}", "encode.lossless: 'yes' is not true or false"),
        ("encode: {crf: 60}", "encode.crf is 60; it must be at most 51"),
        ("encode: {codec: h264, encoder: libx265}", "libx265 does not write h264"),
        ("sampler: {width: 128}", "veo-mini cannot generate 128x144 (it makes 256x144)"),
        (
            "sampler: {num_frames: 17}",
            "sampler.num_frames is 17 and num_frames is 33 (the rest would be frame inter",
        ),
        ("loras: [nowhere.safetensors]", "no LoRA at nowhere.safetensors"),
        ("loras: [/]", "the LoRA / is not a file\n  write the path of a .safetensors file"),
        ("model: ''", "the model's name is empty\n  list the models that are here:  veo models"),
        ("output: clip.mov", "output: 'clip.mov' cannot name a clip (clips are written as .mp4, not .mov)"),
        ("output: '{sed}'", "output: '{sed}' cannot name clips (unknown field {sed}"),
        ("prompt: ''", "the prompt is empty"),
    ],
)
def test_faults(line: str, fault: str, faults: Faults) -> None:
    found = faults(f"{line}\nprompt: a" if "prompt" not in line else line)
    assert len(found) == 1
    place, _, text = found[0].partition(": ")
    assert text.startswith(fault)
    assert place.startswith("1:")


def test_no_prompt(faults: Faults) -> None:
    assert faults("seed: 1") == ["1:1: no prompt\n  write prompt: a red striped lighthouse on a rocky coast"]


def test_a_fault_of_many_jobs_is_said_once(faults: Faults) -> None:
    assert len(faults("prompts: [a, b, c]\nfps: -1\nmatrix: {seed: [1, 2]}")) == 1


def test_one_wrong_field_hides_no_other(faults: Faults) -> None:
    found = faults("prompt: a\nwidth: wide\nnum_frames: 20\nencode: {crf: x}\nfps: 0\nduraton: 3")
    assert [fault.split(":")[0] for fault in sorted(found)] == ["2", "3", "4", "5", "6"]


def test_any_mixture_of_fields_gives_jobs_or_faults(tmp_path: Path) -> None:
    values = [
        "1",
        "0",
        "-1",
        "17",
        "20",
        "1e3",
        "1e400",
        ".nan",
        "no",
        "''",
        "wide",
        "[1]",
        "{a: 1}",
        "null",
        "256",
        "144",
        "720p",
        "2s",
        "true",
        "constant",
        "{interval: [0.1, 0.5]}",
        "linear",
        "hevc",
        "libx264",
        "444",
        "./x",
        "a{b}",
    ]
    names = [
        *sorted(FIELDS),
        "resolution",
        "duration",
        "preset",
        "matrix",
        "prompts",
        "steps",
        "interpolate",
        "bogus",
        "encode",
        "sampler",
    ]
    generator = random.Random(5)
    outcomes = set()
    for _ in range(1500):
        chosen = generator.sample(names, generator.randrange(0, 7))
        text = "prompt: a\n" * (generator.random() < 0.9 and "prompt" not in chosen)
        text += "".join(f"{name}: {generator.choice(values)}\n" for name in chosen)
        model = generator.choice(["veo-mini", "wan2.1-t2v-14b", "ltx"])
        specs = read_specs(["-"], stdin=io.StringIO(text))
        try:
            resolve_jobs(specs, describe=lambda _, model=model: describe(model), output=tmp_path)
        except SpecificationError as error:
            assert all(fault.what and fault.where for fault in error.faults), text
            outcomes.add("faults")
        else:
            outcomes.add("jobs")
    assert outcomes == {"faults", "jobs"}


def test_duration_is_rounded_to_what_the_model_makes(resolve: Resolve) -> None:
    for seconds, frames in [
        ("2s", 25),
        ("0.01s", 1),
        ("83ms", 1),
        ("1.95 s", 25),
        ("1.8 s", 21),
        ("1.0833333s", 13),
    ]:
        (entry,) = resolve(f"prompt: a\nseed: 1\nfps: 12\nduration: {seconds}")
        assert entry.job.num_frames == frames, seconds
        said = [note for note in entry.notes if note.startswith("duration")]
        assert len(said) == (seconds != "1.0833333s")


def test_a_file_s_duration_goes_before_a_preset_s_num_frames(resolve: Resolve, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("num_frames: 9\nencode: {crf: 30}")
    (entry,) = resolve(
        "prompt: a\nseed: 1\nduration: 2s\nencode: {bitrate: 3M}", preset=str(tmp_path / "p.yaml")
    )
    assert entry.job.num_frames == 25
    assert entry.job.encode.crf is None
    assert entry.job.encode.bitrate == "3M"


def test_fit_is_said_plainly(resolve: Resolve) -> None:
    (entry,) = resolve("prompt: a\nseed: 1\nresolution: 1080x1920")
    assert (entry.job.sampler.width, entry.job.sampler.height) == (256, 144)
    (note,) = entry.notes
    assert note == (
        "veo-mini generates 256x144; each frame is fitted to 1080x1920 by Lanczos-3, "
        "68% of the width cropped away (13.3 times as large, no sharper)"
    )
    (entry,) = resolve("prompt: a\nseed: 1\nresolution: 1080x1920\nupscale: {fit: pad}")
    assert "with black bars" in entry.notes[0]


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("width: 1920", (1920, 1080)),
        ("height: 72", (128, 72)),
        ("width: 100", (100, 56)),
        ("width: 256", (256, 144)),
    ],
)
def test_one_side_brings_the_other(line: str, size: tuple[int, int], resolve: Resolve) -> None:
    (entry,) = resolve(f"prompt: a\nseed: 1\n{line}")
    assert (entry.job.width, entry.job.height) == size
    given, other = line.split(":")[0], "height" if "width" in line else "width"
    assert entry.provenance[given].endswith(":3:8" if given == "width" else ":3:9")
    assert entry.provenance[other] == "derived"
    assert any("follows from" in note for note in entry.notes) == (size != (256, 144))


def test_a_side_too_small_brings_none(faults: Faults) -> None:
    (fault,) = faults("prompt: a\nwidth: 18")
    assert fault == "2:8: height is 10; it must be at least 16 (it follows from width 18)\n  write height too"


def test_another_fps_is_said(resolve: Resolve) -> None:
    (entry,) = resolve("prompt: a\nseed: 1\nfps: 24")
    assert entry.job.sampler.fps == 24
    assert "makes motion for 12 frames a second: at 24 it plays 2 times as fast" in entry.notes[0]


@pytest.mark.parametrize(
    ("delivered", "made"),
    [
        ((832, 480), (832, 480)),
        ((854, 480), (832, 480)),
        ((256, 144), (832, 480)),
        ((1280, 720), (1280, 720)),
        ((1920, 1080), (1280, 720)),
        ((1080, 1920), (720, 1280)),
        ((1080, 1080), (1280, 720)),
        ((480, 854), (480, 832)),
    ],
)
def test_size_class_of_a_model_with_sizes(delivered: tuple[int, int], made: tuple[int, int]) -> None:
    found = sampler_size(describe("wan2.1-t2v-14b"), *delivered)
    assert found in ((made, made[::-1]) if delivered[0] == delivered[1] else (made,))


def test_size_of_a_model_without_sizes() -> None:
    model = describe("ltx")
    assert sampler_size(model, 704, 480) == (704, 480)
    assert sampler_size(model, 700, 470) == (704, 480)
    width, height = sampler_size(model, 3840, 2160)
    assert width % 32 == height % 32 == 0
    assert width * height < 1.3 * 704 * 480
    assert width / height == pytest.approx(16 / 9, rel=0.1)


def test_flow_shift_follows_the_size_class(resolve: Resolve) -> None:
    (low, high) = resolve("prompt: a\nmodel: wan2.1-t2v-14b\nseed: 1\nmatrix: {resolution: [480p, 720p]}")
    assert (low.job.flow_shift, high.job.flow_shift) == (3.0, 5.0)


def test_a_generic_model_s_schedule_is_its_own(resolve: Resolve, faults: Faults, tmp_path: Path) -> None:
    (fault,) = faults("prompt: a\nmodel: ltx\nnoise_schedule: karras")
    assert fault.startswith("3:17: noise_schedule cannot be set")
    (tmp_path / "p.yaml").write_text("noise_schedule: karras\nguidance_schedule: sqrt_decay")
    (entry,) = resolve("prompt: a\nmodel: ltx\nseed: 1", preset=str(tmp_path / "p.yaml"))
    assert (entry.job.noise_schedule, entry.job.guidance_schedule) == ("default", "constant")
    assert sum("of the preset is left out" in note for note in entry.notes) == 2


def test_a_missing_model(resolve: Resolve, faults: Faults) -> None:
    with pytest.raises(ModelMissing, match="no such model") as caught:
        resolve("prompt: a\nmodel: wan3")
    assert caught.value.fault.why.endswith("job.yaml:2:8")
    found = faults("prompt: a\nmodel: wan3\n---\nprompt: b\nfps: 0")
    assert len(found) == 2
    assert found[1] == "2:8)\n  list the models that are here:  veo models"


def test_a_model_is_described_once() -> None:
    asked = []

    def counting(name: str) -> ModelInfo:
        asked.append(name)
        return veo_mini()

    specs = read_specs(["-"], stdin=io.StringIO("prompts: [a, b]\nmatrix: {seed: [1, 2, 3]}"))
    assert len(resolve_jobs(specs, describe=counting, output=Path("out"))) == 6
    assert asked == ["veo-mini"]


def test_loras_are_found_beside_the_file(resolve: Resolve, tmp_path: Path) -> None:
    lora = tmp_path / "style.safetensors"
    lora.write_bytes(b"x")
    (entry,) = resolve(f"prompt: a\nseed: 1\nloras: [{{path: {lora}, scale: 0.5}}, ../style.safetensors]")
    assert [lora.scale for lora in entry.job.loras] == [0.5, 1.0]
    assert all(Path(found.path).samefile(lora) for found in entry.job.loras)


def test_a_lora_counts_by_what_it_holds(resolve: Resolve, tmp_path: Path) -> None:
    for folder, content in (("one", b"x"), ("two", b"x"), ("three", b"y")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "style.safetensors").write_bytes(content)

    def job_id(folder: str, scale: float = 1) -> str:
        lora = f"{{path: {tmp_path}/{folder}/style.safetensors, scale: {scale}}}"
        return resolve(f"prompt: a\nseed: 1\nloras: [{lora}]")[0].job_id

    assert job_id("one") == job_id("two")
    assert (
        len({job_id("one"), job_id("three"), job_id("one", 0.5), resolve("prompt: a\nseed: 1")[0].job_id})
        == 4
    )


def test_a_model_folder_beside_the_prompt_file(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "model").mkdir(parents=True)
    (tmp_path / "jobs" / "job.yaml").write_text("prompt: a\nmodel: ./model\nseed: 1")
    asked = []

    def noting(name: str) -> ModelInfo:
        asked.append(name)
        return veo_mini()

    resolve_jobs(read_specs([str(tmp_path / "jobs" / "job.yaml")]), describe=noting, output=tmp_path)
    resolve_jobs(
        read_specs([str(tmp_path / "jobs" / "job.yaml")]),
        describe=noting,
        output=tmp_path,
        settings=["model=./model"],
    )
    assert [Path(name) for name in asked] == [tmp_path / "jobs" / "model", Path("model")]


def test_a_model_in_the_home(tmp_path: Path, resolve: Resolve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "wan").mkdir()
    (entry,) = resolve("prompt: a\nmodel: ~/wan\nseed: 1", describe=lambda name: veo_mini())
    assert entry.job.model == str(tmp_path / "wan")


def test_a_file_name_that_is_no_text_can_stand_in_a_sidecar(resolve: Resolve) -> None:
    (entry,) = resolve("prompt: a\nseed: 1", name="\udcff.yaml")
    assert str(entry.spec.source).endswith("/\\udcff.yaml:1:1")
    assert entry.provenance["prompt"].endswith("/\\udcff.yaml:1:9")
    assert entry.output_path.name == f"prompt-a-1-{entry.job_id[:8]}.mp4"


def test_what_inspect_prints_is_the_same_job(resolve: Resolve) -> None:
    from veo_cli.stages.sidecar import ModelRecord, Sidecar, as_prompt_yaml

    generator = random.Random(3)
    texts = [
        "no",
        "010",
        "1e3",
        "a: b #c",
        "'",
        '"',
        "- a",
        "[x]",
        "null",
        "夜 🎈",
        "a\nb",
        "\\",
        "{}",
        "%",
        "~x",
        "0x1F",
    ]
    for _ in range(30):
        settings = {
            "prompt": generator.choice(texts) + generator.choice(["", " " + generator.choice(texts)]),
            "negative_prompt": generator.choice(texts),
            "seed": generator.randrange(2**63),
            "guidance_scale": generator.uniform(0, 10),
            "guidance_schedule": generator.choice(["constant", "sqrt_decay", {"interval": [0.125, 1e-0]}]),
            "fps": generator.choice([12, 23.976, 1e2]),
            "encode": generator.choice(
                [{"crf": 1e-05}, {"lossless": True}, {"bitrate": "8000000", "chroma": "444"}, {}]
            ),
            "memory": generator.choice([{}, {"offload": "none", "tiled_decode": True}]),
            "width": generator.choice([256, 640]),
        }
        (entry,) = resolve(json.dumps(settings), "job.json")
        model = ModelRecord(
            name="veo-mini",
            title="veo-mini",
            pipeline_class="WanPipeline",
            num_parameters=1,
            fingerprint="f" * 64,
        )
        record = Sidecar.model_construct(job=entry.job, job_id=entry.job_id, model=model, versions={})
        (again,) = resolve(as_prompt_yaml(record))
        assert again.job == entry.job
        assert again.job_id == entry.job_id


class TestNames:
    def test_the_id_follows_the_job(self, resolve: Resolve) -> None:
        def name(text: str) -> str:
            return resolve(text)[0].output_path.name

        one = name("prompt: a\nseed: 1")
        assert one == name("prompt: a\nseed: 1\nguidance_scale: 5.0\nmemory: {offload: none}")
        assert one != name("prompt: a\nseed: 1\nguidance_scale: 5.5")
        before = [entry.output_path.name for entry in resolve("prompts: [a, b]\nseed: 1")]
        after = [entry.output_path.name for entry in resolve("prompts: [c, a, b]\nseed: 1")]
        assert after[1:] == before

    def test_output_field(self, resolve: Resolve, tmp_path: Path) -> None:
        def path(output: str) -> Path:
            return resolve(f"prompt: a\nseed: 1\noutput: '{output}'")[0].output_path

        assert path("x.mp4") == tmp_path / "out" / "x.mp4"
        assert path("sub/x") == tmp_path / "out" / "sub" / "x.mp4"
        assert path(f"{tmp_path}/else/x.mp4") == tmp_path / "else" / "x.mp4"
        assert path("sub/").parent == tmp_path / "out" / "sub"
        assert path("sub/").name.startswith("job-a-1-")
        assert path("{slug}_{seed}") == tmp_path / "out" / "a_1.mp4"

    def test_name_template(self, resolve: Resolve, faults: Faults) -> None:
        (entry,) = resolve("prompt: a red boat\nseed: 1", name_template="{seed:04}-{slug}")
        assert entry.output_path.name == "0001-a-red-boat.mp4"
        (fault,) = faults("prompt: a", name_template="{sed}")
        assert fault.startswith("--name: '{sed}' cannot name clips (unknown field {sed}")

    def test_two_jobs_with_one_path(self, faults: Faults) -> None:
        (fault,) = faults("prompts: [a, b]\nseed: 1\noutput: x.mp4")
        assert fault.startswith("1:14: two jobs would write")
        assert "put {seed} or {id} into the name" in fault
        (fault,) = faults("prompts: [a, b]\nseed: 1", name_template="{seed}")
        assert fault.startswith("1:14: two jobs would write")

    def test_the_same_job_twice(self, faults: Faults) -> None:
        (fault,) = faults("prompts: [a, a]\nseed: 1\noutput: '{id}'")
        assert fault.startswith("1:14: the same job is at ")

    def test_an_output_that_is_a_clip(self, faults: Faults) -> None:
        (fault,) = faults("prompt: a", output=Path("clips/x.mp4"))
        assert fault.endswith("--output clips --set output=x.mp4")


class TestDrawnSeeds:
    def test_a_plan_writes_nothing(self, resolve: Resolve, tmp_path: Path) -> None:
        resolve("prompt: a")
        assert not (tmp_path / "out").exists()

    def test_a_run_finds_its_own_seeds_again(self, resolve: Resolve, tmp_path: Path) -> None:
        first = resolve("prompts: [a, a, b]", keep_seeds=True)
        assert len({entry.job.seed for entry in first}) == 3
        assert all(0 <= entry.job.seed < 2**32 for entry in first)
        assert [entry.job for entry in resolve("prompts: [a, a, b]")] == [entry.job for entry in first]
        again = resolve("prompts: [c, a, b]", keep_seeds=True)
        assert [entry.job.seed for entry in again[1:]] == [first[0].job.seed, first[2].job.seed]
        assert [path.name for path in (tmp_path / "out" / ".veo").iterdir()] == ["seed_salt"]
        assert "drawn" in first[0].notes[0] and first[0].provenance["seed"] == "derived"

    def test_other_folders_get_others(self, resolve: Resolve, tmp_path: Path) -> None:
        here = resolve("prompt: a", keep_seeds=True, output=tmp_path / "one")
        there = resolve("prompt: a", keep_seeds=True, output=tmp_path / "two")
        assert here[0].job.seed != there[0].job.seed

    def test_named_seeds_leave_no_trace(self, resolve: Resolve, tmp_path: Path) -> None:
        resolve("prompt: a\nseed: 0", keep_seeds=True)
        assert not (tmp_path / "out").exists()

    def test_two_runs_at_once_agree(self, tmp_path: Path) -> None:
        code = "import sys; from pathlib import Path; from veo_cli.drawn_seeds import DrawnSeeds\n"
        code += "sys.stdin.read(); seeds = DrawnSeeds(Path(sys.argv[1])); seed = seeds.seed_of('job')\n"
        code += "print(seed if seeds.save() else DrawnSeeds(Path(sys.argv[1])).seed_of('job'))"
        command = [sys.executable, "-c", code, str(tmp_path / "shared")]
        runs = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
        for run in runs:  # all imported and waiting: now they start together
            assert run.stdin is not None
            run.stdin.close()
        seeds = set()
        for run in runs:
            assert run.stdout is not None
            seeds.add(run.stdout.read())
            run.stdout.close()
            assert run.wait() == 0
        assert len(seeds) == 1


def test_a_leaner_memory_plan_is_the_same_job(resolve: Resolve) -> None:
    (entry,) = resolve("prompt: a\nseed: 1")
    leaner = entry.on_leaner_memory()
    assert leaner.job.memory.offload == "group"
    assert leaner.job.job_id(entry.model.fingerprint) == leaner.job_id == entry.job_id


def test_a_thousand_jobs_take_less_than_two_seconds(resolve: Resolve) -> None:
    prompts = ", ".join(f"boat number {number}" for number in range(50))
    before = time.process_time()
    jobs = resolve(
        f"prompts: [{prompts}]\npreset: draft\nmatrix: {{seed: [{', '.join(map(str, range(20)))}]}}"
    )
    assert len(jobs) == 1000
    assert time.process_time() - before < 2


def test_nothing_to_do_is_said() -> None:
    with pytest.raises(SpecificationError, match="no prompt files"):
        resolve_jobs([], describe=describe)
