"""What does a batch cost over a bare loop, what does loading once save, and does memory grow with the number of jobs?

    python -m benchmarks.batch_overhead [--jobs 200] [--growth-jobs 300] [--processes 5]
    python -m benchmarks.batch_overhead --device cuda    # on a GPU: does its memory grow, over 30 jobs?

A tiny random Wan checkpoint, so that what is not rendering shows. Each measurement is a process of its own:

- the loop: the stages of pipeline.py called one after another for each job, no lock, journal, events or sidecar
- the batch: `run_batch` of the same jobs with --events and --metrics
- the growth: a longer batch; its resident memory after each job, by a line through all but the first fifth
- the processes: the first few jobs by one `veo render` each

Loop and batch take turns, in rounds, so that whatever else the machine does falls on both. Per job: the median of the
seconds from one end to the next, and the mean CPU seconds of the process and its encoders; the first job, which loads
the model, is not counted.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import record

ROUND_JOBS = 50
GPU_JOBS = 30

PROMPTS = """\
model: {model}
prompt: a red ball
width: 64
height: 32
num_frames: 9
fps: 16
num_inference_steps: 6
encode: {{codec_preset: ultrafast}}
matrix: {{seed: {seeds}}}
"""


@dataclass
class Watch:
    """Samples at the end of each job."""

    ends: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    allocated: list[int] = field(default_factory=list)  # on the GPU, by torch, bytes
    reserved: list[int] = field(default_factory=list)  # what torch holds of the GPU, bytes

    def look(self) -> None:
        import torch

        self.ends.append(time.monotonic())
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self.cpu.append(sum(usage.ru_utime + usage.ru_stime for usage in used))
        self.resident.append(_resident_bytes())
        if torch.cuda.is_initialized():
            self.allocated.append(torch.cuda.memory_allocated())
            self.reserved.append(torch.cuda.memory_reserved())

    @property
    def seconds(self) -> list[float]:
        return [after - before for before, after in itertools.pairwise(self.ends)]

    @property
    def cpu_seconds(self) -> list[float]:
        return [after - before for before, after in itertools.pairwise(self.cpu)]


def resolve(folder: Path, seeds: range, output: Path) -> list[Any]:
    """The jobs of a matrix file written to `folder`."""
    from veo_cli.models import registry
    from veo_cli.prompt_file import read_specs
    from veo_cli.resolve import resolve_jobs

    path = folder / "matrix.yaml"
    path.write_text(PROMPTS.format(model=folder / "model", seeds=list(seeds)))
    return resolve_jobs(read_specs([str(path)]), output=output, describe=registry.describe)


def bare_loop(folder: Path, seeds: range) -> Watch:
    from veo_cli.models import registry
    from veo_cli.stages.clip_writer import ClipWriter
    from veo_cli.stages.fit import fit
    from veo_cli.stages.to_yuv import to_yuv

    jobs = resolve(folder, seeds, folder / "loop")
    model = registry.load(jobs[0].model, device="cpu")
    text = model.encode_text(jobs[0].job)
    watch = Watch()
    for resolved in jobs:
        job = resolved.job
        latents = model.denoise(job, text)
        writer = ClipWriter(resolved.output_path, job)
        for chunk in model.decode(job, latents):
            fitted = fit(chunk, job.width, job.height, job.upscale.fit)
            for frame in to_yuv(fitted, color=job.encode.color, chroma=job.encode.chroma):
                writer.put(frame)
        writer.close()
        writer.finish()
        writer.publish(resolved.output_path)
        watch.look()
    return watch


def batch(folder: Path, seeds: range, device: str = "cpu") -> Watch:
    from veo_cli.batch import BatchOptions, run_batch
    from veo_cli.events import Event, JobDone, Listeners
    from veo_cli.events_file import EventsFile
    from veo_cli.metrics_file import MetricsFile

    output = folder / "batch"
    jobs = resolve(folder, seeds, output)
    watch = Watch()

    def on_event(event: Event) -> None:
        if isinstance(event, JobDone):
            watch.look()

    events_file = EventsFile(folder / "run.jsonl", _complain)
    metrics_file = MetricsFile(folder / "veo.prom", _complain)
    options = BatchOptions(output, device=device, in_order=True)
    code = run_batch(jobs, options, Listeners(events_file, metrics_file, on_event))
    if code:
        raise RuntimeError(f"the batch ended with {code}")
    return watch


def in_a_process(work: Callable[[Path, range], Watch], folder: Path, seeds: range) -> Watch:
    """What `work` returns, called in a process that has the libraries imported and nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.forked_veo_preload"])
    answers = context.SimpleQueue()
    process = context.Process(target=_answer, args=(work, folder, seeds, answers))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} ended with {process.exitcode}")
    answer = answers.get()
    assert isinstance(answer, Watch)
    return answer


