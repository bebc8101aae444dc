from __future__ import annotations

import random
import re
import unicodedata

import pytest

from veo_cli.naming import DEFAULT_TEMPLATE, NameTemplate, output_template, slug

VALUES: dict[str, int | float | str] = {
    "seed": 7,
    "id": "0123abcd",
    "job_id": "0123abcd" * 8,
    "model": "Wan-AI/Wan2.1",
    "width": 256,
    "height": 144,
    "fps": 12.0,
    "num_frames": 33,
    "steps": 24,
    "guidance": 4.5,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'what? a "red" ball: 50% bigger * <fast>/slow | 🎈 ../../etc',
            "what-a-red-ball-50-bigger-fast-slow-etc",
        ),
        ("夜晚的灯塔, 雾", "夜晚的灯塔-雾"),
        ("Café Ångström's naïve Straße", "cafe-angstroms-naive-strasse"),
        ("한국어 등대", "한국어-등대"),
        ("मराठी दीपगृह", "मराठी-दीपगृह"),
        ("a\u202eb\u200bc\x00d", "a-b-c-d"),
        ("..", ""),
        ("🎈", ""),
        ("  -_- a_b -_-", "a_b"),
    ],
)
def test_slugs(text: str, expected: str) -> None:
    assert slug(text, 60) == expected


def test_slugs_are_cut_at_words_and_characters() -> None:
    assert slug("a lighthouse in the fog, cinematic", 25) == "a-lighthouse-in-the-fog"
    assert slug("a lighthouse in the fog", 23) == "a-lighthouse-in-the-fog"
    assert slug("averyveryverylongword", 10) == "averyveryv"
    assert slug("夜晚的灯塔", 10) == "夜晚的"


def test_any_text_gives_a_safe_name() -> None:
    generator = random.Random(2)
    template = NameTemplate(DEFAULT_TEMPLATE)
    for _ in range(2000):
        text = "".join(
            chr(
                generator.choice(
                    [
                        generator.randrange(32, 127),
                        generator.randrange(0xD7FF),
                        generator.randrange(0xE000, 0x1FFFF),
                    ]
                )
            )
            for _ in range(generator.randrange(1, 80))
        )
        name = template.path({**VALUES, "seed": generator.randrange(2**63)}, text, text[:30])
        assert len(name.encode()) <= 80
        assert not re.search(r'[<>:"/\\|?*\x00-\x1f\s]', name)
        assert name == unicodedata.normalize("NFC", name)
        assert re.fullmatch(r".+-\d+-0123abcd\.mp4", name)
        assert name[0] not in "-."


def test_longest_default_name() -> None:
    name = NameTemplate(DEFAULT_TEMPLATE).path({**VALUES, "seed": 2**63 - 1}, "word " * 200, "stem_" * 40)
    assert len(name) <= 80
    assert "word-word" in name and name.startswith("stem_stem_")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{slug}", "a-red-boat.mp4"),
        ("{slug}.mp4", "a-red-boat.mp4"),
        ("{model}/{width}x{height}_{seed:05}", "wan-ai-wan2-1/256x144_00007.mp4"),
        ("{{{guidance}}}-{fps}", "{4.5}-12.mp4"),
        ("con", "con-clip.mp4"),
        ("NUL.1", "NUL.1-clip.mp4"),
    ],
)
def test_templates(template: str, expected: str) -> None:
    assert NameTemplate(template).path(VALUES, "a red boat", "job") == expected


@pytest.mark.parametrize("template", ["{slug}" * 9, "x" * 300 + "{slug}", "{stem}-{stem}-{slug}-{job_id}"])
def test_no_name_is_longer_than_120_bytes(template: str) -> None:
    assert len(NameTemplate(template).path(VALUES, "夜晚" * 50, "stem" * 50).encode()) <= 120


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{nothing}", "unknown field {nothing}; there are {stem}, {slug}"),
        ("{slug.__class__}", "unknown field"),
        ("{0}", "unknown field"),
        ("{slug!r}", "only a width"),
        ("{seed:9999999999}", "only a width"),
        ("{slug", "write {{"),
        ("a:b", "cannot hold"),
        ("\udcff-{seed}", "cannot hold"),
        ("../{slug}", "may not leave"),
        ("a/../../{slug}", "may not leave"),
        ("{slug}/", "names no file"),
        (" ", "names no file"),
    ],
)
def test_bad_templates(template: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        NameTemplate(template)


def test_output_field() -> None:
    assert output_template("a") == "a.mp4"
    assert output_template("v1.5") == "v1.5.mp4"
    assert output_template("a.MP4") == "a.MP4"
    assert output_template("clips/") == "clips/" + DEFAULT_TEMPLATE


@pytest.mark.parametrize("name", ["a.mov", "a.txt", "v1.5.mkv", "clips/{seed}.final", "a.MOV"])
def test_clips_are_mp4_and_a_name_that_says_otherwise_is_refused(name: str) -> None:
    for read in (output_template, NameTemplate):
        with pytest.raises(ValueError, match=re.escape("clips are written as .mp4, not .")):
            read(name)


@pytest.mark.parametrize("name", [".", "..", "clips/..", "../.", ".mp4", "clips/.mp4", ""])
def test_an_output_that_names_no_file_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"it (is a folder|names no file)"):
        output_template(name)
