from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.job.conftest import Resolve
from veo_cli.plan import clip_bytes, details, plan, state_of


def test_states(resolve: Resolve, tmp_path: Path) -> None:
    out = tmp_path / "out"
    entries = resolve("prompts: [a, b, c, d, e]\nseed: 1")
    done, latents, part, stale, new = entries
    for entry, job_id in ((done, done.job_id), (stale, "another")):
        entry.output_path.parent.mkdir(exist_ok=True)
        entry.output_path.write_bytes(b"clip")
        entry.output_path.with_suffix(".json").write_text(json.dumps({"job_id": job_id}))
    for entry, name in ((latents, "latents.safetensors"), (part, "step.safetensors")):
        (out / ".veo" / entry.job_id).mkdir(parents=True)
        (out / ".veo" / entry.job_id / name).write_bytes(b"x")
    assert [state_of(entry, out) for entry in entries] == ["done", "latents", "part", "new", "new"]
    planned = plan(entries, out)
    assert planned.counts == {"done": 1, "latents": 1, "part": 1, "new": 2}
    header, rows = planned.table()
    assert header == ["CLIP", "SIZE", "FRAMES", "FPS", "STEPS", "STATE"]
    assert rows[0][1:] == ["256x144", "33", "12", "24", "done"]
    assert planned.summary()[0] == "5 jobs: 1 done, 4 to do (2 of them begun)"
    assert state_of(new, out) == "new"


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"job_id": 3}'])
def test_a_damaged_sidecar_is_not_done(content: str, resolve: Resolve, tmp_path: Path) -> None:
    (entry,) = resolve("prompt: a\nseed: 1")
    entry.output_path.parent.mkdir()
    entry.output_path.write_bytes(b"clip")
    entry.output_path.with_suffix(".json").write_text(content)
    assert state_of(entry, tmp_path / "out") == "new"


def test_a_seed_that_only_the_render_draws_is_not_made_up(resolve: Resolve, tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = "prompts: [a boat, a train, {prompt: a car, seed: 9}]\n"
    template = "{slug}-{seed:04}-{id}.mp4"
    entries = resolve(text, name_template=template)
    rows = plan(entries, out).as_json()
    shown = ["a-boat-{seed}-{id}.mp4", "a-train-{seed}-{id}.mp4", f"a-car-0009-{entries[2].job_id[:8]}.mp4"]
    assert [Path(row["output"]).name for row in rows] == shown
    assert [row["seed"] for row in rows] == [None, None, 9]
    assert [row["job_id"] for row in rows] == [None, None, entries[2].job_id]
    assert ("seed", "drawn by the render", "derived") in details(entries[0]).fields
    assert "--set seed=NUMBER gives one" in rows[0]["notes"][0]
    assert not out.exists()

    rendered = resolve(text, name_template=template, keep_seeds=True)  # as a render does
    planned = resolve(text, name_template=template)
    assert [entry.open_path for entry in (*rendered, *planned)] == [None] * 6
    for rows in (plan(rendered, out).as_json(), plan(planned, out).as_json()):
        assert [row["seed"] for row in rows] == [entry.job.seed for entry in rendered]
        assert [row["job_id"] for row in rows] == [entry.job_id for entry in rendered]


def test_nothing_left_needs_nothing(resolve: Resolve, tmp_path: Path) -> None:
    (entry,) = resolve("prompt: a\nseed: 1")
    entry.output_path.parent.mkdir()
    entry.output_path.write_bytes(b"clip")
    entry.output_path.with_suffix(".json").write_text(json.dumps({"job_id": entry.job_id}))
    planned = plan([entry], tmp_path / "out")
    assert planned.disk_bytes == planned.memory_bytes == 0
    assert planned.summary() == ["1 job: 1 done, 0 to do"]


def test_estimates_follow_what_is_asked(resolve: Resolve) -> None:
    def size(extra: str) -> int:
        (entry,) = resolve(f"prompt: a\nseed: 1\nresolution: 720p\n{extra}")
        return clip_bytes(entry.job)

    base = size("")
    assert size("encode: {crf: 24}") == pytest.approx(base / 2, rel=0.05)
    assert size("encode: {lossless: true}") > 10 * base
    assert size("encode: {frames: png16}") > 33 * 1280 * 720 * 3
    assert size("encode: {bitrate: 12M}") == pytest.approx(12e6 * 33 / 12 / 8, rel=0.01)
    assert size("num_frames: 65") == pytest.approx(base * 65 / 33, rel=0.01)


def test_memory_grows_with_size_and_shrinks_with_offload(resolve: Resolve) -> None:
    def memory(extra: str, device: str = "cpu") -> int:
        (entry,) = resolve(f"prompt: a\nmodel: wan2.1-t2v-14b\nseed: 1\n{extra}")
        return plan([entry], Path("out"), device=device).memory_bytes

    assert memory("resolution: 720p") > memory("resolution: 480p")
    assert memory("", "cuda") < memory("", "cpu")


def test_details_show_every_value_and_step(resolve: Resolve) -> None:
    (entry,) = resolve(
        "prompt: a\nseed: 1\nnum_inference_steps: 4\nguidance_schedule: {interval: [0.25, 0.75]}"
    )
    shown = details(entry)
    fields = {name: (value, origin) for name, value, origin in shown.fields}
    assert fields["guidance_schedule"][0] == '{"interval": [0.25, 0.75]}'
    assert fields["num_inference_steps"][1].endswith("job.yaml:3:22")
    assert fields["width"] == ("256", "model")
    assert [step for step, *_ in shown.steps] == [0, 1, 2, 3]
    assert [scale for _, _, scale, _ in shown.steps] == [1.0, 5.0, 5.0, 1.0]
    sigmas = [sigma for _, sigma, _, _ in shown.steps]
    assert sigmas[0] == pytest.approx(1.0, abs=1e-5) and sigmas == sorted(sigmas, reverse=True)


def test_rows_are_plain_json(resolve: Resolve) -> None:
    entries = resolve("prompts: [a, b]\nseed: 1")
    rows = json.loads(json.dumps(plan(entries, Path("out")).as_json()))
    assert [row["prompt"] for row in rows] == ["a", "b"]
    assert rows[0]["state"] == "new" and rows[0]["generated"] == "256x144"
