"""How far one clip is from another: PSNR, SSIM and VMAF by ffmpeg's filters, and the motion in each."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veo_cli.errors import EnvironmentFault, Fault, FfmpegMissing, SpecificationError, VeoError
from veo_cli.ffmpeg import INSTALL_HINT, compile_command, every_frame, ffmpegs, file_url, filters, read_back
from veo_cli.values import ClipFacts

if TYPE_CHECKING:
    import numpy as np

VMAF_MIN_SIDE = 32  # pixels; libvmaf's pyramid of four scales crashes on pictures of 16
LUMA_RANGE = 876  # of limited-range 10-bit codes


@dataclass(frozen=True)
class Comparison:
    """PSNR is over all frames' mean squared error, in dB; None for identical planes, where it is infinite.

    SSIM is ffmpeg's (8x8 windows), 1.0 for identical frames; `psnr_db` and `ssim` weigh the planes by their
    samples, the `_y_` ones are luma alone. vmaf: 0 .. 100, model vmaf_v0.6.1; None where ffmpeg has no
    libvmaf, and under 32 pixels. motion_a, motion_b: mean absolute luma difference of consecutive frames, in
    percent of the luma range; 0 for a still.
    """

    num_frames: int
    width: int
    height: int
    identical: bool
    psnr_db: float | None
    psnr_y_db: float | None
    ssim: float
    ssim_y: float
    vmaf: float | None
    motion_a: float
    motion_b: float


def compare(reference: Path, judged: Path) -> Comparison:
    """Measure `judged` against `reference`, frame n with frame n whatever their rates.

    Raises SpecificationError when a file is no clip, or sizes, frame counts or colour spaces differ.
    """
    facts = _facts(reference)
    _check_comparable(reference, facts, judged, _facts(judged))
    ffmpeg = _with_filters("psnr", "ssim")
    vmaf_ffmpeg = None
    if min(facts.width, facts.height) >= VMAF_MIN_SIDE:
        vmaf_ffmpeg = next((path for path in ffmpegs() if "libvmaf" in filters(path)), None)
    log = None
    if (
        vmaf_ffmpeg is not None
    ):  # may fail alone: ffmpeg before 5 looks for VMAF's model in a file of the system
        log = _run_filters(vmaf_ffmpeg, reference, judged, facts, with_vmaf=True)
    if log is None:
        log = _run_filters(ffmpeg, reference, judged, facts, with_vmaf=False)
    if log is None:
        raise EnvironmentFault("ffmpeg cannot compare the clips", why=f"{ffmpeg} failed on them")
    psnr = _numbers(log, r"PSNR .*")
    ssim = _numbers(log, r"SSIM .*")
    vmaf = re.search(r"VMAF score: ([\d.]+)", log)
    return Comparison(
        num_frames=facts.num_frames,
        width=facts.width,
        height=facts.height,
        identical=psnr["average"] is None,
        psnr_db=psnr["average"],
        psnr_y_db=psnr["y"],
        ssim=ssim["All"] or 0.0,
        ssim_y=ssim["Y"] or 0.0,
        vmaf=float(vmaf[1]) if vmaf else None,
        motion_a=motion(reference, ffmpeg, facts),
        motion_b=motion(judged, ffmpeg, facts),
    )


def motion(clip: Path, ffmpeg: Path, facts: ClipFacts) -> float:
    """Mean absolute difference of consecutive frames' luma, in percent of the luma range."""
    import numpy as np

    total = 0.0
    pairs = 0
    previous: np.ndarray | None = None
    for luma in _luma_frames(clip, ffmpeg, facts):
        if previous is not None:
            total += float(np.abs(luma - previous).mean())
            pairs += 1
        previous = luma
    return round(100 * total / pairs / LUMA_RANGE, 4) if pairs else 0.0


