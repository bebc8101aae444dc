"""Captions say what they claim to say, and nothing else."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from training import captions as training_captions
from training.attributes import (
    COLOURED_SCENES,
    COLOURS,
    SCENES,
    VALUES,
    Attributes,
    allowed,
    sample_attributes,
)
from training.captions import (
    CAMERA_ACTS,
    CAMERA_LEADS,
    CAMERA_TAGS,
    CAMERA_VERBS,
    COLOUR_WORDS,
    COLOURED_SUBJECTS,
    HELD_OUT_CAMERAS,
    HELD_OUT_COLOUR_WORDS,
    HELD_OUT_TIMES,
    HELD_OUT_WEATHERS,
    SUBJECTS,
    TIME_ADJECTIVES,
    TIME_AND_WEATHER,
    TIME_CLAUSES,
    TIME_PHRASES,
    TIME_TAGS,
    WEATHER_ADJECTIVES,
    WEATHER_CLAUSES,
    WEATHER_OF_TIME,
    WEATHER_PHRASES,
    WEATHER_TAGS,
    caption,
    captions,
    held_out_prompts,
)

TOLD_BY = {
    "time": (TIME_ADJECTIVES, TIME_PHRASES, TIME_CLAUSES, TIME_TAGS, HELD_OUT_TIMES),
    "weather": (WEATHER_ADJECTIVES, WEATHER_PHRASES, WEATHER_CLAUSES, WEATHER_TAGS, HELD_OUT_WEATHERS),
    "camera": (CAMERA_TAGS, CAMERA_VERBS, CAMERA_LEADS, CAMERA_ACTS, HELD_OUT_CAMERAS),
    "colour": (COLOUR_WORDS, HELD_OUT_COLOUR_WORDS),
}
# Words that only a caption that tells of the attribute may use.
TELLTALE = {
    "time": r"night|midnight|moon\w*|starry|dark|noon|midday|daylight|daytime|sunny|morning|afternoon"
    "|sunset|dusk|sundown|twilight|evening|golden.hour|sunlit",
    "weather": r"rain\w*|downpour|drizzle|snowing|snowfall|snowflakes?|blizzard|snowstorm|fog\w*|mist\w*"
    "|hazy?|cloudless|clear|sunny",
    "camera": r"pan|pans|panning|left\w*|right\w*|zoom\w*|push\w*|pull\w*|dolly|static|tripod|stationary",
    "colour": "red|orange|yellow|purple|pink|violet|crimson|scarlet|emerald|cobalt|fuchsia|ivory|lilac",
}

# The words that only held-out captions have. Training captions must stay clear of them, or the evaluation would no longer
# say how the model takes wording that it has never met.
ONLY_HELD_OUT = set(
    re.findall(
        r"\w+",
        """
    ablaze acres adrift advances aeronaut ambient amid backwoods banana belts beyond billows blood
    breakers briny buried candy canyons carrot catamaran chalk cherry cliffs cornflower crags cropland
    crowned crystal cutter cutting deluge depict dips dollying doubled dribbling driven drumming dusky
    edges ergs eventide everyone extraterrestrial fabric farmhouses fashioned flame flicker framing
    gingerbread gleaming gradual granite grape graphic gristmill guiding heaps heavenly heeling hillside
    hood hoops humming immobile inching intersection interstellar inward inwards jagged jupiter kelly
    lakeshore lantern lapland larches lashing leftwards lettering loch lunchtime massifs megacity
    metropolitan milk montgolfier mood mounted murky nailed namib navigation orb outward outwards
    pastures pavement pea pharos pitch plum polder pond postcard poster promontory pumpkin receding
    reservoir ridges rigged rightwards ringed rooftops royal ruby sailors salt sandhills schooner
    screensaver seamark sentinel settled shaped shingles showers shroud skiff sleeps sliding smock soup
    sphere splashed spotless spruces steep storybook sunflower surf swallowed swell swirling swivel
    sylvan tarn taxis thicket thoroughfare thumping timberland tinted tones torrential township tumble
    ultramarine unclouded universe vanes veering vehicles viewpoint waterless wearing wee whitecaps
    whiteout wicker widening wildflowers windjammer withdraws
    """,
    )
)


def drawn(count: int, seed: int) -> list[Attributes]:
    rng = random.Random(seed)
    return [sample_attributes(rng) for _ in range(count)]


def phrases_of(name: str, clip: Attributes) -> set[str]:
    value = getattr(clip, name)
    found = {p.partition("|")[0].lower() for table in TOLD_BY[name] for p in table[value]}
    if name in ("time", "weather"):
        both = TIME_AND_WEATHER.get((clip.time or "", clip.weather or ""), ())
        found |= {p.partition("|")[0].lower() for p in both}
    if name == "weather":
        found |= {p.lower() for p in WEATHER_OF_TIME[value]}
    if name == "time":
        found |= {"day", "afternoon", "morning", "noon", "evening", "sunset", "dusk", "twilight", "night"}
    return found


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_has_many_wordings(scene: str) -> None:
    assert len(set(SUBJECTS[scene])) >= 20
    rng = random.Random(3)
    clip = sample_attributes(rng, scene)
    names = [n for n in VALUES if getattr(clip, n) is not None]
    texts = {caption(clip, names, rng) for _ in range(400)}
    assert len(texts) > 390


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_told_attributes_appear_and_others_do_not_leak(split: str) -> None:
    clips = drawn(4000, seed=1)
    texts, told = captions(clips, random.Random(2), split)
    for clip, text, names in zip(clips, texts, told, strict=True):
        lowered = text.lower()
        for name in ("time", "weather", "camera", "colour"):
            if name in names:
                assert names[name] == getattr(clip, name)
                assert any(p in lowered for p in phrases_of(name, clip)), (name, names, text)
            else:
                leak = re.search(rf"\b({TELLTALE[name]})\b", lowered)
                assert leak is None, (name, leak, names, text)


def test_words_of_time_are_true_to_the_weather() -> None:
    rng = random.Random(4)
    for weather in ("rain", "fog", "snow"):
        clip = Attributes("ocean", "night", weather, "static")
        texts = [caption(clip, ["scene", "time"], rng).lower() for _ in range(500)]
        assert not [t for t in texts if "moon" in t or "stars" in t or "starry" in t]


def test_the_colour_stands_at_its_subject() -> None:
    for scene in COLOURED_SCENES:
        assert all("{c}" in phrase for phrase in COLOURED_SUBJECTS[scene])
    words = {c: {w.split()[-1] for w in COLOUR_WORDS[c]} for c in COLOURS}
    for a in COLOURS:
        for b in COLOURS:
            assert a == b or not words[a] & words[b], (a, b)


def test_splits_never_meet() -> None:
    clips = drawn(20_000, seed=5)
    train, _ = captions(clips, random.Random(6), "train")
    held_out, _ = captions(clips, random.Random(6), "held_out")
    # Case and full stops aside.
    assert not {t.lower().strip(".") for t in train} & {t.lower().strip(".") for t in held_out}


def test_words_of_the_held_out_captions_stay_out_of_training() -> None:
    tables = [getattr(training_captions, name) for name in dir(training_captions) if name.isupper()]
    held_out = [getattr(training_captions, n) for n in dir(training_captions) if n.startswith("HELD_OUT_")]
    phrases = " ".join(p for t in tables if all(t is not h for h in held_out) for p in flat(t))
    clips = drawn(20_000, seed=10)
    written, _ = captions(clips, random.Random(11), "train")
    for text in (phrases, " ".join(written)):
        assert not ONLY_HELD_OUT & set(re.findall(r"[a-z]+", text.lower()))
    asked, _ = captions(clips, random.Random(11), "held_out")
    assert set(re.findall(r"[a-z]+", " ".join(asked).lower())) >= ONLY_HELD_OUT


def flat(table: object) -> Iterator[str]:
    """The phrases of a table, however nested."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, dict):
        yield from flat(tuple(table.values()))
    elif isinstance(table, tuple):
        for part in table:
            yield from flat(part)


