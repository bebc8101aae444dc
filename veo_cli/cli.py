"""The commands of `veo`: parse, call, print. Nothing heavy is imported before a command's body runs.

Every body gets the process's Terminal as `ctx.obj`; errors are left to `error_boundary`. Annotations are not
postponed here: Typer reads them, and would have to compile each from its text.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from veo_cli.exit_codes import ExitCode
from veo_cli.terminal import QUIET, Terminal

if TYPE_CHECKING:
    from veo_cli.plan import Plan
    from veo_cli.resolve import ResolvedJob

HELP_WIDTH = 100


def _checked(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if "process_value" not in vars(parameter):
            parameter.process_value = partial(_convert_if_given, parameter, parameter.process_value)
    return parameters


def _convert_if_given(parameter: Any, convert: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """The value that Typer makes of an option, but of one that was not given as it is.

    Typer passes even those through pydantic, whose import alone costs more than all that `veo presets` does. Empty
    values are refused: they come of an unset variable, and would mean the current folder, or no option at all.
    """
    if value == "" or (isinstance(value, list | tuple) and "" in value):
        raise typer.BadParameter("it is empty; is a variable unset?", ctx=context, param=parameter)
    return convert(context, value) if value or parameter.required else value


class _Group(typer.core.TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _checked(super().get_params(ctx))


class _Command(typer.core.TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _checked(super().get_params(ctx))


app = typer.Typer(
    name="veo",
    cls=_Group,
    help="""Render video from text with diffusion models: from a prompt file to an HEVC Main10 clip.

