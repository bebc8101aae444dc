"""ffmpeg as a child process: finding one, choosing a working encoder, feeding frames, reading a file back.

A system ffmpeg is used where it has what is needed, else the one that imageio-ffmpeg carries; VEO_FFMPEG
names another.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from veo_cli.errors import DiskFull, EncodeFailed, FfmpegMissing, VeoError
from veo_cli.job import EncodeSettings
from veo_cli.values import ClipFacts

PROBE_TIMEOUT_S = 60.0
READ_BACK_TIMEOUT_S = 600.0
STALL_TIMEOUT_S = 180.0  # neither a byte taken nor CPU time used for so long: ffmpeg hangs
PIPE_BYTES = 1 << 20  # Linux's usual limit for a pipe without privileges
TAIL_LINES = 8  # of ffmpeg's stderr, in an error message

INSTALL_HINT = "install ffmpeg (apt install ffmpeg, brew install ffmpeg) or pip install imageio-ffmpeg"

# Tried in this order where the prompt file says `encoder: auto`.
ENCODERS = {"hevc": ("libx265", "hevc_nvenc"), "h264": ("libx264",)}


@dataclass(frozen=True)
class EncoderProbe:
    """Whether one encoder of one ffmpeg encodes a frame here, and if not, why."""

    encoder: str
    ffmpeg: Path
    ffmpeg_version: str  # "n9.0.2"
    works: bool
    why: str = ""  # ffmpeg's own reason
    encoder_version: str = ""  # of the library, where it says one: "4.3+49-020d7054"

    @property
    def description(self) -> str:
        """For people and the sidecar: "libx265 4.3 (ffmpeg n9.0.2)"."""
        return f"{self.encoder} {self.encoder_version}".rstrip() + f" (ffmpeg {self.ffmpeg_version})"


@dataclass(frozen=True)
class ChosenEncoder:
    """The encoder that a job uses. `note` is not empty when it is not the first choice: to be said once."""

    probe: EncoderProbe
    note: str = ""


@cache
def ffmpegs() -> tuple[Path, ...]:
    """The ffmpeg programs of this machine, best first. Raises FfmpegMissing when there is none."""
    named = os.environ.get("VEO_FFMPEG")
    if named:
        if not os.access(named, os.X_OK):
            raise FfmpegMissing(
                "VEO_FFMPEG names no program", where=named, fix="unset it or correct the path"
            )
        return (Path(named),)
    found = []
    system = shutil.which("ffmpeg")
    if system:
        found.append(Path(system))
    try:
        import imageio_ffmpeg

        found.append(Path(imageio_ffmpeg.get_ffmpeg_exe()))
    except (ImportError, RuntimeError):  # RuntimeError: a wheel without a binary for this platform
        pass
    if not found:
        raise FfmpegMissing(
            "no ffmpeg was found", why="neither on PATH nor from imageio-ffmpeg", fix=INSTALL_HINT
        )
    return tuple(found)


@cache
def ffmpeg_version(ffmpeg: Path) -> str:
    """What `ffmpeg -version` calls itself, without the build date: "n9.0.2", "6.1.1-3ubuntu5"; "" if it
    won't run."""
    try:
        shown = subprocess.run(
            [str(ffmpeg), "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.match(r"ffmpeg version (\S+)", shown)
    return re.sub(r"-\d+-g[0-9a-f]{7,}.*", "", match[1]) if match else ""


def every_frame(ffmpeg: Path) -> dict[str, str]:
    """The output option that keeps ffmpeg from doubling or dropping frames; its name changed in 5.1."""
    version = re.match(r"n?(\d+)\.(\d+)", ffmpeg_version(ffmpeg))
    old = version is not None and (int(version[1]), int(version[2])) < (5, 1)
    return {"vsync" if old else "fps_mode": "passthrough"}


@cache
def filters(ffmpeg: Path) -> frozenset[str]:
    """The names of the filters this ffmpeg was built with."""
    shown = subprocess.run(
        [str(ffmpeg), "-hide_banner", "-filters"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PROBE_TIMEOUT_S,
    ).stdout
    return frozenset(re.findall(r"^ [.TSC]{2,3} (\w+) ", shown, re.MULTILINE))


@cache
def probe_encoder(name: str, ffmpeg: Path, pixel_format: str = "yuv420p10le") -> EncoderProbe:
    """Encode one 256x144 frame with the encoder: listed ones are often unusable (hevc_nvenc without a
    driver).

    pixel_format is what is fed; the encoder may take it in another layout of the same depth (p010le).
    """
    import ffmpeg as graph

    version = ffmpeg_version(ffmpeg)
    options: dict[str, Any] = {"c:v": name, "frames:v": 1}
    if name == "libx265":
        options["x265-params"] = "log-level=info:pools=1"
    source = graph.input("color=c=gray:s=256x144:r=24", format="lavfi").filter("format", pixel_format)
    command = compile_command(source.output("pipe:", format="null", **options), ffmpeg, log_level="info")
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return EncoderProbe(name, ffmpeg, version, works=False, why=str(error))
    if ran.returncode != 0:
        return EncoderProbe(name, ffmpeg, version, works=False, why=_reason(ran.stderr))
    named = re.search(r"HEVC encoder version (\S+)", ran.stderr)
    return EncoderProbe(name, ffmpeg, version, works=True, encoder_version=named[1] if named else "")


def _reason(stderr: str) -> str:
    """The line of a failed probe that says most: the encoder's own first complaint."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    complaint = re.compile(
        r"unknown encoder|cannot|could not|not (found|supported)|fail|error|no device", re.I
    )
    for line in lines:
        if complaint.search(line):
            return re.sub(r"^(\[[^\]]*\] ?)+", "", line).strip()
    return lines[-1].strip() if lines else "ffmpeg gave no reason"


def choose_encoder(settings: EncodeSettings, pixel_format: str = "yuv420p10le") -> ChosenEncoder:
    """The first encoder that really encodes here, of the one asked for or of the codec's.

    Raises FfmpegMissing with every candidate's reason.
    """
    names = ENCODERS[settings.codec] if settings.encoder == "auto" else (settings.encoder,)
    failed: list[EncoderProbe] = []
    for name in names:
        for ffmpeg in ffmpegs():
            probe = probe_encoder(name, ffmpeg, pixel_format)
            if probe.works:
                note = ""
                if name != names[0]:
                    reasons = "; ".join(f"{other.encoder}: {other.why}" for other in failed)
                    note = f"{name} encodes this clip, since {names[0]} does not work here ({reasons})"
                return ChosenEncoder(probe, note)
            failed.append(probe)
    why = "; ".join(f"{probe.encoder} of {probe.ffmpeg}: {probe.why}" for probe in failed)
    if settings.encoder == "auto":
        raise FfmpegMissing(
            f"no working {settings.codec} encoder for {pixel_format}", why=why, fix=INSTALL_HINT
        )
    software = ENCODERS[settings.codec][0]
    fix = "write encode: {encoder: auto}, which takes the first that works here"
    if settings.encoder != software:
        fix = (
            f"{settings.encoder} needs an NVIDIA GPU, its driver and an ffmpeg built for it; "
            f"write encode: {{encoder: auto}}, or {software}, which needs none"
        )
    raise FfmpegMissing(f"{settings.encoder} does not encode {pixel_format} here", why=why, fix=fix)


def compile_command(output: Any, ffmpeg: Path, *, log_level: str = "error") -> list[str]:
    """The argument list of an ffmpeg-python output node, for a child that never reads the terminal."""
    arguments: list[str] = output.compile(cmd=str(ffmpeg), overwrite_output=True)
    return [arguments[0], "-hide_banner", "-nostdin", "-loglevel", log_level, *arguments[1:]]


def file_url(path: Path) -> str:
    """A path as ffmpeg takes it literally, whatever characters it has (`a:b.mp4` would name a protocol)."""
    return f"file:{path}"


def frame_rate(fps: float) -> Fraction:
    """The exact rate meant by a decimal one: 23.976 and 29.97 are 24000/1001 and 30000/1001."""
    whole = round(fps * 1.001)
    ntsc = Fraction(whole * 1000, 1001)
    if whole and abs(ntsc - Fraction(fps)) < Fraction(1, 1000) and fps != round(fps):
        return ntsc
    return Fraction(str(fps)).limit_denominator(100_000)


class FfmpegPipe:
    """An ffmpeg that reads raw frames from its stdin.

    It has a process group of its own, so that Ctrl-C at the terminal stops veo, which then decides. It does
    not outlive us: on Linux the kernel kills it with the thread that started it; elsewhere it ends when its
    stdin closes. `write` and `finish` belong to one thread; `kill` may come from any.
    """

    def __init__(self, command: Sequence[str], *, cwd: Path | None = None) -> None:
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._killed = False
        self._writing = threading.Lock()  # stdin's descriptor must not be closed, and reused, under a write
        try:
            self._process = subprocess.Popen(
                [*_die_with_parent(), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=cwd,
                process_group=0,
            )
        except OSError as error:
            raise FfmpegMissing(
                "ffmpeg cannot be started", why=str(error), where=command[0], fix=INSTALL_HINT
            ) from error
        assert self._process.stdin is not None and self._process.stderr is not None
        self._stdin = self._process.stdin.fileno()
        os.set_blocking(self._stdin, False)
        if sys.platform == "linux":
            import fcntl

            with contextlib.suppress(OSError):  # the user's pipe budget may be spent; it only costs wake-ups
                fcntl.fcntl(self._stdin, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._reader = threading.Thread(target=self._drain, name="ffmpeg-stderr", daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                text = line.decode(errors="replace").strip()
                if text:
                    self._tail.append(text)

    def write(self, data: Any) -> None:
        """Hand over a contiguous buffer, all of it. Raises EncodeFailed or DiskFull with ffmpeg's reason."""
        with self._writing:
            self._write(memoryview(data).cast("B"))

    def _write(self, view: memoryview) -> None:
        watch = _Stall(self._process.pid)
        if self._process.stdin is None or self._process.stdin.closed:
            raise self._failure()
        poll = select.poll()
        poll.register(self._stdin, select.POLLOUT)
        while view:
            if not poll.poll(1000):
                if watch.stalled():
                    self._hung()
                continue
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._failure() from error
            watch.progress()

    def finish(self) -> None:
        """Close ffmpeg's input and wait until its file is whole. Raises EncodeFailed or DiskFull."""
        self._close_stdin()
        watch = _Stall(self._process.pid)
        while True:
            try:
                self._process.wait(timeout=1.0)
                break
            except subprocess.TimeoutExpired:
                if watch.stalled():
                    self._hung()
        self._reader.join()
        # Older ffmpegs end with 0 when only the last write found no space.
        if self._process.returncode != 0 or self._ran_out_of_space():
            raise self._failure()

    def kill(self) -> None:
        """End the process now, if it still runs. Safe to call twice."""
        self._killed = True
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        with self._writing:  # a write under way fails at once now
            self._close_stdin()
        self._reader.join()

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _hung(self) -> None:
        self._process.kill()
        self._process.wait()
        raise EncodeFailed(
            "ffmpeg hangs",
            why=f"it took no frame and used no CPU for {STALL_TIMEOUT_S:.0f} s; it was killed",
        )

    def _ran_out_of_space(self) -> bool:
        return any("No space left on device" in line or "Disk quota exceeded" in line for line in self._tail)

    def _failure(self) -> VeoError:
        """The reason of a dead or dying ffmpeg, in its own words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10.0)
        if self._process.poll() is None:  # it closed its input but lives on
            self._process.kill()
            self._process.wait()
        self._reader.join()
        code = self._process.returncode
        fix = ""
        words = list(self._tail)
        if self._ran_out_of_space():
            return DiskFull(
                "no space left on the disk for the clip",
                why=words[-1],
                fix="free some space and run the same command again",
            )
        if self._killed:
            return EncodeFailed("the encoder was stopped")
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
            ended = f"ffmpeg was killed by {name}"
            if name == "SIGKILL":
                fix = "if the system was out of memory (dmesg says), use a faster encode.codec_preset"
        else:
            ended = f"ffmpeg failed with exit code {code}"
        why = "\n  ".join(words) if words else "it gave no reason"
        return EncodeFailed(ended, why=why, fix=fix)


class _Stall:
    """Tells a hung child from a slow one: 4K frames at slow presets take minutes, but they take CPU time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu_s = self._cpu_time_s()
        self._since = time.monotonic()

    def _cpu_time_s(self) -> float:
        import psutil

        try:
            times = psutil.Process(self._pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def progress(self) -> None:
        self._since = time.monotonic()

    def stalled(self) -> bool:
        cpu_s = self._cpu_time_s()
        if cpu_s > self._cpu_s:
            self._cpu_s = cpu_s
            self.progress()
        return time.monotonic() - self._since > STALL_TIMEOUT_S


@cache
def _die_with_parent() -> tuple[str, ...]:
    """A prefix that lets the kernel kill the child with us; util-linux has it, and it execs the program in
    place.

    (A preexec_fn calling prctl would run Python between fork and exec, which torch's threads make unsafe.)
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return ()
    works = subprocess.run([setpriv, "--pdeathsig", "KILL", "true"], capture_output=True).returncode == 0
    return (setpriv, "--pdeathsig", "KILL") if works else ()


_STREAM = re.compile(
    r"Stream #\S+: Video: (?P<codec>\w+)(?: \((?P<profile>[^()]*)\))?"
    r".*?(?:\((?P<tag>\w{4}) / 0x[0-9A-Fa-f]+\))?"
    r", (?P<format>\w+)(?:\((?P<color>[^()]*)\))?, (?P<size>\d+x\d+)"
)


def read_back(path: Path, ffmpeg: Path | None = None) -> ClipFacts:
    """What a written clip is, as ffmpeg reads it: every packet is counted, nothing is decoded.

    Raises EncodeFailed when the file has no readable video stream.
    """
    import ffmpeg as graph

    program = ffmpeg or ffmpegs()[0]
    # framecrc writes one line a packet and the time base; the stream's description is in the log.
    output = graph.output(graph.input(file_url(path))["v:0"], "pipe:", format="framecrc", c="copy")
    try:
        ran = subprocess.run(
            compile_command(output, program, log_level="info"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=READ_BACK_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise EncodeFailed(
            "the clip cannot be read back", where=str(path), why="ffmpeg hangs on it"
        ) from error
    stream = _STREAM.search(ran.stderr)
    time_base = re.search(r"^#tb 0: (\d+)/(\d+)", ran.stdout, re.MULTILINE)
    if ran.returncode != 0 or stream is None or time_base is None:
        lines = ran.stderr.strip().splitlines()
        raise EncodeFailed("the clip cannot be read back", where=str(path), why=lines[-1] if lines else "")
    durations = [int(line.split(",")[3]) for line in ran.stdout.splitlines() if line.startswith("0,")]
    duration_s = sum(durations) * Fraction(int(time_base[1]), int(time_base[2]))
    color_range, space, primaries, transfer = _color_tags(stream["color"] or "")
    width, height = (int(side) for side in stream["size"].split("x"))
    return ClipFacts(
        codec=stream["codec"],
        profile=stream["profile"] or "",
        codec_tag=stream["tag"] or "",
        pixel_format=stream["format"],
        width=width,
        height=height,
        num_frames=len(durations),
        fps=float(len(durations) / duration_s) if duration_s else 0.0,
        duration_s=float(duration_s),
        color_range=color_range,
        color_space=space,
        color_primaries=primaries,
        color_transfer=transfer,
        size_bytes=path.stat().st_size,
    )


def _color_tags(text: str) -> tuple[str, str, str, str]:
    """(range, space, primaries, transfer) of ffmpeg's "tv, bt2020nc/bt2020/bt2020-10, progressive"; "" if
    untagged."""
    color_range = ""
    space = primaries = transfer = ""
    for part in text.split(", "):
        if part in ("tv", "pc"):
            color_range = part
        elif part.count("/") == 2:
            space, primaries, transfer = part.split("/")
        elif part.startswith(("bt", "smpte", "gbr", "ycgco", "fcc", "ictcp", "chroma-derived")):
            space = primaries = transfer = part  # ffmpeg writes one name when the three agree
    return color_range, space, primaries, transfer
