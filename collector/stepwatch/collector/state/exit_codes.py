"""Exit codes of ranks as agents report them: 128 + n if signal n ended the process."""

from __future__ import annotations

import signal

UNKNOWN_EXIT = -1
SIGNALLED = 128
TERMINATED = SIGNALLED + signal.SIGTERM
INTERRUPTED = SIGNALLED + signal.SIGINT
ASKED_TO_STOP = (TERMINATED, INTERRUPTED)
"""Exit codes of a rank that was stopped on request: no failure of its own."""
