"""Every benchmark that this machine can run, one after the other."""

from __future__ import annotations

import subprocess
import sys

NAMES = ("render_speed", "decode_memory", "batch_overhead", "kernels")

if __name__ == "__main__":
    failed = [
        name for name in NAMES if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode
    ]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
