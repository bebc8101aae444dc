"""The encoder: what the file is, that its bytes repeat, and every way in which ffmpeg can fail."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.stages.clips import decoded_planes, moving_texture, write_clip
from veo_cli import ffmpeg
from veo_cli.errors import DiskFull, EncodeFailed, FfmpegMissing
from veo_cli.job import EncodeSettings
from veo_cli.stages.to_yuv import to_yuv
from veo_cli.stages.video_encode import PngWriter, VideoEncoder, png_folder, setting_faults, size_faults
from veo_cli.values import FrameChunk, YuvFrame

WIDTH, HEIGHT, FRAMES = 96, 64, 5


@pytest.fixture(scope="module")
def texture() -> torch.Tensor:
    return moving_texture(FRAMES, HEIGHT, WIDTH)


@pytest.fixture
def fresh_ffmpeg():
    """Nothing remembered of the ffmpegs found, before and after."""
    caches = (ffmpeg.ffmpegs, ffmpeg.ffmpeg_version, ffmpeg.filters, ffmpeg.probe_encoder)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize(
    ("settings", "profile", "tag", "pixel_format"),
    [
        ({}, "Main 10", "hvc1", "yuv420p10le"),
        ({"color": "bt2020"}, "Main 10", "hvc1", "yuv420p10le"),
        ({"lossless": True}, "Main 10", "hvc1", "yuv420p10le"),
        ({"bitrate": "2M", "tune": "grain", "codec_preset": "fast"}, "Main 10", "hvc1", "yuv420p10le"),
        ({"chroma": "444", "crf": 30}, "Rext", "hvc1", "yuv444p10le"),
        ({"codec": "h264"}, "High", "avc1", "yuv420p"),
        ({"codec": "h264", "chroma": "444"}, "High 4:4:4 Predictive", "avc1", "yuv444p"),
    ],
)
def test_file_is_what_the_settings_say(tmp_path, texture, settings, profile, tag, pixel_format):
    facts = write_clip(tmp_path / "clip.mp4", texture, **settings)
    assert (facts.profile, facts.codec_tag, facts.pixel_format) == (profile, tag, pixel_format)
    assert facts.codec == settings.get("codec", "hevc")
    assert (facts.width, facts.height, facts.num_frames) == (WIDTH, HEIGHT, FRAMES)
    assert facts.fps == 24 and facts.duration_s == pytest.approx(FRAMES / 24)
    assert facts.color_range == "tv"
    assert facts.color_space == ("bt2020nc" if settings.get("color") == "bt2020" else "bt709")
    assert facts.size_bytes == (tmp_path / "clip.mp4").stat().st_size
    assert [path.name for path in tmp_path.iterdir()] == ["clip.mp4"]


def test_index_is_at_the_front_and_chroma_tagged_left(tmp_path, texture):
    clip = tmp_path / "clip.mp4"
    write_clip(clip, texture)
    data = clip.read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")
    shown = subprocess.run(
        [str(ffmpeg.ffmpegs()[-1]), "-hide_banner", "-v", "verbose", "-i", f"file:{clip}"],
        capture_output=True,
        text=True,
    ).stderr
    assert re.search(r"yuv420p10le\(tv, bt709, [^)]*left\)", shown)


def test_the_same_frames_give_the_same_bytes(tmp_path, texture):
    for settings in ({}, {"codec": "h264"}):
        clips = [tmp_path / name for name in ("first.mp4", "second.mp4")]
        for clip in clips:
            write_clip(clip, texture, **settings)
            time.sleep(1.01)  # a creation time would show
        assert clips[0].read_bytes() == clips[1].read_bytes()


@pytest.mark.parametrize("size", [(16, 16), (17, 31), (33, 18)])
def test_small_and_odd_sizes_in_444(tmp_path, size):
    frames = moving_texture(3, *size)
    facts = write_clip(tmp_path / "clip.mp4", frames, chroma="444", lossless=True)
    assert (facts.height, facts.width) == size
    stored = decoded_planes(tmp_path / "clip.mp4", facts)
    fed = list(to_yuv(FrameChunk(frames, 0), chroma="444"))
    assert all((stored[0][index] == frame.y).all() for index, frame in enumerate(fed))


@pytest.mark.parametrize("width", [18, 34, 40, 48, 62])
def test_narrow_pictures(tmp_path, width):
    """x265 4.3 dies of a corrupt heap on some of these widths with its usual block size."""
    assert write_clip(tmp_path / "clip.mp4", moving_texture(3, 34, width)).width == width


def test_smallest_size_and_one_frame(tmp_path):
    facts = write_clip(tmp_path / "clip.mp4", moving_texture(1, 16, 16))
    assert (facts.width, facts.height, facts.num_frames) == (16, 16, 1)
    assert facts.duration_s == pytest.approx(1 / 24)


@pytest.mark.parametrize(
    ("fps", "exact"), [(23.976, 24000 / 1001), (29.97, 30000 / 1001), (12.5, 12.5), (7.3, 7.3), (240, 240)]
)
def test_frame_rates(tmp_path, fps, exact):
    facts = write_clip(tmp_path / "clip.mp4", moving_texture(3, 16, 16), fps=fps, codec_preset="ultrafast")
    assert facts.fps == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("name", ["a:b.mp4", "100% %03d.mp4", "-y.mp4", "'quo\"te'.mp4", "灯塔 🎬.mp4"])
def test_any_file_name(tmp_path, name):
    folder = tmp_path / f"in {name}"
    write_clip(folder / name, moving_texture(2, 16, 16), codec_preset="ultrafast")
    assert [path.name for path in folder.iterdir()] == [name]


def test_eight_bit_h264_keeps_the_mean(tmp_path):
    """A level between two 8-bit codes is dithered, not rounded away."""
    level = (4 * 100 + 1 - 64) / 876
    frames = torch.full((2, 3, 32, 32), level)
    facts = write_clip(tmp_path / "clip.mp4", frames, codec="h264", lossless=True)
    raw = subprocess.run(
        [str(ffmpeg.ffmpegs()[-1]), "-v", "error", "-i", str(tmp_path / "clip.mp4"), "-f", "rawvideo", "-"],
        capture_output=True,
    ).stdout
    luma = np.frombuffer(raw, np.uint8)[: facts.width * facts.height]
    assert set(luma) == {100, 101} and luma.mean() == 100.25


def test_odd_sizes_are_refused_for_420():
    faults = size_faults(EncodeSettings(), 1365, 767)
    assert [fault.where for fault in faults] == ["width", "height"]
    assert "1364 or 1366" in faults[0].fix and "chroma: 444" in faults[0].fix
    assert size_faults(EncodeSettings(chroma="444"), 1365, 767) == []
    assert size_faults(EncodeSettings(), 1366, 768) == []


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"crf": 20, "bitrate": "5M"}, "encode.bitrate"),
        ({"crf": 20, "lossless": True}, "encode.lossless"),
        ({"codec": "h264", "encoder": "libx265"}, "encode.encoder"),
        ({"codec": "hevc", "encoder": "libx264"}, "encode.encoder"),
        ({"encoder": "hevc_nvenc", "tune": "grain"}, "encode.tune"),
    ],
)
def test_contradicting_settings(settings, field):
    assert [fault.where for fault in setting_faults(EncodeSettings(**settings))] == [field]


@pytest.mark.parametrize("bitrate", ["20X", "-1", "0", "0.0M", "M", ""])
def test_a_bitrate_that_means_nothing(bitrate):
    (fault,) = setting_faults(EncodeSettings(bitrate=bitrate))
    assert fault.where == "encode.bitrate"


@pytest.mark.parametrize("bitrate", ["20M", "800k", "1.5G", "64000"])
def test_bitrates_as_ffmpeg_writes_them(bitrate):
    assert setting_faults(EncodeSettings(bitrate=bitrate)) == []


def test_settings_in_agreement():
    for settings in ({}, {"crf": 20}, {"bitrate": "5M"}, {"lossless": True}, {"encoder": "libx265"}):
        assert setting_faults(EncodeSettings(**settings)) == []


def test_frames_out_of_place_are_a_bug(tmp_path, texture):
    frames = list(to_yuv(FrameChunk(texture, 0)))
    encoder = VideoEncoder(
        tmp_path / "a.part", EncodeSettings(), width=WIDTH, height=HEIGHT, fps=24, num_frames=2
    )
    try:
        with pytest.raises(ValueError, match="where 0"):
            encoder.write(frames[1])
        encoder.write(frames[0])
        encoder.write(frames[1])
        with pytest.raises(ValueError, match="of 2"):
            encoder.write(frames[2])
    finally:
        encoder.abort()
    assert list(tmp_path.iterdir()) == []


def noisy_frames(count: int, height: int, width: int):
    """Frames that no encoder makes small."""
    random = np.random.default_rng(0)
    for index in range(count):
        planes = [random.integers(64, 940, (height, width), dtype=np.uint16) for _ in range(3)]
        yield YuvFrame(*planes, index=index, chroma="444")


def feed(encoder: VideoEncoder, count: int) -> None:
    for frame in noisy_frames(count, encoder.height, encoder.width):
        encoder.write(frame)
    encoder.finish()


def big_encoder(part: Path, **settings: object) -> VideoEncoder:
    encode = EncodeSettings(
        chroma="444", lossless=True, codec_preset="ultrafast", tune="zerolatency", **settings
    )
    return VideoEncoder(part, encode, width=256, height=256, fps=24, num_frames=100_000)


@pytest.mark.parametrize("moment", ["before the first frame", "between frames", "at the end"])
def test_a_killed_ffmpeg_is_an_encode_failure_with_the_signal(tmp_path, moment):
    part = tmp_path / "clip.mp4.part"
    encoder = big_encoder(part)
    frames = noisy_frames(40, 256, 256)
    with pytest.raises(EncodeFailed, match="killed by SIGKILL") as caught:
        if moment != "before the first frame":
            encoder.write(next(frames))
        if moment != "at the end":
            os.kill(encoder._pipe._process.pid, signal.SIGKILL)
            for frame in frames:
                encoder.write(frame)
        else:
            os.kill(encoder._pipe._process.pid, signal.SIGKILL)
        encoder.finish()
    assert caught.value.transient
    encoder.abort()
    encoder.abort()
    assert list(tmp_path.iterdir()) == []


def test_ffmpeg_s_own_words_are_in_the_error(tmp_path, texture):
    part = tmp_path / "folder" / "clip.mp4.part"
    part.mkdir(parents=True)  # ffmpeg cannot write a file here
    (part / "x").touch()
    encode = EncodeSettings()
    with pytest.raises(Exception) as caught:
        encoder = VideoEncoder(part, encode, width=WIDTH, height=HEIGHT, fps=24, num_frames=FRAMES)
        try:
            for frame in to_yuv(FrameChunk(texture, 0)):
                encoder.write(frame)
            encoder.finish()
        finally:
            encoder.abort()
    assert "director" in str(caught.value).lower()


def fake_ffmpeg(folder: Path, script: str) -> Path:
    """A program that passes for ffmpeg in the probe and does `script` when it is to read frames."""
    program = folder / "ffmpeg"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *rawvideo*) {script};; *) exec \'{ffmpeg.ffmpegs()[-1]}\' "$@";; esac\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_no_space_left_as_ffmpeg_says_it(tmp_path, monkeypatch, fresh_ffmpeg):
    complaint = "av_interleaved_write_frame(): No space left on device"
    program = fake_ffmpeg(tmp_path, f"head -c 300000 >/dev/null; echo '{complaint}' >&2; exit 228")
    ffmpeg.ffmpegs.cache_clear()
    monkeypatch.setenv("VEO_FFMPEG", str(program))
    encoder = big_encoder(tmp_path / "out" / "clip.mp4.part")
    with pytest.raises(DiskFull, match="No space left on device"):
        feed(encoder, 40)
    encoder.abort()


def test_reasons_of_a_failing_ffmpeg(tmp_path, monkeypatch, fresh_ffmpeg):
    program = fake_ffmpeg(tmp_path, "echo 'x265 [error]: out of cheese' >&2; exit 9")
    ffmpeg.ffmpegs.cache_clear()
    monkeypatch.setenv("VEO_FFMPEG", str(program))
    encoder = big_encoder(tmp_path / "out" / "clip.mp4.part")
    with pytest.raises(EncodeFailed, match=r"exit code 9 .*out of cheese"):
        feed(encoder, 40)
    encoder.abort()


@pytest.mark.parametrize("frames", [0, 40])
def test_a_hanging_ffmpeg_is_killed(tmp_path, monkeypatch, fresh_ffmpeg, frames):
    program = fake_ffmpeg(tmp_path, "exec sleep 600")
    ffmpeg.ffmpegs.cache_clear()
    monkeypatch.setenv("VEO_FFMPEG", str(program))
    monkeypatch.setattr(ffmpeg, "STALL_TIMEOUT_S", 1.0)
    encoder = big_encoder(tmp_path / "out" / "clip.mp4.part")
    with pytest.raises(EncodeFailed, match="hangs"):
        feed(encoder, frames)
    assert encoder._pipe._process.poll() is not None
    encoder.abort()


def test_a_full_disk(tmp_path):
    """The real thing, on a file system of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting needs root")
    try:
        encoder = big_encoder(disk / "clip.mp4.part")
        with pytest.raises(DiskFull):
            feed(encoder, 40)
        encoder.abort()
        assert list(disk.iterdir()) == []
        pngs = PngWriter(disk / "clip.mp4", 256, 256)
        with pytest.raises(DiskFull):
            pngs.write(FrameChunk(torch.rand((4, 3, 256, 256)), 0))
            pngs.finish()
        pngs.abort()
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_abort_from_another_thread_ends_a_blocked_write(tmp_path, monkeypatch, fresh_ffmpeg):
    program = fake_ffmpeg(tmp_path, "exec sleep 600")
    ffmpeg.ffmpegs.cache_clear()
    monkeypatch.setenv("VEO_FFMPEG", str(program))
    encoder = big_encoder(tmp_path / "out" / "clip.mp4.part")
    failures: list[BaseException] = []

    def write() -> None:
        try:
            feed(encoder, 40)
        except EncodeFailed as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    time.sleep(0.3)
    encoder.abort()
    thread.join(timeout=5)
    assert not thread.is_alive() and len(failures) == 1


