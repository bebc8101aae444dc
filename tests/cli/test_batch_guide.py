"""docs/batch.md: the cron line and the systemd units run, and the tables say what the code does."""

from __future__ import annotations

import configparser
import dataclasses
import json
import re
import shlex
import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.command import VEO
from veo_cli import events
from veo_cli.events import Event

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "batch.md").read_text(encoding="utf-8")
CRON = {"PATH": "/usr/bin:/bin", "LANG": "C", "SHELL": "/bin/sh"}


def unit(name: str) -> configparser.ConfigParser:
    (text,) = re.findall(rf"```ini\n# /etc/systemd/system/{name}\n(.*?)```", GUIDE, re.DOTALL)
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def cron_command() -> str:
    (line,) = re.findall(r"```cron\n(.*)\n```", GUIDE)
    minute, hour, day, month, weekday, command = line.split(maxsplit=5)
    assert re.fullmatch(r"\d+ \d+ \* \* \*", " ".join((minute, hour, day, month, weekday)))
    return command


def test_both_start_the_same_command() -> None:
    assert shlex.split(unit("veo.service")["Service"]["ExecStart"]) == shlex.split(cron_command())


def test_the_command_renders_in_crons_environment(tmp_path: Path, tiny_model: Path) -> None:
    command = cron_command()
    assert "%" not in command  # cron would end the command there
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "a.yaml").write_text(
        f"model: {tiny_model}\nprompt: a ball\nnum_frames: 5\nnum_inference_steps: 2\n"
        "encode: {codec_preset: ultrafast}\n"
    )
    later = f"{datetime.now() + timedelta(hours=12):%H:%M}"
    command = command.replace("/srv/veo/.venv/bin/veo", str(VEO)).replace("/srv/veo", str(tmp_path))
    command = command.replace("06:00", later)
    for _ in range(2):
        done = subprocess.run(["/bin/sh", "-c", command], cwd="/", env=CRON, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        (clip,) = (tmp_path / "clips").glob("*.mp4")
        assert done.stdout == f"{clip}\n"
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines].count("run_done") == 2
    assert len({line["run_id"] for line in lines}) == 2
    assert {line["v"] for line in lines} == {events.SCHEMA_VERSION}

    families = set(re.findall(r"^# TYPE (\w+) ", (tmp_path / "veo.prom").read_text(), re.MULTILINE))
    described = set(re.findall(r"`(veo_\w+)`", GUIDE.partition("## Prometheus")[2]))
    assert {name for name in families if not name.endswith("_created")} == described


def test_systemd_units_hold_together() -> None:
    service, timer = unit("veo.service"), unit("veo.timer")
    assert service["Service"]["Type"] == "oneshot"
    assert set(service["Service"]["SuccessExitStatus"].split()) == {"5", "143"}
    assert timer["Install"]["WantedBy"] == "timers.target"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_itself_accepts_them(tmp_path: Path) -> None:
    for name in ("veo.service", "veo.timer"):
        with (tmp_path / name).open("w") as file:
            unit(name).write(file, space_around_delimiters=False)
    text = (tmp_path / "veo.service").read_text().replace("/srv/veo/.venv/bin/veo", str(VEO))
    (tmp_path / "veo.service").write_text(text.replace("User=veo\n", ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "veo.service"), str(tmp_path / "veo.timer")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_event_and_field_is_in_the_guide() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", GUIDE.partition("## Events")[2], re.MULTILINE))
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)} - {
        Event
    }
    for kind in kinds:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
        described = set(re.findall(r"`(\w+)`", rows[name]))
        assert {field.name for field in dataclasses.fields(kind)} <= described, name
    assert len(kinds) == sum(name in rows for name in rows if not name.startswith("veo_"))
