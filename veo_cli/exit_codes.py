"""The process exit codes of every `veo` command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a shell, `xargs` or cron can rely on. Where several apply: 3, then 130/143, then 4, then 5, then 1."""

    OK = 0  # everything asked for is done
    JOB_FAILED = 1  # some job failed; the others are done
    USAGE = 2  # the command line or a prompt file is wrong; nothing was started
    BUG = 3  # a fault of veo itself
    ENVIRONMENT = 4  # no ffmpeg, no memory, no disk, no model: nothing further can run
    DEADLINE = 5  # stopped at the deadline; running the same command goes on
    INTERRUPTED = 130  # SIGINT; running the same command goes on
    TERMINATED = 143  # SIGTERM; running the same command goes on
