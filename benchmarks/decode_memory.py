"""Does the memory of decoding and encoding grow with the clip's length?

    python -m benchmarks.decode_memory [FRAMES ...]

A tiny random Wan checkpoint's latents of each length go through decode, fit, to_yuv and the encoder, each length in a
process of its own. Figures: the peak resident memory while that runs, and what of it was there before.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record

WIDTH, HEIGHT = 160, 96


def measure(num_frames: int, model: Path) -> dict[str, int]:
    """{"peak_bytes", "before_bytes"} of one length."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.forked_veo_preload"])
    answers = context.SimpleQueue()
    process = context.Process(target=_decode_and_encode, args=(num_frames, str(model), answers))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the decoding process ended with {process.exitcode}")
    return dict(answers.get())


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def _decode_and_encode(num_frames: int, model_folder: str, answers: Any) -> None:
    import torch

    from tests.tiny_models import make_job
    from veo_cli.models import registry
    from veo_cli.stages.clip_writer import ClipWriter
    from veo_cli.stages.fit import fit
    from veo_cli.stages.to_yuv import to_yuv
    from veo_cli.values import Latents

    info = registry.describe(model_folder)
    size = {"width": WIDTH, "height": HEIGHT, "num_frames": num_frames, "fps": 24.0}
    job = make_job(**size, sampler=size, encode={"codec_preset": "ultrafast"})
    model = registry.load(info, device="cpu")
    shape = (1, info.latent_channels, (num_frames - 1) // 4 + 1, HEIGHT // 8, WIDTH // 8)
    latents = Latents(torch.randn(shape, generator=torch.Generator().manual_seed(0)))

    def run(limit: int | None) -> None:
        with tempfile.TemporaryDirectory() as folder:
            writer = ClipWriter(Path(folder) / "clip.mp4", job)
            for chunk in model.decode(job, latents):
                for frame in to_yuv(fit(chunk, WIDTH, HEIGHT, "crop"), color="bt709", chroma="420"):
                    writer.put(frame)
                if limit is not None and chunk.first_index >= limit:
                    break
            if limit is None:
                writer.close()
                assert writer.finish().num_frames == num_frames
            writer.abort()

    run(8)  # the weights are in memory and the allocator is warm
    before = _status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    run(None)
    answers.put({"peak_bytes": _status_bytes("VmHWM"), "before_bytes": before})


def main() -> None:
    lengths = [int(argument) for argument in sys.argv[1:]] or [33, 129, 513]
    from tests.tiny_models import make_wan21

    with tempfile.TemporaryDirectory() as folder:
        model = make_wan21(Path(folder) / "model")
        figures = {str(length): measure(length, model) for length in lengths}
    for length, found in figures.items():
        print(
            f"{length:>5} frames: peak {found['peak_bytes'] / 2**20:.0f} MiB, {found['before_bytes'] / 2**20:.0f} before"
        )
    peaks = [found["peak_bytes"] for found in figures.values()]
    spread = max(peaks) / min(peaks) - 1
    print(f"largest over smallest: +{spread:.1%}")
    record.write(
        "decode_memory", {"size": f"{WIDTH}x{HEIGHT}", "frames": figures, "spread": round(spread, 4)}
    )


if __name__ == "__main__":
    main()