\b
  veo render prompt.yaml            render a clip and print its path
  veo render prompts/ -o clips/     render a folder; run it again to go on where it stopped
  veo plan prompt.yaml -v           show what would be done, and where each value comes from
  veo doctor                        what works on this machine, and what to do about the rest

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 some job failed, 2 wrong
usage or prompt file, 3 a bug in veo, 4 something is missing on this machine, 5 stopped at the
deadline, 130 interrupted, 143 terminated. After 5, 130 and 143 the same command goes on.
""",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"max_content_width": HELP_WIDTH, "help_option_names": ["-h", "--help"]},
)


def _home_expanded(folder: Path | None) -> Path | None:
    """The shell leaves the ~ of `--output=~/clips` as it is; a folder named ~ would be a trap for who deletes it."""
    return Path(os.path.expanduser(folder)) if folder else None


_command = partial(app.command, cls=_Command)

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Prompt files (.yaml, .json, .txt), folders of them, globs in quotes, or - for stdin.",
        show_default=False,
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        "-p",
        metavar="NAME|PATH",
        help="A preset for all jobs, in place of the one the file names; `veo presets` lists them.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="FIELD=VALUE",
        help="Set a field of every job, above what the files say: --set seed=7 --set encode.crf=20.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Where clips, sidecars and unfinished work are kept. [default: the current folder]",
        show_default=False,
        callback=_home_expanded,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="TEMPLATE",
        help="How clips are named. [default: {stem}-{slug}-{seed}-{id}.mp4]",
        show_default=False,
    ),
]
Device = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda, or cuda:N for the N-th GPU.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line, instead of text.")]
Download = Annotated[
    bool,
    typer.Option(
        "--download",
        help="Fetch a model that is not here from the Hugging Face hub; says its licence and size.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only results, warnings and errors.")]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help="Say more; -vv shows a traceback with every error.",
        show_default=False,
    ),
]


def _terminal(ctx: typer.Context, *, verbose: int = 0, quiet: bool = False, json: bool = False) -> Terminal:
    terminal = ctx.obj
    assert isinstance(terminal, Terminal)
    terminal.verbosity = QUIET if quiet else verbose
    terminal.json = json
    return terminal


def _end(code: ExitCode) -> NoReturn:
    raise typer.Exit(int(code))


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        from veo_cli import __version__

        _terminal(ctx).result(f"veo {__version__}")
        _end(ExitCode.OK)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


def _resolve(
    terminal: Terminal,
    files: list[str],
    preset: str | None,
    settings: list[str] | None,
    output: Path | None,
    name: str | None,
    *,
    download: bool = False,
    keep_seeds: bool = False,
) -> "list[ResolvedJob]":
    """The jobs of the files; what is to be known about them is said once. keep_seeds: a run will follow."""
    from veo_cli import model_report
    from veo_cli.prompt_file import read_specs
    from veo_cli.resolve import resolve_jobs

    specs = read_specs(files, stdin=sys.stdin)
    for warning in dict.fromkeys(warning for spec in specs for warning in spec.warnings):
        terminal.warning(warning)
    resolved = resolve_jobs(
        specs,
        preset=preset,
        settings=settings or (),
        output=output,
        name_template=name,
        describe=partial(model_report.describe, terminal, download=download),
        keep_seeds=keep_seeds,
    )
    for note in dict.fromkeys(note for entry in resolved for note in entry.notes):
        terminal.note(note)
    return resolved


@_command()
def render(
    ctx: typer.Context,
    files: Files,
    preset: Preset = None,
    set_: Set = None,
    output: Output = None,
    name: Name = None,
    device: Device = "auto",
    max_vram: Annotated[
        str | None,
        typer.Option(
            "--max-vram",
            metavar="SIZE",
            help="Plan for this much GPU memory, 16GiB, not for what is free: weights that do not fit "
            "into four fifths of it wait in the host's memory. No limit on what a clip takes.",
            show_default=False,
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline",
            metavar="TIME",
            help="Stop by 06:00 (local time) or after 90m: no job starts that would not finish, the running "
            "one keeps its progress, exit 5.",
        ),
    ] = None,
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            min=0,
            metavar="N",
            help="Tries of a job whose failure may pass, with growing pauses.",
        ),
    ] = 0,
    max_jobs: Annotated[
        int | None,
        typer.Option("--max-jobs", min=1, metavar="N", help="Render at most this many clips, then end."),
    ] = None,
    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order", help="Keep the order of the files, even where models are loaded more often."
        ),
    ] = False,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Take the jobs in a random order.")] = False,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going/--fail-fast", help="After a failed job, go on with the others or end."),
    ] = True,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for another process that is writing to the output folder.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Render again what is done already, and write over existing files."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything and show the plan, as `veo plan`; render nothing."),
    ] = False,
    events: Annotated[
        Path | None,
        typer.Option(
            "--events", metavar="FILE", help="Append JSON lines about everything that happens to FILE."
        ),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics", metavar="FILE", help="Keep FILE up to date for Prometheus' textfile collector."
        ),
    ] = None,
    download: Download = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Render every job of the files and print the path of each finished clip.

    A clip that is there already, made by the very same job, is not rendered again; a job that was
    interrupted goes on from its last checkpoint. Beside each clip lies a JSON sidecar that says
    how to make it again.

    \b
    Examples:
      veo render prompt.yaml
      veo render prompts/ --output clips --preset 1080p
      veo render prompt.yaml --set seed=7 --set num_inference_steps=12
      echo 'prompt: a red boat' | veo render -
      veo render jobs/ --deadline 06:00 --events run.jsonl -q | xargs -n1 ls -l
    """
    terminal = _terminal(ctx, verbose=verbose, quiet=quiet, json=json)
    if shuffle and in_order:
        raise typer.BadParameter("it excludes --in-order", ctx=ctx, param_hint="'--shuffle'")
    from datetime import datetime

    from veo_cli import byte_size
    from veo_cli.deadline import parse_deadline

    budget_bytes = byte_size.parse(max_vram, "--max-vram") if max_vram else None
    until = parse_deadline(deadline, datetime.now()) if deadline else None
    resolved = _resolve(
        terminal, files, preset, set_, output, name, download=download, keep_seeds=not dry_run
    )
    folder = output or Path()
    if dry_run:
        from veo_cli.durable_file import require_place

        _show_plan(terminal, resolved, folder, device, force=force)
        for file in (events, metrics):
            if file is not None:
                require_place(file)
        return
    if until is not None and until.date() > datetime.now().date():
        terminal.note(f"the deadline is {until:%A %H:%M}")

    from veo_cli.batch import BatchOptions, run_batch
    from veo_cli.events import Listener, Listeners
    from veo_cli.progress import watching

    options = BatchOptions(
        output_folder=folder,
        device=device,
        retries=retries,
        force=force,
        keep_going=keep_going,
        deadline=until,
        max_jobs=max_jobs,
        in_order=in_order,
        shuffle=shuffle,
        wait_for_lock=wait,
        budget_bytes=budget_bytes,
    )
    listeners: list[Listener] = []
    if events is not None:
        from veo_cli.events_file import EventsFile

        listeners.append(EventsFile(events, terminal.warning))
    if metrics is not None:
        from veo_cli.metrics_file import MetricsFile

        listeners.append(MetricsFile(metrics, terminal.warning))
    with watching(terminal) as progress:
        code = run_batch(resolved, options, Listeners(progress, *listeners))
    _end(code)


