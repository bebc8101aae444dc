"""The guides: their examples work, and what they list is all there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from veo_cli import errors, field_names, naming, preflight
from veo_cli.exit_codes import ExitCode
from veo_cli.models.model_info import ModelInfo
from veo_cli.prompt_file import read_specs
from veo_cli.resolve import ResolvedJob, resolve_jobs

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROMPT_FILES = (DOCS / "prompt-files.md").read_text(encoding="utf-8")
EXIT_CODES = (DOCS / "exit-codes.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PROMPT_FILES, re.DOTALL)


def describe(name: str) -> ModelInfo:
    """veo-mini's limits, without its weights."""
    return ModelInfo(
        name=name, path=Path(name), family="wan", pipeline_class="WanPipeline", title=name,
        defaults={"width": 256, "height": 144, "num_frames": 33, "fps": 12, "num_inference_steps": 24,
                  "guidance_scale": 5.0},
        sizes=((256, 144),), size_multiple=16, frame_step=4, max_num_frames=65, latent_channels=16,
        spatial_compression=8, temporal_compression=4, max_text_tokens=64, num_parameters=1, weight_bytes=2,
        fingerprint="0" * 64,
    )  # fmt: skip


def resolved(text: str, folder: Path) -> list[ResolvedJob]:
    path = folder / "example.yaml"
    path.write_text(text, encoding="utf-8")
    return resolve_jobs(read_specs([str(path)]), output=folder, describe=describe)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_resolve(number: int, tmp_path: Path) -> None:
    assert resolved(EXAMPLES[number], tmp_path)


def test_the_matrix_makes_as_many_jobs_as_the_guide_says(tmp_path: Path) -> None:
    (example,) = (text for text in EXAMPLES if "matrix:" in text)
    (count,) = re.findall(r"makes (\d+) jobs", PROMPT_FILES)
    assert len(resolved(example, tmp_path)) == int(count)


def test_every_field_is_in_the_guide() -> None:
    documented = set(re.findall(r"`([a-z_0-9.]+)`", PROMPT_FILES))
    assert documented >= field_names.FIELDS
    assert {f"{{{name}}}" for name in naming.TEMPLATE_FIELDS} <= set(re.findall(r"\{[a-z_]+\}", PROMPT_FILES))


def test_every_exit_code_is_in_the_guide() -> None:
    table = EXIT_CODES.partition("## Streams")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == sorted(ExitCode)


def test_every_error_code_is_in_the_guide_with_its_exit_code() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", EXIT_CODES, re.MULTILINE))

    def below(kind: type[errors.VeoError]) -> set[type[errors.VeoError]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    assert preflight.PreflightFailed in below(errors.VeoError)
    codes = {kind.code: str(int(kind.exit_code)) for kind in below(errors.VeoError) if kind.code != "error"}
    assert table == codes


def test_links_lead_somewhere() -> None:
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
