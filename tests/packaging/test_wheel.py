"""The wheel, installed into an empty environment outside the checkout, has all it needs and renders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path, timeout_s: float = 600) -> str:
    """The command's stdout; nothing of this checkout or its environment is passed on."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**clean, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files, so that nothing untracked slips into the wheel."""
    source = tmp_path_factory.mktemp("source")
    tracked = run("git", "ls-files", "-z", cwd=REPOSITORY).split("\0")
    for name in filter(None, tracked):
        if (REPOSITORY / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, source / name)
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source, cwd=folder)
    (found,) = folder.glob("veo-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment with the wheel in it.

    The dependencies are lent by this environment through a .pth file rather than downloaded again; a .pth file found in
    a folder that was itself added by one is not read, so the checkout does not come along.
    """
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    python = environment / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel,
        cwd=environment,
    )  # fmt: skip
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin"


def test_presets_kernels_and_weights_travel(source: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    def tracked(folder: str, suffix: str) -> set[str]:
        return {path.name for path in (source / folder).rglob(f"*{suffix}")}

    def packed(prefix: str, suffix: str) -> set[str]:
        return {Path(name).name for name in names if name.startswith(prefix) and name.endswith(suffix)}

    assert packed("veo_cli/_data/presets/", ".yaml") == tracked("presets", ".yaml") != set()
    assert packed("kernels_cupy/cuda/", ".cu") == tracked("kernels_cupy/cuda", ".cu") != set()
    assert packed("kernels_cupy/cuda/", ".cuh") == tracked("kernels_cupy/cuda", ".cuh")
    assert packed("veo_cli/_data/weights/", ".safetensors") == tracked("weights", ".safetensors") != set()
    assert "veo_cli/_data/weights/veo-mini/model_index.json" in names
    assert not any(name.startswith(("tests/", "training/", "benchmarks/")) for name in names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_nothing_of_the_checkout_is_used(installed: Path, tmp_path: Path) -> None:
    code = "import veo_cli, kernels_cupy; print(veo_cli.__file__); print(kernels_cupy.__file__)"
    for line in run(installed / "python", "-c", code, cwd=tmp_path).splitlines():
        assert Path(line).is_relative_to(installed.parent)


def test_presets_are_listed(source: Path, installed: Path, tmp_path: Path) -> None:
    listed = run(installed / "veo", "presets", cwd=tmp_path)
    assert {path.stem for path in (source / "presets").glob("*.yaml")} <= {
        line.split()[0] for line in listed.splitlines()[1:]
    }


def test_the_demo_prompt_renders(source: Path, installed: Path, tmp_path: Path) -> None:
    shutil.copy(source / "examples" / "lighthouse.yaml", tmp_path)
    printed = run(
        installed / "veo",
        "render",
        "lighthouse.yaml",
        "-o",
        "out",
        "--set",
        "num_inference_steps=4",
        cwd=tmp_path,
    )
    clip = tmp_path / printed.splitlines()[-1]
    assert clip.is_file()

    code = (
        "import sys\nfrom pathlib import Path\nfrom veo_cli.ffmpeg import read_back\n"
        "facts = read_back(Path(sys.argv[1]))\n"
        "print(facts.codec, facts.profile, facts.codec_tag, facts.pixel_format, facts.width, facts.height)\n"
    )
    said = run(installed / "python", "-c", code, clip, cwd=tmp_path).split()
    assert said == ["hevc", "Main", "10", "hvc1", "yuv420p10le", "256", "144"]

    (tmp_path / "again.yaml").write_text(run(installed / "veo", "inspect", clip, cwd=tmp_path))
    planned = run(installed / "veo", "plan", "again.yaml", "-o", "out", "--json", cwd=tmp_path)
    assert clip.stem.endswith(planned.partition('"job_id": "')[2][:8])  # the same job, by its hash