@_command()
def plan(
    ctx: typer.Context,
    files: Files,
    preset: Preset = None,
    set_: Set = None,
    output: Output = None,
    name: Name = None,
    device: Device = "auto",
    json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Show the jobs of the files, what they need, and what is done already; render nothing.

    What a render would refuse (a file that is in the way, a disk too small, no encoder) is told with
    the exit code that the render would have.

    With -v, every value of every job with the place it comes from, and the noise level (sigma) and
    guidance of each step.

    \b
    Examples:
      veo plan prompt.yaml
      veo plan prompt.yaml -v --set noise_schedule=karras
      veo plan jobs/ --output clips --json
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    _show_plan(terminal, _resolve(terminal, files, preset, set_, output, name), output or Path(), device)


@_command()
def presets(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|PATH]", help="Show this preset's values.", show_default=False),
    ] = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """List the presets, or show the values of one and where each comes from.

    Your own presets are YAML files in ~/.config/veo/presets, or any file given by its path.

    \b
    Examples:
      veo presets
      veo presets 1080p
      veo presets ./mine.yaml --json
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    from veo_cli.presets import list_presets, load_preset

    if name is None:
        found = list_presets()
        if json:
            for preset in found:
                terminal.result_json({"name": preset.name, "description": preset.description})
        else:
            terminal.table(["PRESET", "WHAT IT IS"], [[preset.name, preset.description] for preset in found])
        return
    preset = load_preset(name)
    if json:
        terminal.result_json(
            {
                "name": preset.name,
                "description": preset.description,
                "fields": preset.fields,
                "origins": preset.origins,
            }
        )
        return
    terminal.result(f"{preset.name}: {preset.description}")
    terminal.table(
        ["FIELD", "VALUE", "FROM"],
        [[field, value, preset.origins.get(field, "")] for field, value in _flat(preset.fields)],
    )


@_command()
def models(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|PATH]", help="A model's name, hub id or folder.", show_default=False),
    ] = None,
    download: Download = False,
    json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """List the models veo knows by name, or describe one: sizes, frames, defaults, weights.

    A model is a folder in diffusers format; give its path, or its Hugging Face id if it is in the
    local cache.

    \b
    Examples:
      veo models
      veo models veo-mini
      veo models ./Wan2.1-T2V-1.3B-Diffusers --json
      veo models wan2.1-t2v-1.3b --download
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    from veo_cli import model_report

    if name is None:
        model_report.list_all(terminal)
    else:
        model_report.describe_one(terminal, name, download=download)