def test_each_camera_move_has_as_many_words() -> None:
    for table in (CAMERA_TAGS, CAMERA_VERBS, CAMERA_LEADS, CAMERA_ACTS):
        assert len(table["zoom out"]) >= len(table["zoom in"])
        assert not set(table["zoom out"]) & set(table["zoom in"])
    _, told = captions(drawn(20_000, seed=12), random.Random(13))
    moves = Counter(t["camera"] for t in told if "camera" in t)
    assert max(moves.values()) < 1.1 * min(moves.values())


def test_a_blue_sky_is_a_clear_day() -> None:
    rng = random.Random(14)
    for time in ("sunset", "night"):
        clip = Attributes("ocean", time, "clear", "static")
        texts = [caption(clip, ["scene", "weather"], rng).lower() for _ in range(800)]
        assert not [t for t in texts if re.search(r"blue sk|sunny|\bday\b", t)]
    day = Attributes("ocean", "day", "clear", "static")
    assert [t for t in (caption(day, ["scene", "weather"], rng) for _ in range(800)) if "blue sk" in t]


def test_each_attribute_is_often_told_alone() -> None:
    clips = drawn(6000, seed=7)
    _, told = captions(clips, random.Random(8))
    alone = Counter(next(iter(set(t) - {"scene"})) for t in told if len(set(t) - {"scene"}) == 1)
    assert min(alone[n] for n in ("time", "weather", "camera", "colour")) > 200
    assert sum("scene" in t for t in told) / len(told) > 0.95
    full = [
        len(t) == sum(getattr(c, n) is not None for n in VALUES) for c, t in zip(clips, told, strict=True)
    ]
    assert sum(full) > 500


def test_same_generator_same_captions() -> None:
    clips = drawn(50, seed=9)
    assert captions(clips, random.Random(1)) == captions(clips, random.Random(1))
    assert captions(clips, random.Random(1)) != captions(clips, random.Random(2))


@pytest.mark.parametrize("mentioned", [[], ["colour"], ["scene", "weather"]])
def test_what_cannot_be_told_is_refused(mentioned: list[str]) -> None:
    clip = Attributes("planet in space", colour="red")
    with pytest.raises(ValueError, match="cannot tell"):
        caption(clip, mentioned, random.Random(0))


def test_held_out_prompts_are_balanced() -> None:
    prompts = held_out_prompts(512)
    assert len({p.text for p in prompts}) == 512
    scenes = Counter(p.attributes.scene for p in prompts)
    assert set(scenes) == set(SCENES)
    assert max(scenes.values()) - min(scenes.values()) <= 1
    for name in ("time", "weather", "camera", "colour"):
        told = Counter(p.mentioned[name] for p in prompts if name in p.mentioned)
        assert set(told) == set(VALUES[name])
        assert min(told.values()) >= 15
    for p in prompts:
        assert all(value in allowed(p.attributes.scene, name) for name, value in p.mentioned.items())
    assert held_out_prompts(512) == prompts
