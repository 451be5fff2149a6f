"""Reports at the end of `stepwatch run` that no step was recorded, with the reason."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

from stepwatch.hooks.identity import is_quiet
from stepwatch.signals import places
from stepwatch.signals.blackbox import RingReader, find_rings, user_directories
from stepwatch.signals.errors import RingError
from stepwatch.signals.records import Kind

_CURE = "mark the steps in the code: `watch = Watch.from_env()`, then `with watch.step():`"


def report(began_ns: int) -> None:
    """Print one line unless a process in the run that began then (Unix ns) recorded a step."""
    job = os.environ.get(places.ENV_JOB, "")
    if is_quiet(os.environ):
        return
    ranks, steps = 0, 0
    for reader in _rings_since(job, began_ns):
        ranks += 1
        steps += reader.head > reader.identity.capacity or Kind.STEP in reader.read().rows
        reader.close()
    if not steps:
        print(f"stepwatch: job {job}: no step was recorded: {_why(ranks)}; {_CURE}",
              file=sys.stderr)  # fmt: skip


def _why(ranks: int) -> str:
    if ranks:
        return "training began, but no optimizer of torch ended a step"
    if "torch" not in sys.modules:
        return "the command did not import torch, nor did a process that it started train"
    return "no process called backward or stepped an optimizer of torch"


def _rings_since(job: str, began_ns: int) -> Iterator[RingReader]:
    """Return rings for `job`, under any of its numbers, that were created since `began_ns`."""
    names = re.compile(re.escape(job) + r"(-\d+)?")
    for folder in user_directories(places.ring_dir()):
        for job_directory in folder.iterdir() if os.access(folder, os.R_OK | os.X_OK) else ():
            for path in find_rings(job_directory) if names.fullmatch(job_directory.name) else ():
                with contextlib.suppress(RingError):
                    reader = RingReader(path)
                    if reader.identity.wall_ns >= began_ns:
                        yield reader
                    else:
                        reader.close()
