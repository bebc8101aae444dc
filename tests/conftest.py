"""For all tests."""

from __future__ import annotations

import signal

# Started in the background of a script, a process inherits an ignored SIGINT, and veo keeps it ignored; the tests of
# Ctrl-C need the usual state, for themselves and for the processes they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
