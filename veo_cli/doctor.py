"""`veo doctor`: what works on this machine, found by trying it, and for each fault what mends it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from veo_cli.byte_size import in_words
from veo_cli.counted import counted
from veo_cli.errors import VeoError
from veo_cli.exit_codes import ExitCode
from veo_cli.terminal import Terminal

State = Literal["ok", "missing", "fault"]  # missing: veo works without it, less well
SHIPPED_MODEL = "veo-mini"
LEAST_FREE_DISK_BYTES = 2**30
LEAST_FREE_MEMORY_BYTES = 2**30
_CUPY_FIX = "install the CuPy for the driver's CUDA: pip install 'veo[cuda12]' or 'veo[cuda13]'"


@dataclass(frozen=True)
class Check:
    """One finding. `fix` is the command or edit that helps; empty when all is well or nothing can be done."""

    name: str
    state: State
    found: str
    fix: str = ""


def report(terminal: Terminal) -> ExitCode:
    """Print every check as it is made. ENVIRONMENT if `veo render` of the shipped model cannot work here."""
    code = ExitCode.OK
    for check in run_checks():
        if check.state == "fault":
            code = ExitCode.ENVIRONMENT
        if terminal.json:
            terminal.result_json(asdict(check))
            continue
        terminal.result(f"{check.state:<8}{check.name:<14}{check.found}")
        if check.fix:
            terminal.result(f"{'':<22}→ {check.fix}")
    if code is ExitCode.OK:
        terminal.note(f"`veo render` works here with {SHIPPED_MODEL}")
    else:
        terminal.note("`veo render` does not work here until the faults above are mended")
    return code


def run_checks() -> Iterator[Check]:
    """All checks in order; a check that itself breaks is a fault that says so, and the others go on."""
    checks: list[Callable[[], Iterator[Check]]] = [
        _python,
        _packages,
        _gpu,
        _kernels,
        _ffmpeg,
        _disk,
        _memory,
        _models,
        _text_encoder,
    ]
    for check in checks:
        try:
            yield from check()
        except VeoError as error:
            yield Check(
                check.__name__.strip("_").replace("_", " "), "fault", error.fault.what, error.fault.fix
            )
        except Exception as error:  # whatever is broken in a package is what doctor is asked about
            yield Check(
                check.__name__.strip("_").replace("_", " "), "fault", f"{type(error).__name__}: {error}"
            )


def _python() -> Iterator[Check]:
    # An older Python cannot even parse this package, so there is no other case.
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages() -> Iterator[Check]:
    try:
        import torch
    except Exception as error:
        yield Check("torch", "fault", f"cannot be imported: {error}", "pip install --force-reinstall torch")
    else:
        build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
        yield Check(
            "torch", "ok", f"{torch.__version__}, {build}, {counted(torch.get_num_threads(), 'thread')}"
        )
    for package in ("diffusers", "transformers"):
        try:
            yield Check(package, "ok", version(package))
        except PackageNotFoundError:
            yield Check(package, "fault", "not installed", f"pip install {package}")


def _gpu() -> Iterator[Check]:
    import torch

    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            free, total = torch.cuda.mem_get_info(index)
            capability = f"compute capability {properties.major}.{properties.minor}"
            memory = f"{in_words(free)} free of {in_words(total)}"
            yield Check(f"gpu {index}", "ok", f"{properties.name}, {capability}, {memory}")
        return
    driver = _nvidia_driver()
    if driver and not torch.version.cuda:
        fix = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu128"
        yield Check("gpu", "missing", f"a GPU is here (driver {driver}), but torch is a CPU build", fix)
    elif driver:
        fix = f"update the driver, or install a torch built for an older CUDA than {torch.version.cuda}"
        yield Check("gpu", "missing", f"driver {driver} is here, but torch cannot use it", fix)
    else:
        yield Check("gpu", "missing", "none; rendering runs on the CPU")


def _nvidia_driver() -> str:
    """The NVIDIA driver's version, or "" without one."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0].strip()


