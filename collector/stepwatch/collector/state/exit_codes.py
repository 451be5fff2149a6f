"""Exit codes of ranks as agents report them: 128 + n where signal n ended the process."""

from __future__ import annotations

import signal

UNKNOWN_EXIT = -1
SIGNALLED = 128
TERMINATED = SIGNALLED + signal.SIGTERM
INTERRUPTED = SIGNALLED + signal.SIGINT
ASKED_TO_STOP = (TERMINATED, INTERRUPTED)
"""What ends a rank that somebody stops: no failure of its own."""