@_command()
def doctor(ctx: typer.Context, json: Json = False, verbose: Verbose = 0) -> None:
    """Check what works on this machine, and say for each fault what mends it.

    Looks at Python, torch, the GPU, CuPy and its kernels, every HEVC encoder (by encoding a frame
    with it), the disk and the models. Exit code 0: `veo render` works here with the model that
    ships inside; 4: it does not.

    \b
    Examples:
      veo doctor
      veo doctor --json
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    from veo_cli import doctor as checks

    _end(checks.report(terminal))


@_command()
def inspect(
    ctx: typer.Context,
    clip: Annotated[
        Path, typer.Argument(metavar="CLIP", help="A clip that veo made, or its sidecar (.json).")
    ],
    json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Print a prompt file that renders the same clip again, from the sidecar beside it.

    With --json, the whole sidecar: job, timings, checks, versions.

    \b
    Examples:
      veo inspect clips/boat-7.mp4 > again.yaml && veo render again.yaml -o again/
      veo inspect clips/boat-7.mp4 --json
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    from veo_cli.stages import sidecar

    if clip.is_dir():
        from veo_cli.errors import Fault, SpecificationError

        raise SpecificationError(Fault("it is a folder", str(clip), fix="name a clip in it"))
    record = sidecar.read(clip)
    if json:
        import json as json_module

        terminal.result_json(json_module.loads(record.to_json()))
    else:
        terminal.result(sidecar.as_prompt_yaml(record).rstrip("\n"))


@_command()
def compare(
    ctx: typer.Context,
    first: Annotated[Path, typer.Argument(metavar="A", help="The clip to judge by.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The clip that is judged, of the same size.")],
    json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Measure how far clip B is from clip A: PSNR, SSIM, VMAF and motion.

    VMAF is left out where the ffmpeg at hand is built without it.

    \b
    Examples:
      veo compare lossless.mp4 crf24.mp4
      veo compare before.mp4 after.mp4 --json
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    from dataclasses import asdict

    from veo_cli.compare import compare as measure

    figures = asdict(measure(first, second))
    if json:
        terminal.result_json(figures)
    else:
        # An absent figure: PSNR of identical clips, VMAF where it cannot be had.
        rows = [[name, "–" if value is None else _short(value)] for name, value in figures.items()]
        terminal.table(["MEASURE", "VALUE"], rows)


@_command()
def status(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An output folder of `veo render`.")],
    json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Show the jobs of an output folder: done, running, failed, stopped, waiting.

    A stopped job goes on when its `veo render` is run again; a waiting one was asked for in the last
    run and not begun. A reason too long for the terminal is cut; --json has all of it.

    \b
    Examples:
      veo status clips/
      veo status clips/ --json | grep '"failed"'
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    from dataclasses import asdict

    from veo_cli.folder_status import read_status

    jobs = read_status(_existing_folder(folder))
    if json:
        for job in jobs:
            terminal.result_json(asdict(job))
        return
    terminal.table(
        ["STATE", "JOB", "CLIP", "REASON", "KEPT"],
        [[job.state, job.job_id[:8], job.output, job.reason.partition("\n")[0], job.kept] for job in jobs],
        shrink="REASON",
    )
    counts = {
        state: sum(job.state == state for job in jobs)
        for state in ("done", "running", "failed", "stopped", "waiting")
    }
    terminal.note(", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no jobs here")


@_command()
def clean(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An output folder of `veo render`.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Remove what failed and stopped jobs left behind, after asking. Finished clips are never touched.

    What a stopped job has already sampled goes with it: that job then starts anew.

    \b
    Examples:
      veo clean clips/
      veo clean clips/ --yes
    """
    terminal = _terminal(ctx, verbose=verbose)
    from veo_cli.byte_size import in_words
    from veo_cli.folder_lock import folder_lock
    from veo_cli.folder_status import leftovers, remove

    if not leftovers(_existing_folder(folder)):
        terminal.note("nothing to remove")
        return
    with folder_lock(folder, wait=False):
        found = leftovers(folder)
        terminal.table(
            ["SIZE", "WHAT", "PATH"],
            [[in_words(item.size_bytes), item.why, str(item.path)] for item in found],
        )
        what = "it" if len(found) == 1 else f"all {len(found)}"
        if not yes and not typer.confirm(f"Remove {what}?", err=True):
            terminal.note("nothing was removed")
            return
        remove(item.path for item in found)
        terminal.note(f"removed {in_words(sum(item.size_bytes for item in found))}")