def _kernels() -> Iterator[Check]:
    import torch

    has_cupy = importlib.util.find_spec("cupy") is not None
    if not torch.cuda.is_available():
        yield Check("cupy", "missing", "not needed without a GPU: frames are converted on the CPU")
        return
    if not has_cupy:
        major = (torch.version.cuda or "12").partition(".")[0]
        yield Check(
            "cupy",
            "missing",
            "not installed; frames are converted by torch",
            f"pip install 'veo[cuda{major}]'",
        )
        return
    import cupy

    yield Check("cupy", "ok", f"{cupy.__version__}, CUDA runtime {cupy.cuda.runtime.runtimeGetVersion()}")
    from kernels_cupy import loader

    for name in loader.SOURCES:
        try:
            cupy.RawModule(code=loader.source(name), options=("-std=c++17", *loader.definitions())).compile()
        except (
            Exception
        ) as error:  # NVRTC's log is in the message, and CuPy has no one class for all that can fail
            yield Check(
                "kernels",
                "missing",
                f"{name}.cu does not compile: {str(error).partition(chr(10))[0]}",
                _CUPY_FIX,
            )
            return
    yield Check("kernels", "ok", f"{len(loader.SOURCES)} CUDA sources compile")


def _ffmpeg() -> Iterator[Check]:
    from veo_cli import ffmpeg

    programs = ffmpeg.ffmpegs()
    for program in programs:
        version_text = ffmpeg.ffmpeg_version(program)
        if version_text:
            yield Check("ffmpeg", "ok", f"{version_text}, {program}")
        else:
            yield Check("ffmpeg", "missing", f"{program} does not run", ffmpeg.INSTALL_HINT)
    has_hevc = False
    for codec, names in ffmpeg.ENCODERS.items():
        works_already = False
        for name in names:
            check = _encoder(name, programs, optional=codec != "hevc" or works_already)
            works_already |= check.state == "ok"
            has_hevc |= codec == "hevc" and check.state == "ok"
            yield check
    if not has_hevc:
        yield Check("encoding", "fault", "no encoder makes HEVC Main 10 here", ffmpeg.INSTALL_HINT)


def _encoder(name: str, programs: Sequence[Path], *, optional: bool) -> Check:
    """Whether any of the ffmpeg programs encodes a frame with it."""
    from veo_cli import ffmpeg

    probes = []
    for program in programs:
        probe = ffmpeg.probe_encoder(name, program)
        if probe.works:
            return Check(name, "ok", f"encodes 10-bit frames: {probe.description}")
        probes.append(probe)
    return Check(name, "missing", probes[0].why, "" if optional else ffmpeg.INSTALL_HINT)


def _disk() -> Iterator[Check]:
    for name, folder in (("disk", Path.cwd()), ("temporary", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free
        found = f"{in_words(free)} free in {folder}"
        if free < LEAST_FREE_DISK_BYTES:
            yield Check(name, "fault", found, f"free at least {in_words(LEAST_FREE_DISK_BYTES)} there")
        elif not os.access(folder, os.W_OK):
            yield Check(name, "missing", f"{folder} cannot be written to", "render with --output FOLDER")
        else:
            yield Check(name, "ok", found)


def _memory() -> Iterator[Check]:
    import psutil

    memory = psutil.virtual_memory()
    found = f"{in_words(memory.available)} available of {in_words(memory.total)}"
    if memory.available < LEAST_FREE_MEMORY_BYTES:
        yield Check("memory", "fault", found, "close what else uses it")
    else:
        yield Check("memory", "ok", found)


def _models() -> Iterator[Check]:
    from veo_cli.models import registry
    from veo_cli.models.model_info import ModelInfo

    for position, entry in enumerate(registry.list_models()):
        if isinstance(entry, ModelInfo):
            yield Check(
                "model", "ok", f"{entry.name}: {entry.title}, {in_words(entry.weight_bytes)}, {entry.path}"
            )
            continue
        fault = entry.fault
        why = f" ({fault.why})" if fault.why else ""
        state: State = "fault" if position == 0 else "missing"  # the shipped model comes first
        yield Check("model", state, f"{fault.where}: {fault.what}{why}", fault.fix)


def _text_encoder() -> Iterator[Check]:
    from veo_cli.models.text_encoder import MINILM_SHA256, find_minilm

    yield Check("text encoder", "ok", str(find_minilm(MINILM_SHA256)))
