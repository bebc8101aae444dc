"""Y'CbCr frames to a clip, through an ffmpeg that reads raw planes from its stdin.

The file grows under a temporary name and gets its own by `publish`. Nothing in it depends on the clock, the
thread count or the machine (no creation time, no encoder banner): the same frames and versions give the same
bytes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from veo_cli import durable_file
from veo_cli.errors import DiskFull, EncodeFailed, Fault
from veo_cli.ffmpeg import (
    ENCODERS,
    ChosenEncoder,
    FfmpegPipe,
    choose_encoder,
    compile_command,
    ffmpegs,
    file_url,
    frame_rate,
    read_back,
)
from veo_cli.job import EncodeSettings
from veo_cli.values import ClipFacts, FrameChunk, YuvFrame

if TYPE_CHECKING:
    import numpy as np

DEFAULT_CRF = 18.0
BITRATE = r"(?=.*[1-9])\d+(\.\d+)?[kKmMgG]?"  # more than nothing, in bits a second
MAX_ENCODER_THREADS = 16  # x265 gains nothing beyond, and takes memory for each
PNG_END = b"IEND\xaeB`\x82"  # the last chunk's name and checksum
NARROW = 64  # pixels; x265 4.3 corrupts its heap on pictures 33 to 49 wide unless its blocks are 16 pixels
FRAME_THREADS = 4  # fixed: encoders derive it from the machine's cores, and their search depends on it

# What ffmpeg calls the tags of each `color`: space (matrix), primaries, transfer. Range is always limited
# ("tv").
COLOR_TAGS = {
    "bt709": ("bt709", "bt709", "bt709"),
    "bt2020": ("bt2020nc", "bt2020", "bt2020-10"),
}
NVENC_PRESETS = {
    "ultrafast": "p1",
    "superfast": "p1",
    "veryfast": "p2",
    "faster": "p3",
    "fast": "p4",
    "medium": "p5",
    "slow": "p6",
    "slower": "p7",
    "veryslow": "p7",
    "placebo": "p7",
}


def pixel_format(settings: EncodeSettings) -> str:
    """Of the written file: 10 bit for HEVC; 8 bit for H.264, whose 10-bit profiles few players decode."""
    return f"yuv{settings.chroma}p" + ("10le" if settings.codec == "hevc" else "")


def codec_tag(settings: EncodeSettings) -> str:
    """The MP4 sample entry: hvc1 (parameter sets in the header), which QuickTime needs where hev1 fails."""
    return "hvc1" if settings.codec == "hevc" else "avc1"


def size_faults(settings: EncodeSettings, width: int, height: int) -> list[Fault]:
    """Why a clip of width x height cannot be encoded so; `where` is the field. Odd sizes have no 4:2:0 chroma
    plane.

    Nothing is rescaled silently: the prompt file says which even size, or 4:4:4.
    """
    if settings.chroma == "444":
        return []
    faults = []
    for field, side in (("width", width), ("height", height)):
        if side % 2:
            faults.append(
                Fault(
                    f"{field} {side} is odd, and 4:2:0 video stores chroma for pairs of pixels",
                    where=field,
                    fix=f"use {field}: {side - 1} or {side + 1}, or encode.chroma: 444",
                )
            )
    return faults


def setting_faults(settings: EncodeSettings) -> list[Fault]:
    """Encode settings that mean nothing or contradict each other; `where` is the field."""
    faults = []
    quality = [name for name in ("crf", "bitrate") if getattr(settings, name) is not None]
    if settings.lossless:
        quality.append("lossless")
    if len(quality) > 1:
        names = " and ".join(quality)
        faults.append(
            Fault(f"{names} exclude each other", where=f"encode.{quality[-1]}", fix="keep one of them")
        )
    if settings.bitrate is not None and not re.fullmatch(BITRATE, settings.bitrate):
        what = f"encode.bitrate: {settings.bitrate!r} is not a bitrate"
        faults.append(Fault(what, where="encode.bitrate", fix="write, say, bitrate: 20M, or 800k"))
    if settings.encoder != "auto" and settings.encoder not in ENCODERS[settings.codec]:
        fitting = " or ".join(ENCODERS[settings.codec])
        faults.append(
            Fault(
                f"{settings.encoder} does not write {settings.codec}",
                where="encode.encoder",
                fix=f"use encoder: {fitting}, or auto",
            )
        )
    if settings.encoder == "hevc_nvenc" and settings.tune is not None:
        faults.append(Fault("hevc_nvenc knows no tune", where="encode.tune", fix="leave tune out"))
    return faults


class VideoEncoder:
    """One clip being written to `part`. As a context manager it aborts when the block raises.

    The frames are num_frames `YuvFrame`s of width x height in order, 10 bit, chroma as in the settings.
    For h264 the two lost bits are dithered away (2x2 ordered, mean preserved) so that gradients do not band.
    """

    def __init__(
        self,
        part: Path,
        settings: EncodeSettings,
        *,
        width: int,
        height: int,
        fps: float,
        num_frames: int,
    ) -> None:
        self.part = part
        self.settings = settings
        self.width, self.height = width, height
        self.num_frames = num_frames
        self.chosen: ChosenEncoder = choose_encoder(settings, pixel_format(settings))
        self._next_index = 0
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            # A file of an ffmpeg that outlived a killed run keeps its own inode: it cannot write into ours.
            part.unlink(missing_ok=True)
        except OSError as error:
            raise durable_file.as_veo_error(error, part) from error
        self._pipe = FfmpegPipe(self.command(fps))

    @property
    def description(self) -> str:
        """The encoder with its version and ffmpeg's."""
        return self.chosen.probe.description

    @property
    def note(self) -> str:
        """A fallback to be said once, or ""."""
        return self.chosen.note

    def command(self, fps: float) -> list[str]:
        """The ffmpeg command line."""
        import ffmpeg as graph

        tags = _tag_arguments(self.settings)
        rate = frame_rate(fps)
        source = graph.input(
            "pipe:0",
            format="rawvideo",
            pix_fmt=pixel_format(self.settings),
            s=f"{self.width}x{self.height}",
            framerate=f"{rate.numerator}/{rate.denominator}",
            **tags,
        )
        output = source.output(
            file_url(self.part),
            format="mp4",
            movflags="+faststart",
            fflags="+bitexact",
            **{"flags:v": "+bitexact", "tag:v": codec_tag(self.settings), "map_metadata": -1},
            **tags,
            **encoder_arguments(self.settings, self.chosen.probe.encoder, self.width),
        )
        return compile_command(output, self.chosen.probe.ffmpeg)

    def write(self, frame: YuvFrame) -> None:
        """Raises EncodeFailed or DiskFull with ffmpeg's reason, and ValueError for a frame out of place."""
        if frame.index != self._next_index or frame.index >= self.num_frames:
            raise ValueError(f"frame {frame.index} where {self._next_index} of {self.num_frames} was to come")
        if frame.chroma != self.settings.chroma or frame.y.shape != (self.height, self.width):
            raise ValueError(f"a {frame.y.shape} {frame.chroma} frame for a {self.width}x{self.height} clip")
        for plane in (frame.y, frame.cb, frame.cr):
            self._pipe.write(as_bytes(plane if self.settings.codec == "hevc" else _to_8_bit(plane)))
        self._next_index += 1

    def finish(self) -> ClipFacts:
        """Wait until the file is whole and read it back. Raises EncodeFailed or DiskFull."""
        self._pipe.finish()
        if not self.part.exists():
            raise EncodeFailed("ffmpeg ended without a file", where=str(self.part))
        return read_back(self.part, self.chosen.probe.ffmpeg)

    def publish(self, final: Path) -> None:
        """fsync the file and give it its final name."""
        durable_file.publish(self.part, final)

    def abort(self) -> None:
        """Stop ffmpeg and remove the unfinished file. Safe to call twice, and from another thread."""
        self._pipe.kill()
        with contextlib.suppress(OSError):
            self.part.unlink(missing_ok=True)

    def __enter__(self) -> VideoEncoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()