@_command()
def stats(
    ctx: typer.Context,
    events: Annotated[list[Path], typer.Argument(metavar="EVENTS", help="Files that --events wrote.")],
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Leave out what came before: 2026-01-31, 2026-01-31T06:00, or 24h.",
        ),
    ] = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Read event files: p50 and p95 by stage, availability, top errors.

    Availability is the share of ended jobs that were done; percentiles are nearest-rank, in seconds.

    \b
    Examples:
      veo stats run.jsonl
      veo stats logs/*.jsonl --since 24h --json
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    from dataclasses import asdict
    from datetime import datetime

    from veo_cli.counted import counted
    from veo_cli.deadline import parse_since
    from veo_cli.stats import compute, read_events

    found, unreadable = read_events(
        events, parse_since(since, datetime.now().astimezone()) if since else None
    )
    figures = compute(found, unreadable)
    if json:
        terminal.result_json(asdict(figures))
        return
    availability = "–" if figures.availability is None else f"{figures.availability:.2%}"
    refused = f" ({figures.refused} more refused)" if figures.refused else ""
    terminal.result(
        f"runs: {figures.runs}{refused}; clips: {figures.done} done, {figures.failed} failed, "
        f"{figures.skipped} there already; availability {availability}"
    )
    spans = {"job": figures.job_seconds, **figures.stage_seconds}
    rows = [
        [name, str(span.count), f"{span.p50:.2f}", f"{span.p95:.2f}"] for name, span in spans.items() if span
    ]
    if rows:
        terminal.table(["SECONDS", "COUNT", "P50", "P95"], rows)
    if figures.models:
        terminal.table(
            ["MODEL", "DONE", "FAILED", "FRAMES/S"],
            [
                [name, str(model.done), str(model.failed), f"{model.frames_per_second:.3f}"]
                for name, model in figures.models.items()
            ],
        )
    for code, count in figures.top_errors:
        terminal.result(f"error {code}: {count}")
    if unreadable:
        terminal.warning(f"{counted(unreadable, 'line')} could not be read and left out")


@_command()
def bench(
    ctx: typer.Context,
    what: Annotated[
        Literal["render", "kernels"],
        typer.Argument(help="Whole clips, or the CUDA kernels (NumPy's path where there is no GPU)."),
    ] = "render",
    clips: Annotated[
        int, typer.Option("--clips", min=1, metavar="N", help="Clips to measure, after a warm-up.")
    ] = 3,
    preset: Preset = None,
    set_: Set = None,
    device: Device = "auto",
    json: Json = False,
    verbose: Verbose = 0,
) -> None:
    """Measure how fast this machine renders: seconds by stage and step, memory.

    Clips are really rendered, into a folder that is thrown away. A model, size or number of steps
    of your own goes by --set or --preset. `veo bench kernels` takes none of the options but --json.

    \b
    Examples:
      veo bench
      veo bench --clips 1 --set model=wan2.1-t2v-1.3b --set num_inference_steps=4
      veo bench --preset draft --json
      veo bench kernels
    """
    terminal = _terminal(ctx, verbose=verbose, json=json)
    from veo_cli import bench as benchmark

    if what == "kernels":
        _end(benchmark.kernels(terminal))
    _end(benchmark.render(terminal, clips=clips, device=device, preset=preset, settings=set_ or ()))


def _show_plan(
    terminal: Terminal, resolved: "list[ResolvedJob]", folder: Path, device: str, *, force: bool = False
) -> None:
    """Print the plan, then raise what a render of it would refuse before it loads a model."""
    from veo_cli import plan as planning
    from veo_cli import preflight
    from veo_cli.device import likely_kind

    kind = likely_kind(device)
    found = planning.plan(resolved, folder, device=kind)
    _print_plan(terminal, found, resolved)
    jobs = zip(found.jobs, resolved, strict=True)
    todo = [entry for planned, entry in jobs if force or planned.state != "done"]
    preflight.check(todo, folder, kind, force=force, make_folders=False)


def _print_plan(terminal: Terminal, found: "Plan", resolved: "list[ResolvedJob]") -> None:
    from dataclasses import asdict

    from veo_cli import plan as planning

    if terminal.json:
        for values, entry in zip(found.as_json(), resolved, strict=True):
            terminal.result_json(values | (asdict(planning.details(entry)) if terminal.verbosity > 0 else {}))
        return
    header, rows = found.table()
    if terminal.verbosity > 0:
        for row, entry in zip(rows, resolved, strict=True):
            details = planning.details(entry)
            terminal.table(header, [row])
            terminal.result("")
            terminal.table(["FIELD", "VALUE", "FROM"], details.fields)
            if details.steps:
                steps = [
                    [
                        str(step),
                        f"{sigma:.6f}",
                        f"{guidance:g}" if guidance != 1 else "1 (not guided)",
                        str(expert),
                    ]
                    for step, sigma, guidance, expert in details.steps
                ]
                terminal.result("")
                terminal.table(["STEP", "SIGMA", "GUIDANCE", "EXPERT"], steps)
            terminal.result("")
    else:
        terminal.table(header, rows)
    for line in found.summary():
        terminal.note(line)


def _existing_folder(folder: Path) -> Path:
    if not folder.is_dir():
        from veo_cli.errors import Fault, SpecificationError

        raise SpecificationError(Fault("there is no such folder", where=str(folder)))
    return folder


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested fields as (dotted name, text) pairs."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _short(value)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
