from __future__ import annotations

from pathlib import Path

import pytest

from tests.job.conftest import Faults, Resolve
from tests.job.described import ltx, veo_mini, wan_14b
from veo_cli.errors import SpecificationError
from veo_cli.package_data import data_path
from veo_cli.presets import list_presets, load_preset

SHIPPED = [path.stem for path in sorted(data_path("presets").glob("*.yaml"))]


def test_the_shipped_ones_are_there() -> None:
    expected = {
        "draft",
        "standard",
        "480p",
        "720p",
        "1080p",
        "2k",
        "4k",
        "cinema-4k",
        "social-vertical",
        "social-square",
    }
    assert expected <= set(SHIPPED)
    listed = list_presets()
    assert [preset.name for preset in listed] == SHIPPED
    assert all(preset.fields and 10 < len(preset.description) < 90 for preset in listed), listed


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("model", [veo_mini, wan_14b, ltx])
def test_a_shipped_preset_breaks_no_model(name: str, model: type, resolve: Resolve) -> None:
    (entry,) = resolve("prompt: a\nmodel: it\nseed: 1", preset=name, describe=lambda _: model())
    fields = load_preset(name).fields
    assert entry.job.width == fields.get("width", entry.job.width)
    made = (entry.job.sampler.width, entry.job.sampler.height)
    if model().sizes:
        assert made in model().sizes
    else:
        assert made[0] % 32 == made[1] % 32 == 0
        assert made[0] * made[1] <= 2.5 * 704 * 480


def test_extends_and_origins() -> None:
    preset = load_preset("cinema-4k")
    assert (preset.fields["width"], preset.fields["height"]) == (4096, 2160)
    assert preset.fields["fps"] == 24
    assert preset.origins["width"] == "preset:cinema-4k"
    assert preset.origins["fps"] == "preset:cinema-2k"
    assert preset.origins["encode.codec"] == "preset:standard"


def user_preset(name: str, text: str) -> Path:
    import os

    folder = Path(os.environ["HOME"]) / ".config" / "veo" / "presets"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_a_person_s_own_goes_first_and_may_extend_its_namesake() -> None:
    user_preset("draft", "description: mine\nextends: draft\nnum_inference_steps: 3\n")
    preset = load_preset("draft")
    assert preset.description == "mine"
    assert preset.fields["num_inference_steps"] == 3
    assert preset.fields["encode"]["codec_preset"] == "ultrafast"
    assert [found.description for found in list_presets() if found.name == "draft"] == ["mine"]


def test_xdg_config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "veo" / "presets").mkdir(parents=True)
    (tmp_path / "veo" / "presets" / "mine.yaml").write_text("steps_: 1")
    (broken,) = [preset for preset in list_presets() if preset.name == "mine"]
    assert broken.description.startswith("cannot be used: unknown field steps_")


def test_without_a_home_the_shipped_ones_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    assert [preset.name for preset in list_presets()] == SHIPPED


def test_a_path_and_what_it_extends_beside_it(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("guidance_scale: 2\nencode: {crf: 30}")
    (tmp_path / "mine.yaml").write_text("extends: ./base.yaml\nencode: {bitrate: 5M}")
    preset = load_preset(str(tmp_path / "mine.yaml"))
    assert preset.fields == {"guidance_scale": 2, "encode": {"bitrate": "5M"}}  # crf gives way to bitrate
    assert preset.origins["guidance_scale"] == str(tmp_path / "base.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("extends: two", "in a circle"),
        ("extends: nothing-like-it", "no preset nothing-like-it"),
        ("extends: drft", "did you mean draft?"),
        ("extends: [a]", "extends is one name"),
        ("seed: 3", "a preset cannot set seed"),
        ("prompt: x", "a preset cannot set prompt"),
        ("steps: 3", "steps is num_inference_steps here"),
        ("guidance_scal: 3", "did you mean guidance_scale?"),
        ("prompts: [a]", "unknown field prompts"),
        ("- a", "one mapping of fields"),
        ("", "one mapping of fields"),
        ("a: b: c", "not valid YAML"),
        ("fps: 24\n" + "#" * 2**20, "more than 1 MiB"),
    ],
)
def test_faulty_presets(text: str, words: str) -> None:
    user_preset("one", text)
    user_preset("two", "extends: one")
    with pytest.raises(SpecificationError) as caught:
        load_preset("one")
    assert words in str(caught.value)


def test_unknown_preset_says_where_it_was_asked_for(faults: Faults) -> None:
    (fault,) = faults("prompt: a\npreset: drft")
    assert fault == "2:9: no preset drft\n  did you mean draft?"
    (fault,) = faults("prompt: a", preset="drft")
    assert fault == "--preset: no preset drft\n  did you mean draft?"


def test_a_preset_beside_the_prompt_file(tmp_path: Path, resolve: Resolve) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("guidance_scale: 2.5")
    (entry,) = resolve(f"prompt: a\nseed: 1\npreset: {own}")
    assert entry.job.guidance_scale == 2.5
    assert entry.provenance["guidance_scale"] == str(own)