def encoder_arguments(settings: EncodeSettings, encoder: str, width: int) -> dict[str, Any]:
    """ffmpeg's output options for quality, speed and structure."""
    arguments: dict[str, Any] = {"c:v": encoder}
    crf = settings.crf
    if crf is None and settings.bitrate is None and not settings.lossless:
        crf = DEFAULT_CRF
    if settings.bitrate is not None:
        arguments["b:v"] = settings.bitrate

    if encoder == "hevc_nvenc":
        arguments["preset"] = NVENC_PRESETS[settings.codec_preset]
        arguments["tune"] = "lossless" if settings.lossless else "hq"
        if crf is not None:
            arguments |= {"rc": "vbr", "cq": crf, "b:v": 0}
        return arguments

    arguments["preset"] = settings.codec_preset
    if settings.tune is not None:
        arguments["tune"] = settings.tune
    if crf is not None:
        arguments["crf"] = crf
    if encoder == "libx265":
        space, primaries, transfer = COLOR_TAGS[settings.color]
        parameters = {
            "log-level": "error",
            "info": 0,  # x265 would write its version and thread count into the stream
            "open-gop": 0,
            "range": "limited",
            "colorprim": primaries,
            "transfer": transfer,
            "colormatrix": space,
            "frame-threads": FRAME_THREADS,
        }
        if hasattr(os, "sched_getaffinity"):  # the cores we may use, which in a container are not all
            parameters["pools"] = min(len(os.sched_getaffinity(0)), MAX_ENCODER_THREADS)
        if settings.lossless:
            parameters["lossless"] = 1
        if width < NARROW:
            parameters["ctu"] = 16
        arguments["x265-params"] = ":".join(f"{name}={value}" for name, value in parameters.items())
        if settings.chroma == "420":
            arguments["profile:v"] = "main10"
    else:
        if settings.lossless:
            arguments["qp"] = 0
        arguments["threads"] = FRAME_THREADS
        arguments["x264-params"] = "open-gop=0"
    return arguments


