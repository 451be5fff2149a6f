"""Programs of the tests' processes: lines of Python that run after stderr is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stepwatch.signals import places
from stepwatch.signals.stderr import line_files
from tests.waiting import until

BEGIN = """
import os, sys, time
from stepwatch.signals.stderr.keeping import keep_stderr
print(os.getpid(), keep_stderr(), flush=True)
"""


def command(program: str) -> list[str]:
    """Return the command that runs `program` with its stderr kept."""
    return [sys.executable, "-c", BEGIN + program]


def environment(rings: Path, **more: str) -> dict[str, str]:
    """Return the program's variables, with `rings` as the ring directory."""
    return {**os.environ, places.ENV_RING_DIR: str(rings), **more}


def ran(rings: Path, program: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run `program` until it has ended and no process has its stderr open."""
    return subprocess.run(
        command(program), env=environment(rings, **more), capture_output=True, timeout=60
    )


def files(rings: Path) -> list[Path]:
    """Return the complete files of last lines."""
    return sorted(path for path in (rings / line_files.FOLDER).glob("*") if not path.suffix)


def lines_of(rings: Path) -> list[str]:
    """Return the last lines of the only process, once its file is final."""
    complete = until(
        "the relay to end", lambda: [f for f in map(line_files.read, files(rings)) if f.final]
    )
    return list(complete[0].lines)
