"""`python -m veo_cli` and the `veo` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    # Threads that wait for work sleep instead of spinning: on a busy machine spinning costs several times the work.
    # OpenMP reads this once, when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from veo_cli import error_boundary

    sys.exit(error_boundary.main())


if __name__ == "__main__":
    main()
