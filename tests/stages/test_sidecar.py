"""The sidecar: what it records, that it can be read back, and that its job is the same job again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.stages.clips import job_for, moving_texture, write_clip
from veo_cli.errors import SpecificationError
from veo_cli.job import Interval, Job, Lora, MemorySettings
from veo_cli.models.model_info import ModelInfo
from veo_cli.prompt_file import read_specs
from veo_cli.resolve import resolve_jobs
from veo_cli.stages import sidecar
from veo_cli.stages.quality_gate import FrameChecks

FINGERPRINT = "ab12" * 16
NASTY_PROMPT = '- no: "fog", 1:30 & 1e3 # not a comment\n\tü — 灯塔 🎬 \\ % {x} *y'


def model(name: str = "veo-mini") -> ModelInfo:
    return ModelInfo(
        name=name,
        path=Path("veo-mini"),
        family="wan",
        pipeline_class="WanPipeline",
        title="veo-mini",
        defaults={"negative_prompt": "blurry", "num_inference_steps": 30, "flow_shift": 3.0},
        sizes=((256, 144),),
        size_multiple=16,
        frame_step=4,
        max_num_frames=65,
        latent_channels=16,
        spatial_compression=8,
        temporal_compression=4,
        max_text_tokens=128,
        num_parameters=20_000_000,
        weight_bytes=40_000_000,
        fingerprint=FINGERPRINT,
    )


def record_of(job: Job, clip: Path, device: str = "cpu") -> sidecar.Sidecar:
    frames = moving_texture(5, 16, 16)
    facts = write_clip(clip, frames, codec_preset="ultrafast")
    resolved = SimpleNamespace(
        job=job,
        job_id=job.job_id(FINGERPRINT),
        provenance={"prompt": "a.yaml:1:9", "seed": "default"},
        spec=SimpleNamespace(source="a.yaml:1:1"),
        model=model(),
    )
    return sidecar.build(
        resolved,
        facts=facts,
        checks=FrameChecks(5, 0.0, 1.0, 1.0, True),
        frames_sha256="00" * 32,
        encoder="libx265 4.3 (ffmpeg n9)",
        stage_seconds={"denoise": 1.23456, "decode": 2.0},
        seconds=3.5,
        notes=["the prompt is too long"],
        device=device,
    )


@pytest.fixture
def job() -> Job:
    return job_for(moving_texture(5, 16, 16))


def jobs() -> list[Job]:
    plain = job_for(moving_texture(5, 16, 16))
    return [
        plain.model_copy(update=change)
        for change in (
            {},
            {"prompt": NASTY_PROMPT, "negative_prompt": "no"},
            {"prompt": "null", "seed": 2**63 - 1},
            {"guidance_schedule": Interval(interval=(0.1, 0.85)), "noise_schedule": "karras"},
            {"guidance_schedule": "sqrt_decay", "flow_shift": 7.25},
            {
                "memory": MemorySettings(tiled_decode=True),
                "loras": (Lora(path="a b.safetensors", scale=0.5),),
            },
            {
                "encode": plain.encode.model_copy(
                    update={"chroma": "444", "lossless": True, "color": "bt2020"}
                )
            },
            {"encode": plain.encode.model_copy(update={"bitrate": "20M", "codec": "h264", "tune": "grain"})},
            {"upscale": plain.upscale.model_copy(update={"fit": "pad"}), "output": "here/clip.mp4"},
        )
    ]


def test_what_is_written_is_read_back(tmp_path, job):
    clip = tmp_path / "a.b.mp4"
    record = record_of(job, clip)
    path = sidecar.path_of(clip)
    assert path.name == "a.b.json"
    path.write_text(record.to_json(), encoding="utf-8")
    assert sidecar.read(clip) == record == sidecar.read(path)
    assert record.job == job and record.clip.num_frames == 5
    assert record.versions["veo"] and record.versions["torch"]
    assert record.peak_rss_bytes > 10_000_000 and record.peak_vram_bytes == 0
    assert record.device == "cpu"
    assert record.stage_seconds == {"denoise": 1.235, "decode": 2.0}


def test_the_gpu_that_made_it_is_named(tmp_path, job, monkeypatch):
    """Not the current one, which a run on cuda:1 may never have touched."""
    monkeypatch.setattr("torch.cuda.get_device_name", {None: "first", "cuda:1": "second"}.__getitem__)
    monkeypatch.setattr("torch.cuda.max_memory_allocated", {None: 1, "cuda:1": 2}.__getitem__)
    record = record_of(job, tmp_path / "clip.mp4", "cuda:1")
    assert (record.device, record.peak_vram_bytes) == ("second", 2)


def test_json_is_plain(tmp_path, job):
    values = json.loads(record_of(job, tmp_path / "clip.mp4").to_json(), parse_constant=pytest.fail)
    assert values["schema_version"] == 1
    assert values["job"]["seed"] == 1 and values["clip"]["codec_tag"] == "hvc1"
    assert values["notes"] == ["the prompt is too long"]


@pytest.mark.parametrize("number", range(len(jobs())))
def test_the_prompt_file_of_a_sidecar_is_the_same_job(tmp_path, number):
    """Through the project's own reader, with a model whose defaults differ from the job's values."""
    (tmp_path / "a b.safetensors").touch()
    made = jobs()[number]
    if made.flow_shift is None:
        made = made.model_copy(update={"flow_shift": 3.0})  # resolving has put the model's own there
    record = record_of(made, tmp_path / "clip.mp4")
    prompt_file = tmp_path / "again.yaml"
    prompt_file.write_text(sidecar.as_prompt_yaml(record), encoding="utf-8")
    (again,) = resolve_jobs(
        read_specs([str(prompt_file)], stdin=None),
        output=tmp_path / "again",
        describe=lambda name: model(name),
    )
    assert again.job.identity() == made.identity()
    if not made.loras:  # their files' own fingerprints enter the job_id
        assert again.job_id == record.job_id
    assert again.job.model == made.model


def test_unknown_fields_of_a_later_veo_are_ignored(tmp_path, job):
    values = json.loads(record_of(job, tmp_path / "clip.mp4").to_json())
    values["mood"] = "calm"
    (tmp_path / "clip.json").write_text(json.dumps(values))
    assert sidecar.read(tmp_path / "clip.mp4").job == job
    values["job"]["mood"] = "calm"  # here it may decide pixels
    (tmp_path / "clip.json").write_text(json.dumps(values))
    with pytest.raises(SpecificationError, match=r"job\.mood"):
        sidecar.read(tmp_path / "clip.mp4")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "no sidecar"),
        (b"", "not a sidecar"),
        (b'{"prompt": "a boat"}', "not a sidecar.*job_id"),
        (b"[1, 2]", "not a sidecar"),
        (b"\xff\xfe{}", "not UTF-8"),
    ],
)
def test_unreadable_sidecars(tmp_path, content, complaint):
    if content is not None:
        (tmp_path / "clip.json").write_bytes(content)
    with pytest.raises(SpecificationError, match=f"clip.json: .*{complaint}"):
        sidecar.read(tmp_path / "clip.mp4")


def test_another_schema_version_is_refused(tmp_path, job):
    values = json.loads(record_of(job, tmp_path / "clip.mp4").to_json())
    values["schema_version"] = 2
    (tmp_path / "clip.json").write_text(json.dumps(values))
    with pytest.raises(SpecificationError, match="schema version 2"):
        sidecar.read(tmp_path / "clip.json")
