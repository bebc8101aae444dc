"""`python -m veo_cli` and the `veo` command."""

from __future__ import annotations

import sys


def main() -> None:
    from veo_cli import error_boundary

    sys.exit(error_boundary.main())


if __name__ == "__main__":
    main()
