"""Seeds of jobs that name none: drawn once for an output folder, so that a killed run finds its own work
again.

A folder keeps 32 random bytes, drawn by the operating system, in `.veo/seed_salt`; a job's seed is a hash
of them, of the job and of how many equal jobs came before it. So the same command makes the same clips, in
another folder others.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from veo_cli import durable_file
from veo_cli.errors import DiskFull, EnvironmentFault
from veo_cli.journal import STATE_FOLDER

SALT_FILE = "seed_salt"
_SALT_BYTES = 32
_SEED_BITS = 32  # short enough to read and type


class DrawnSeeds:
    """Reads the folder's salt, or draws one; `save` keeps a drawn one for the next run (a plan does not)."""

    def __init__(self, output_folder: Path) -> None:
        self._path = output_folder / STATE_FOLDER / SALT_FILE
        self._salt = self._read()
        self._drawn = self._salt is None
        self._uses: dict[str, int] = {}

    @property
    def are_kept(self) -> bool:
        """Whether the folder has the salt: then the next run draws the same seeds."""
        return not self._drawn

    def seed_of(self, identity: str) -> int:
        """A seed in [0, 2^32) for a job whose other settings are `identity`; equal jobs get others."""
        if self._salt is None:
            self._salt = os.urandom(_SALT_BYTES)
        number = self._uses.get(identity, 0)
        self._uses[identity] = number + 1
        digest = hashlib.sha256(self._salt + number.to_bytes(8, "little") + identity.encode()).digest()
        return int.from_bytes(digest[: _SEED_BITS // 8], "little")

    def save(self) -> bool:
        """Write a salt that was drawn and used. False if another run has just written its own: then the seeds
        drawn here are not the folder's, and are to be drawn again.
        """
        if not self._drawn or self._salt is None:
            return True
        own = self._path.with_name(f"{SALT_FILE}.{os.getpid()}")
        try:
            durable_file.replace(own, self._salt)
        except DiskFull:
            raise
        except EnvironmentFault as error:
            raise EnvironmentFault(
                "cannot write into the output folder",
                where=str(self._path.parent.parent),
                why=error.fault.what,
                fix="choose another with --output, or mend its permissions",
            ) from error
        try:
            os.link(own, self._path)  # fails if another run was quicker: then its salt is the folder's
        except FileExistsError:
            return False
        except OSError:
            durable_file.replace(self._path, self._salt)  # a file system without hard links
        finally:
            own.unlink(missing_ok=True)
        return True

    def _read(self) -> bytes | None:
        try:
            salt = self._path.read_bytes()
        except OSError:
            return None
        return salt if len(salt) == _SALT_BYTES else None