def test_ctrl_c_at_the_terminal_does_not_reach_ffmpeg(tmp_path):
    encoder = big_encoder(tmp_path / "clip.mp4.part")
    try:
        assert os.getpgid(encoder._pipe._process.pid) != os.getpgid(0)
    finally:
        encoder.abort()


def test_an_older_part_file_is_replaced_not_written_into(tmp_path):
    part = tmp_path / "clip.mp4.part"
    part.write_bytes(b"left by a killed run")
    with part.open("rb") as old:
        with VideoEncoder(part, EncodeSettings(), width=16, height=16, fps=24, num_frames=2) as encoder:
            for frame in to_yuv(FrameChunk(moving_texture(2, 16, 16), 0)):
                encoder.write(frame)
            encoder.finish()
        assert old.read() == b"left by a killed run"


def test_png16_holds_the_delivered_frames(tmp_path, texture):
    clip = tmp_path / "50% done.mp4"
    for _ in range(2):  # a second render replaces the folder
        writer = PngWriter(clip, WIDTH, HEIGHT)
        for index in range(FRAMES):
            writer.write(FrameChunk(texture[index : index + 1], index))
        writer.finish()
        assert not png_folder(clip).exists() or len(list(png_folder(clip).iterdir())) == FRAMES
        writer.publish()
    folder = tmp_path / "50% done_frames"
    assert sorted(path.name for path in folder.iterdir()) == [f"{index:06}.png" for index in range(FRAMES)]
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    picture = folder / "000003.png"
    assert picture.read_bytes()[24] == 16  # bit depth in IHDR
    with Image.open(picture) as opened:
        assert opened.size == (WIDTH, HEIGHT)
    raw = subprocess.run(
        [
            str(ffmpeg.ffmpegs()[-1]),
            "-v",
            "error",
            "-i",
            str(picture),
            "-f",
            "rawvideo",
            "-pix_fmt",
            "rgb48le",
            "-",
        ],
        capture_output=True,
    ).stdout
    codes = np.frombuffer(raw, "<u2").reshape(HEIGHT, WIDTH, 3)
    assert (codes == np.rint(texture[3].permute(1, 2, 0).numpy() * np.float32(65535))).all()