def _luma_frames(clip: Path, ffmpeg: Path, facts: ClipFacts) -> Iterator[np.ndarray]:
    """(height, width) int32 luma codes, 10 bit, of each frame."""
    import ffmpeg as graph
    import numpy as np

    # extractplanes hands out the codes as stored; a gray format would be converted to full range.
    deep = "yuv" + ("444" if "444" in facts.pixel_format else "420") + "p10le"
    luma = graph.input(file_url(clip))["v:0"].filter("format", deep).filter("extractplanes", "y")
    command = compile_command(luma.output("pipe:", format="rawvideo", **every_frame(ffmpeg)), ffmpeg)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        size = facts.width * facts.height * 2
        while len(data := process.stdout.read(size)) == size:
            yield np.frombuffer(data, dtype="<u2").reshape(facts.height, facts.width).astype(np.int32)


def _facts(clip: Path) -> ClipFacts:
    if not clip.is_file():
        raise SpecificationError(Fault("no such clip", where=str(clip)))
    try:
        return read_back(clip)
    except FfmpegMissing:
        raise
    except VeoError as error:
        raise SpecificationError(Fault("not a video", where=str(clip), why=error.fault.why)) from error


def _check_comparable(reference: Path, a: ClipFacts, judged: Path, b: ClipFacts) -> None:
    """Numbers from clips of different shape would mean nothing; say which shape each has."""
    faults = []
    if (a.width, a.height) != (b.width, b.height):
        faults.append(
            Fault(
                f"the clips differ in size: {a.width}x{a.height} and {b.width}x{b.height}", where=str(judged)
            )
        )
    if a.num_frames != b.num_frames:
        faults.append(
            Fault(f"the clips differ in length: {a.num_frames} and {b.num_frames} frames", where=str(judged))
        )
    if a.color_space != b.color_space and a.color_space and b.color_space:
        faults.append(
            Fault(f"the clips differ in colour space: {a.color_space} and {b.color_space}", where=str(judged))
        )
    if faults:
        raise SpecificationError(faults)


def _with_filters(*names: str) -> Path:
    for path in ffmpegs():
        if filters(path).issuperset(names):
            return path
    raise FfmpegMissing(f"no ffmpeg here has the filters {' and '.join(names)}", fix=INSTALL_HINT)


def _run_filters(
    ffmpeg: Path, reference: Path, judged: Path, facts: ClipFacts, *, with_vmaf: bool
) -> str | None:
    """ffmpeg's log of one pass over both clips; None if it failed."""
    import ffmpeg as graph

    def frames(path: Path, **options: Any) -> Any:
        source = graph.input(file_url(path), **options)["v:0"].filter("format", facts.pixel_format)
        # Frame numbers for time stamps: the filters pair frames by time.
        return source.filter("settb", "1/25").filter("setpts", "N")

    measures: list[tuple[str, dict[str, Any]]] = [("psnr", {}), ("ssim", {})]
    if with_vmaf:
        measures.append(("libvmaf", {"n_threads": 2}))
    # ffmpeg-python takes equal inputs for one; the idle option keeps a clip and itself apart.
    sides = [
        side.filter_multi_output("split", len(measures))
        for side in (frames(judged), frames(reference, itsoffset=0))
    ]
    outputs = [
        graph.filter([side[number] for side in sides], name, **options).output(
            "pipe:", format="null", **every_frame(ffmpeg)
        )
        for number, (name, options) in enumerate(measures)
    ]
    command = compile_command(graph.merge_outputs(*outputs), ffmpeg, log_level="info")
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    return ran.stderr if ran.returncode == 0 else None


def _numbers(log: str, line: str) -> dict[str, float | None]:
    """`name:1.5` pairs of the log's line, `inf` as None."""
    found = re.search(line, log)
    if found is None:
        raise EnvironmentFault("ffmpeg's measurement cannot be read", why=log.strip()[-200:])
    pairs = re.findall(r"(\w+):(inf|[\d.]+)", found[0])
    return {name: None if value == "inf" else float(value) for name, value in pairs}
