"""What the processes of the tests write, each a line of Python after stderr is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stepwatch.signals import places
from stepwatch.signals.stderr import kept
from tests.waiting import until

BEGIN = """
import os, sys, time
from stepwatch.signals.stderr.keeping import keep_stderr
print(os.getpid(), keep_stderr(), flush=True)
"""


def command(program: str) -> list[str]:
    """The command that runs `program` with its stderr kept."""
    return [sys.executable, "-c", BEGIN + program]


def environment(rings: Path, **more: str) -> dict[str, str]:
    """Variables for it, with `rings` as the ring directory."""
    return {**os.environ, places.ENV_RING_DIR: str(rings), **more}


def ran(rings: Path, program: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run `program` to its end, and until nobody has its stderr open any more."""
    return subprocess.run(
        command(program), env=environment(rings, **more), capture_output=True, timeout=60
    )


def files(rings: Path) -> list[Path]:
    """Files of last lines that are whole."""
    return sorted(path for path in (rings / kept.FOLDER).glob("*") if not path.suffix)


def lines_of(rings: Path) -> list[str]:
    """The lines of the only process whose lines were kept, once nothing follows."""
    complete = until(
        "the relay to end", lambda: [f for f in map(kept.read, files(rings)) if f.final]
    )
    return list(complete[0].lines)