def test_an_aborted_png_folder_leaves_nothing(tmp_path, texture):
    writer = PngWriter(tmp_path / "clip.mp4", WIDTH, HEIGHT)
    writer.write(FrameChunk(texture, 0))
    writer.abort()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_probe_says_why_an_encoder_does_not_work():
    program = ffmpeg.ffmpegs()[-1]
    assert ffmpeg.probe_encoder("libx265", program).works
    assert ffmpeg.probe_encoder("libx265", program).encoder_version
    unknown = ffmpeg.probe_encoder("libx267", program)
    assert not unknown.works and "libx267" in unknown.why


def test_fallback_is_said(monkeypatch):
    def probe(name: str, program: Path, pixel_format: str) -> ffmpeg.EncoderProbe:
        works = name == "hevc_nvenc"
        return ffmpeg.EncoderProbe(name, program, "9", works, "" if works else "Unknown encoder 'libx265'")

    monkeypatch.setattr(ffmpeg, "probe_encoder", probe)
    chosen = ffmpeg.choose_encoder(EncodeSettings())
    assert chosen.probe.encoder == "hevc_nvenc"
    assert "libx265 does not work here" in chosen.note and "Unknown encoder" in chosen.note


def test_no_working_encoder_lists_every_reason(monkeypatch):
    monkeypatch.setattr(
        ffmpeg,
        "probe_encoder",
        lambda name, program, pixel_format: ffmpeg.EncoderProbe(
            name, program, "9", False, f"no {name} today"
        ),
    )
    with pytest.raises(FfmpegMissing, match=r"no libx265 today.*no hevc_nvenc today"):
        ffmpeg.choose_encoder(EncodeSettings())


def test_no_ffmpeg_at_all(monkeypatch, fresh_ffmpeg):
    monkeypatch.setenv("VEO_FFMPEG", "/nowhere/ffmpeg")
    with pytest.raises(FfmpegMissing, match="VEO_FFMPEG"):
        ffmpeg.ffmpegs()


def test_a_file_that_is_no_video(tmp_path):
    path = tmp_path / "clip.mp4"
    path.write_text("not a video")
    with pytest.raises(EncodeFailed, match="cannot be read back"):
        ffmpeg.read_back(path)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("tv, bt709, progressive, left", ("tv", "bt709", "bt709", "bt709")),
        ("tv, bt2020nc/bt2020/bt2020-10, progressive", ("tv", "bt2020nc", "bt2020", "bt2020-10")),
        ("pc", ("pc", "", "", "")),
        ("progressive", ("", "", "", "")),
        ("tv, bt709/unknown/unknown, progressive", ("tv", "bt709", "unknown", "unknown")),
    ],
)
def test_color_tags_are_read(text, tags):
    assert ffmpeg._color_tags(text) == tags