def _tag_arguments(settings: EncodeSettings) -> dict[str, str]:
    """Said of the input and of the output: newer ffmpegs tag from the frames, older ones from the options."""
    space, primaries, transfer = COLOR_TAGS[settings.color]
    tags = {"color_range": "tv", "colorspace": space, "color_primaries": primaries, "color_trc": transfer}
    if settings.chroma == "420":
        tags["chroma_sample_location"] = "left"
    return tags


def as_bytes(plane: Any) -> memoryview:
    """A host plane (height, width) as little-endian bytes; no copy where it is C-contiguous already."""
    import numpy as np

    dtype = plane.dtype.newbyteorder("<")
    return np.ascontiguousarray(plane, dtype=dtype).data.cast("B")


def _to_8_bit(plane: Any) -> np.ndarray:
    """10-bit codes (height, width) uint16 -> 8-bit codes uint8: the mean of a flat area stays exact."""
    import numpy as np

    thresholds = np.array([[0, 2], [3, 1]], dtype=np.uint16)
    height, width = plane.shape
    tiled = np.tile(thresholds, (-(-height // 2), -(-width // 2)))[:height, :width]
    return ((np.asarray(plane) + tiled) >> 2).astype(np.uint8)


class PngWriter:
    """`frames: png16`: a folder NAME_frames of 16-bit RGB PNGs, 000000.png on, beside the clip NAME.mp4.

    The values are those of the delivered RGB frames before Y'CbCr: gamma-coded BT.709, full range,
    round(65535 x).
    """

    def __init__(self, final: Path, width: int, height: int) -> None:
        import ffmpeg as graph

        self.folder = png_folder(final)
        self._num_frames = 0
        self._frame_bytes = 6 * width * height
        self._part = self.folder.with_name(self.folder.name + ".part")
        try:
            shutil.rmtree(self._part, ignore_errors=True)
            self._part.mkdir(parents=True)
        except OSError as error:
            raise durable_file.as_veo_error(error, self._part) from error
        source = graph.input(
            "pipe:0", format="rawvideo", pix_fmt="rgb48le", s=f"{width}x{height}", framerate=24
        )
        # The folder is the working directory, not part of the name: a % in it would be taken for a pattern.
        output = source.output(
            "%06d.png",
            format="image2",
            start_number=0,
            fflags="+bitexact",
            pix_fmt="rgb48be",
            **{"c:v": "png", "flags:v": "+bitexact"},
        )
        self._pipe = FfmpegPipe(compile_command(output, ffmpegs()[0].absolute()), cwd=self._part)

    def write(self, chunk: FrameChunk) -> None:
        """chunk.frames: (num_frames, 3, height, width), float, in [0, 1]."""
        import torch

        for frame in chunk.frames:
            # int32 on the way: torch rounds in float and converts to uint16 through it on every device.
            codes = frame.to(torch.float32).clamp(0, 1).mul(65535).round().to(torch.int32)
            self._num_frames += 1
            self._pipe.write(as_bytes(codes.permute(1, 2, 0).cpu().numpy().astype("<u2")))

    def finish(self) -> None:
        """Wait for the last picture. Raises EncodeFailed or DiskFull."""
        self._pipe.finish()
        # Some ffmpegs do not notice that a picture could not be written.
        for index in range(self._num_frames):
            picture = self._part / f"{index:06}.png"
            if not _is_whole_png(picture):
                full = shutil.disk_usage(self._part).free < self._frame_bytes
                kind = DiskFull if full else EncodeFailed
                raise kind(f"picture {index} was not written whole", where=str(picture))

    def publish(self) -> None:
        """fsync the pictures and give the folder its name; one of that name is replaced."""
        try:
            for picture in self._part.iterdir():
                descriptor = os.open(picture, os.O_RDONLY)
                try:
                    durable_file.fsync(descriptor)
                finally:
                    os.close(descriptor)
            if self.folder.is_dir():
                shutil.rmtree(self.folder)
            durable_file.rename(self._part, self.folder)
            durable_file.sync_folder(self.folder.parent)
        except OSError as error:
            raise durable_file.as_veo_error(error, self.folder) from error

    def abort(self) -> None:
        """Stop ffmpeg and remove the unfinished folder. Safe to call twice."""
        self._pipe.kill()
        shutil.rmtree(self._part, ignore_errors=True)


def _is_whole_png(picture: Path) -> bool:
    try:
        with picture.open("rb") as file:
            file.seek(-len(PNG_END), os.SEEK_END)
            return file.read() == PNG_END
    except OSError:  # missing, or shorter than the chunk
        return False


def png_folder(clip: Path) -> Path:
    """Where the PNGs of a clip go."""
    return clip.with_name(clip.stem + "_frames")
