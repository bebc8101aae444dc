"""`veo bench`: how fast this machine renders, stage by stage, by rendering for real into a folder that is thrown away."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from veo_cli import model_report
from veo_cli.batch import BatchOptions, run_batch
from veo_cli.byte_size import in_words
from veo_cli.counted import counted
from veo_cli.errors import EnvironmentFault, Fault, SpecificationError
from veo_cli.events import Event, JobDone, JobFailed, RunStarted, StageDone, StepDone, Warned
from veo_cli.exit_codes import ExitCode
from veo_cli.prompt_file import read_specs
from veo_cli.resolve import resolve_jobs
from veo_cli.stats import Percentiles, percentile
from veo_cli.terminal import Terminal

PROMPT = "a red striped lighthouse on a rocky coast, foggy night, its beam sweeping"
WARM_UP_CLIPS = 1


@dataclass(frozen=True)
class Figures:
    """Of the measured clips; the warm-up is left out. Stage times of neighbouring clips overlap: one is encoded while the
    next is sampled. clips_per_hour and frames_per_second are by the clips' own seconds."""

    device: str
    model: str
    clip: str  # "256x144, 33 frames, 24 steps"
    clips: int
    stage_seconds: dict[str, Percentiles]
    step_seconds: Percentiles
    job_seconds: Percentiles
    frames_per_second: float
    clips_per_hour: float
    peak_rss_bytes: int
    peak_vram_bytes: int


@dataclass
class _Collector:
    """A Listener that keeps what the figures need."""

    terminal: Terminal
    total: int
    device: str = ""
    done: list[JobDone] = field(default_factory=list)
    stages: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.device = event.device
            case StageDone():
                self.stages[event.job_id][event.stage] = event.seconds
            case StepDone():
                self.steps[event.job_id].append(event.seconds)
            case JobDone():
                self.done.append(event)
                warm_up = " (warm-up, not counted)" if len(self.done) <= WARM_UP_CLIPS else ""
                self.terminal.note(f"{len(self.done)} of {self.total}: {event.seconds:.1f} s{warm_up}")
            case JobFailed() if not event.will_retry:
                self.terminal.error(event.message)
            case Warned():
                self.terminal.warning(event.message)
            case _:
                pass


def render(
    terminal: Terminal, *, clips: int, device: str, preset: str | None, settings: Sequence[str]
) -> ExitCode:
    """Render `clips` clips after a warm-up and print the figures."""
    with tempfile.TemporaryDirectory(prefix="veo-bench-") as folder:
        prompts = Path(folder) / "bench.yaml"
        seeds = list(range(clips + WARM_UP_CLIPS))
        prompts.write_text(f"prompt: {PROMPT}\nmatrix: {{seed: {seeds}}}\n", encoding="utf-8")
        if any(setting.partition("=")[0].strip() == "seed" for setting in settings):
            raise SpecificationError(Fault("every clip of the benchmark has a seed of its own", "--set seed"))
        resolved = resolve_jobs(
            read_specs([str(prompts)]),
            preset=preset,
            settings=settings,
            output=Path(folder),
            describe=partial(model_report.describe, terminal, download=False),
        )
        collector = _Collector(terminal, len(resolved))
        code = run_batch(resolved, BatchOptions(Path(folder), device=device, in_order=True), collector)
        if code is not ExitCode.OK:
            return code
        job, model = resolved[0].job, resolved[0].model
        clip = f"{job.width}x{job.height}, {counted(job.num_frames, 'frame')}, {counted(job.num_inference_steps, 'step')}"
        _print(terminal, _figures(collector, model.title, clip))
        return ExitCode.OK


def _figures(collector: _Collector, model: str, clip: str) -> Figures:
    measured = collector.done[WARM_UP_CLIPS:]
    stages: dict[str, list[float]] = defaultdict(list)
    for job in measured:
        for stage, seconds in collector.stages[job.job_id].items():
            stages[stage].append(seconds)
    mean_s = statistics.fmean(job.seconds for job in measured)
    return Figures(
        collector.device,
        model,
        clip,
        len(measured),
        {stage: _percentiles(seconds) for stage, seconds in stages.items()},
        _percentiles([seconds for job in measured for seconds in collector.steps[job.job_id]]),
        _percentiles([job.seconds for job in measured]),
        measured[0].num_frames / mean_s,
        3600 / mean_s,
        max(job.peak_rss_bytes for job in measured),
        max(job.peak_vram_bytes for job in measured),
    )


def _percentiles(values: Sequence[float]) -> Percentiles:
    return (
        Percentiles(len(values), percentile(values, 50), percentile(values, 95))
        if values
        else Percentiles(0, 0, 0)
    )


def _print(terminal: Terminal, figures: Figures) -> None:
    if terminal.json:
        terminal.result_json(asdict(figures))
        return
    terminal.result(f"{figures.model} on {figures.device}: {figures.clip}")
    spans = {"step": figures.step_seconds, **figures.stage_seconds, "clip": figures.job_seconds}
    terminal.table(
        ["SECONDS", "COUNT", "P50", "P95"],
        [[name, str(span.count), f"{span.p50:.3f}", f"{span.p95:.3f}"] for name, span in spans.items()],
    )
    memory = in_words(figures.peak_rss_bytes)
    if figures.peak_vram_bytes:
        memory += f", on the GPU {in_words(figures.peak_vram_bytes)}"
    terminal.result(
        f"{figures.frames_per_second:.2f} frames/s, {figures.clips_per_hour:.1f} clips/hour, peak memory {memory}"
    )


def kernels(terminal: Terminal) -> ExitCode:
    """Print the figures of the CUDA kernels (of their NumPy path without a GPU), as benchmarks.kernels measures them.

    Raises EnvironmentFault where veo was installed without its source tree.
    """
    if importlib.util.find_spec("benchmarks") is None:
        raise EnvironmentFault(
            "the benchmark of the kernels is not here",
            why="it comes with veo's source tree, not with the installed package",
            fix="in a checkout:  python -m benchmarks.kernels",
        )
    from benchmarks.kernels import HEADER, run

    with tempfile.TemporaryDirectory(prefix="veo-bench-") as folder:
        figures = run(out=Path(folder) / "kernels.json")
    if terminal.json:
        for figure in figures:
            terminal.result_json(asdict(figure))
    else:
        for line in (HEADER, *(figure.line() for figure in figures)):
            terminal.result(line.rstrip())
    return ExitCode.OK
