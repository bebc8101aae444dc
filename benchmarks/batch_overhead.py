"""What does a batch cost over a bare loop, what does loading once save, and does memory grow with the number of jobs?

    python -m benchmarks.batch_overhead [--jobs 200] [--growth-jobs 300] [--processes 5]

A tiny random Wan checkpoint, so that what is not rendering shows. Three measurements, each in a process of its own:

- the loop: the stages of pipeline.py called one after another for each job, no lock, journal, events or sidecar
- the batch: `veo render` of the same jobs with --events and --metrics; its resident memory after each job, by a line
  through them after the first fifth
- the processes: the first few jobs by one `veo render` each
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
from pathlib import Path
from typing import Any

from benchmarks import record

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


def resolve(folder: Path, num_jobs: int, output: Path) -> list[Any]:
    """The jobs of a matrix file written to `folder`."""
    from veo_cli.models import registry
    from veo_cli.prompt_file import read_specs
    from veo_cli.resolve import resolve_jobs

    path = folder / f"{num_jobs}.yaml"
    path.write_text(PROMPTS.format(model=folder / "model", seeds=list(range(num_jobs))))
    return resolve_jobs(read_specs([str(path)]), output=output, describe=registry.describe)


def bare_loop(folder: Path, num_jobs: int) -> dict[str, Any]:
    """Seconds of each job."""
    from veo_cli.models import registry
    from veo_cli.stages.clip_writer import ClipWriter
    from veo_cli.stages.fit import fit
    from veo_cli.stages.to_yuv import to_yuv

    jobs = resolve(folder, num_jobs, folder / "loop")
    model = registry.load(jobs[0].model, device="cpu")
    text = model.encode_text(jobs[0].job)
    seconds = []
    for resolved in jobs:
        begin = time.monotonic()
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
        seconds.append(time.monotonic() - begin)
    return {"seconds": seconds}


def batch(folder: Path, num_jobs: int) -> dict[str, Any]:
    """Seconds between the ends of jobs, and resident memory at each end."""
    from veo_cli.batch import BatchOptions, run_batch
    from veo_cli.events import Event, JobDone, Listeners, RunStarted
    from veo_cli.events_file import EventsFile
    from veo_cli.metrics_file import MetricsFile

    output = folder / f"batch{num_jobs}"
    jobs = resolve(folder, num_jobs, output)
    ends: list[float] = []
    resident: list[int] = []

    def watch(event: Event) -> None:
        if isinstance(event, RunStarted | JobDone):
            ends.append(time.monotonic())
            resident.append(_resident_bytes())

    listeners = Listeners(
        EventsFile(folder / "run.jsonl", _complain), MetricsFile(folder / "veo.prom", _complain), watch
    )
    code = run_batch(jobs, BatchOptions(output, device="cpu", in_order=True), listeners)
    if code:
        raise RuntimeError(f"the batch ended with {code}")
    return {
        "seconds": [after - before for before, after in itertools.pairwise(ends)],
        "resident": resident,
    }


def in_a_process(work: Callable[[Path, int], dict[str, Any]], folder: Path, num_jobs: int) -> dict[str, Any]:
    """What `work` returns, and the CPU seconds of it and its encoders."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.forked_veo_preload"])
    answers = context.SimpleQueue()
    process = context.Process(target=_answer, args=(work, folder, num_jobs, answers))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} ended with {process.exitcode}")
    return dict(answers.get())


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


def _answer(work: Callable[[Path, int], dict[str, Any]], folder: Path, num_jobs: int, answers: Any) -> None:
    begin = _cpu_seconds()
    answer = work(folder, num_jobs)
    answers.put(answer | {"cpu_s": _cpu_seconds() - begin})


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


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
    options = parser.parse_args()
    from tests.tiny_models import make_wan21

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_wan21(folder / "model")
        loop = in_a_process(bare_loop, folder, options.jobs)
        queue = in_a_process(batch, folder, options.jobs)
        growth = (
            queue if options.growth_jobs == options.jobs else in_a_process(batch, folder, options.growth_jobs)
        )
        alone = separate_processes(folder, options.processes)

    loop_s, batch_s = statistics.median(loop["seconds"][1:]), statistics.median(queue["seconds"][1:])
    figures = {
        "jobs": options.jobs,
        "bare_loop_s_per_job": round(loop_s, 4),
        "batch_s_per_job": round(batch_s, 4),
        "overhead_ms_per_job": round(1000 * (batch_s - loop_s), 2),
        "overhead_percent": round(100 * (batch_s / loop_s - 1), 1),
        "bare_loop_cpu_s_per_job": round(loop["cpu_s"] / options.jobs, 4),
        "batch_cpu_s_per_job": round(queue["cpu_s"] / options.jobs, 4),
        "overhead_cpu_ms_per_job": round(1000 * (queue["cpu_s"] - loop["cpu_s"]) / options.jobs, 2),
        "separate_processes": options.processes,
        "separate_process_s_per_job": round(statistics.median(alone), 3),
        "separate_processes_over_batch": round(statistics.median(alone) / batch_s, 1),
        "growth_jobs": options.growth_jobs,
        "resident_after_first_job_mib": round(growth["resident"][1] / 2**20, 1),
        "resident_after_last_job_mib": round(growth["resident"][-1] / 2**20, 1),
        "resident_slope_mib_per_job": round(slope_per_job(growth["resident"][1:]) / 2**20, 4),
    }
    for title, value in figures.items():
        print(f"{title}: {value}")
    print(record.write("batch_overhead", figures))


if __name__ == "__main__":
    main()
