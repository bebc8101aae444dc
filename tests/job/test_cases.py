"""The prompt files that people bring (tests/cases/dev), good and bad, as far as the resolved job."""

from __future__ import annotations

import io
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.job.described import describe
from veo_cli.errors import SpecificationError
from veo_cli.prompt_file import read_specs
from veo_cli.resolve import ResolvedJob, resolve_jobs

CASES = Path(__file__).parents[1] / "cases" / "dev"

# name -> what its README asks: clips, field values of each, words of its warnings and notes
GOOD: dict[str, dict[str, Any]] = {
    "01_minimal.yaml": {"clips": 1, "width": 256, "height": 144, "num_frames": 33, "fps": 12},
    "02_full.yaml": {
        "clips": 1,
        "width": 256,
        "height": 144,
        "num_frames": 17,
        "fps": 12,
        "seed": 7,
        "num_inference_steps": 8,
        "guidance_schedule": "sqrt_decay",
        "noise_schedule": "cosine",
        "negative_prompt": "blurry",
    },
    "03_multi_document.yaml": {"clips": 3, "seed": [1, 2, 3]},
    "04_list_and_matrix.yaml": {
        "clips": 6,
        "seed": [11, 12, 11, 12, 5, 5],
        "guidance_scale": [1.0, 1.0, 4.0, 4.0, 1.0, 4.0],
        "num_frames": 9,
    },
    "05_lines_crlf_bom.txt": {
        "clips": 2,
        "prompt": ["calm ocean at sunset", "a purple planet among the stars"],
    },
    "07_utf8_chinese.yaml": {"clips": 1, "prompt": "夜晚的灯塔, 雾", "says": ["English only"]},
    "08_other_tool_names.yaml": {
        "clips": 1,
        "num_frames": 17,
        "num_inference_steps": 6,
        "guidance_scale": 4,
        "flow_shift": 3,
        "seed": 42,
        "width": 256,
        "height": 144,
        "warns": ["size is resolution here", "frame_num is num_frames", "base_seed is seed"],
    },
    "12_nasty_name.yaml": {"clips": 1, "num_frames": 9},
    "13_very_long_prompt.yaml": {"clips": 1},
    "18_odd_size.yaml": {
        "clips": 1,
        "width": 1920,
        "height": 1080,
        "says": ["generates 256x144", "1920x1080"],
    },
    "19_duration.yaml": {"clips": 1, "num_frames": 25, "says": ["24 frames", "25 are made"]},
    "20_generate_request.json": {
        "clips": 1,
        "num_frames": 25,
        "width": 256,
        "height": 144,
        "warns": ["duration_sec is duration here"],
    },
}

# name -> "line:column" of each fault, and words of its text
BAD: dict[str, list[tuple[str, list[str]]]] = {
    "06_gbk.yaml": [("1:", ["not UTF-8", "byte 10", "GBK", "iconv -f GBK -t UTF-8"])],
    "09_unknown_field.yaml": [("2:1", ["guidance_scal", "did you mean guidance_scale?"])],
    "10_bad_frames.yaml": [("2:13", ["num_frames is 20", "4n+1", "17 or 21"])],
    "11_bad_types.yaml": [
        ("2:8", ["width", "'wide'", "whole number"]),
        ("3:6", ["fps is -3", "more than 0"]),
        ("4:17", ["guidance_scale", ".nan", "finite"]),
    ],
    "14_tabs.yaml": [("2:1", ["tab", "spaces"])],
    "15_duplicate_key.yaml": [("3:1", ["seed is given twice", "line 2, column 1"])],
    "16_yaml_norway.yaml": [
        ("2:7", ["seed", "'010'", "leading zero"]),
        ("3:6", ["fps", "'1_2'", "write fps: 12"]),
    ],
    "17_empty.yaml": [("1:1", ["empty", "prompt: a red striped lighthouse"])],
    "21_anchor_bomb.yaml": [("4:", ["aliases"])],
    "22_python_tag.yaml": [("1:9", ["tag", "nothing in them is run"])],
}


def resolved(name: str, tmp_path: Path) -> list[ResolvedJob]:
    return resolve_jobs(
        read_specs([str(CASES / name)], stdin=io.StringIO()), describe=describe, output=tmp_path
    )


def test_every_case_is_expected() -> None:
    assert {path.name for path in CASES.iterdir()} == GOOD.keys() | BAD.keys()


@pytest.mark.parametrize("name", GOOD)
def test_good_case(name: str, tmp_path: Path) -> None:
    expected = dict(GOOD[name])
    jobs = resolved(name, tmp_path)
    assert len(jobs) == expected.pop("clips")
    said = expected.pop("says", [])
    warned = expected.pop("warns", [])
    for index, entry in enumerate(jobs):
        for field, value in expected.items():
            assert getattr(entry.job, field) == (value[index] if isinstance(value, list) else value), field
        assert all(any(words in note for note in entry.notes) for words in said), entry.notes
        assert len(entry.spec.warnings) == bool(warned)
        assert all(words in entry.spec.warnings[0] for words in warned)
        assert re.fullmatch(r"[\w.-]+-\d+-[0-9a-f]{8}\.mp4", entry.output_path.name)
        assert len(entry.output_path.name.encode()) <= 80
        assert entry.output_path.parent == tmp_path
    assert len({entry.output_path for entry in jobs}) == len(jobs)


@pytest.mark.parametrize("name", BAD)
def test_bad_case(name: str, tmp_path: Path) -> None:
    with pytest.raises(SpecificationError) as caught:
        resolved(name, tmp_path)
    faults = caught.value.faults
    assert len(faults) == len(BAD[name])
    for fault, (place, words) in zip(faults, BAD[name], strict=True):
        assert fault.where.startswith(f"{CASES / name}:{place}")
        assert all(word in str(fault) for word in words), str(fault)


def test_all_bad_cases_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError) as caught:
        resolve_jobs(read_specs([str(CASES)], stdin=io.StringIO()), describe=describe, output=tmp_path)
    assert len(caught.value.faults) == sum(len(faults) for faults in BAD.values())


def test_a_text_that_is_no_stays_text(tmp_path: Path) -> None:
    specs = read_specs([str(CASES / "16_yaml_norway.yaml")], stdin=io.StringIO())
    assert specs[0].fields["prompt"] == "no"


def test_the_anchor_bomb_costs_nothing(tmp_path: Path) -> None:
    tracemalloc.start()
    before = time.process_time()
    with pytest.raises(SpecificationError):
        resolved("21_anchor_bomb.yaml", tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - before < 0.5
    assert peak < 2**20