def gpu_growth(device: str) -> dict[str, Any]:
    """Memory of the GPU after each of GPU_JOBS jobs."""
    from tests.tiny_models import make_wan21

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_wan21(folder / "model")
        watch = batch(folder, range(GPU_JOBS), device)
    if not watch.allocated:
        raise SystemExit(f"the jobs did not run on a GPU: {device}")
    mib = 2**20
    return {
        "jobs": GPU_JOBS,
        "allocated_mib": [round(value / mib, 2) for value in watch.allocated],
        "reserved_mib": [round(value / mib, 2) for value in watch.reserved],
        "allocated_slope_mib_per_job": round(slope_per_job(watch.allocated) / mib, 4),
        "reserved_slope_mib_per_job": round(slope_per_job(watch.reserved) / mib, 4),
        "resident_slope_mib_per_job": round(slope_per_job(watch.resident) / mib, 4),
        "seconds_per_job": round(statistics.median(watch.seconds), 3),
    }


def separate_processes(folder: Path, num_jobs: int) -> list[float]:
    """Seconds of each of `num_jobs` processes that render one clip each."""
    seconds = []
    for number in range(num_jobs):
        path = folder / f"alone{number}.yaml"
        path.write_text(PROMPTS.format(model=folder / "model", seeds=[number]))
        begin = time.monotonic()
        command = [sys.executable, "-m", "veo_cli", "render", str(path), "-q", "-o", str(folder / "alone")]
        subprocess.run([*command, "--device", "cpu"], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.monotonic() - begin)
    return seconds


def slope_per_job(resident: list[int]) -> float:
    """Bytes a job, of a least-squares line through the samples after the first fifth (arenas and caches fill)."""
    after = resident[len(resident) // 5 :]
    return statistics.linear_regression(range(len(after)), after).slope


def _answer(work: Callable[[Path, range], Watch], folder: Path, seeds: range, answers: Any) -> None:
    answers.put(work(folder, seeds))


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _complain(message: str) -> None:
    raise RuntimeError(message)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--growth-jobs", type=int, default=300)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="a GPU: only its memory is looked at")
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON")
    options = parser.parse_args()
    if options.device != "cpu":
        figures = gpu_growth(options.device)
        for title, value in figures.items():
            print(f"{title}: {value}")
        print(record.write("gpu_memory", figures, to=options.out))
        return
    from tests.tiny_models import make_wan21

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_wan21(folder / "model")
        loops, batches = [], []
        for first in range(0, options.jobs, ROUND_JOBS):
            seeds = range(first, min(first + ROUND_JOBS, options.jobs))
            loops.append(in_a_process(bare_loop, folder, seeds))
            batches.append(in_a_process(batch, folder, seeds))
        resident = in_a_process(
            batch, folder, range(options.jobs, options.jobs + options.growth_jobs)
        ).resident
        alone = separate_processes(folder, options.processes)

    loop_s, batch_s = (statistics.median(s for run in runs for s in run.seconds) for runs in (loops, batches))
    loop_cpu_s, batch_cpu_s = (
        statistics.fmean(s for run in runs for s in run.cpu_seconds) for runs in (loops, batches)
    )
    figures = {
        "jobs": options.jobs,
        "bare_loop_s_per_job": round(loop_s, 4),
        "batch_s_per_job": round(batch_s, 4),
        "overhead_ms_per_job": round(1000 * (batch_s - loop_s), 1),
        "overhead_percent": round(100 * (batch_s / loop_s - 1), 1),
        "bare_loop_cpu_s_per_job": round(loop_cpu_s, 4),
        "batch_cpu_s_per_job": round(batch_cpu_s, 4),
        "overhead_cpu_ms_per_job": round(1000 * (batch_cpu_s - loop_cpu_s), 1),
        "separate_processes": options.processes,
        "separate_process_s_per_job": round(statistics.median(alone), 3),
        "separate_processes_over_batch": round(statistics.median(alone) / batch_s, 1),
        "growth_jobs": options.growth_jobs,
        "resident_after_first_job_mib": round(resident[0] / 2**20, 1),
        "resident_after_last_job_mib": round(resident[-1] / 2**20, 1),
        "resident_slope_mib_per_job": round(slope_per_job(resident) / 2**20, 4),
    }
    for title, value in figures.items():
        print(f"{title}: {value}")
    print(record.write("batch_overhead", figures, to=options.out))


if __name__ == "__main__":
    main()
