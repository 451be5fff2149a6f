"""One profile by `torch.profiler` in progress, and its end."""

from __future__ import annotations

import gc
import gzip
import json
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEP, COLLECTION = "stepwatch: step", "stepwatch: garbage collection"
"""Annotations in the trace: one around each step, one around each garbage collection."""
MAX_TRACE_BYTES = 512 << 20
MAX_PACKED_BYTES = 48 << 20
_LEVEL = 1
"""A trace shrinks to a tenth at gzip's fastest level."""
_PIECE = 1 << 20


class Session:
    """Profiles the training thread and the device until `stop`; build and stop it on that thread.

    A profile that the trainer starts meanwhile ends this one first: torch allows one at a time, and
    would raise in the trainer. `interrupted` is called then.

    Raises:
        RuntimeError: another profile is active, or torch cannot start one.
    """

    def __init__(self, interrupted: Callable[[], None]) -> None:
        import torch
        from torch.autograd import profiler

        torch_autograd: Any = torch.autograd
        torch_profiler: Any = profiler
        if torch_autograd._profiler_enabled():
            raise RuntimeError("the trainer profiles already")
        self._torch_profiler: Any = torch_profiler
        self._prepare = torch_profiler._prepare_profiler
        self._interrupted = interrupted
        self._step: Any = None
        self._collection: Any = None
        # Statistics by operator are not read here, only the trace.
        self._profile = torch.profiler.profile(with_stack=True, acc_events=False)
        self._profile.start()
        # From here on nothing may raise: only this object can stop the profile.
        torch_profiler._prepare_profiler = self._yield_to_trainer
        gc.callbacks.append(self._mark_collection)
        self._began = time.perf_counter_ns(), time.thread_time_ns()
        _follow_forks(self)

    def begin_step(self, number: int) -> None:
        """Mark that step `number` begins, and the previous one ends."""
        self._end_step()
        self._step = self._annotation(f"{STEP} {number}")

    def stop(self, facts: dict[str, Any]) -> Callable[[], bytes]:
        """End the profile; return a function that packs the trace, to call on another thread.

        `facts` are stored in the trace under `stepwatch`, with `wall_ns` and the training thread's
        `cpu_ns`.
        """
        wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        self._detach()
        facts = {**facts, "wall_ns": wall_ns - self._began[0], "cpu_ns": cpu_ns - self._began[1]}
        self._profile.add_metadata_json("stepwatch", json.dumps(facts))
        self._profile.stop()
        profile = self._profile
        return lambda: packed(profile.export_chrome_trace)

    def abandon(self) -> None:
        """End the profile without a trace."""
        self._detach()
        self._profile.stop()

    def leave_in_child(self) -> None:
        """Stop tracing in a forked child, which nothing else would end."""
        sys.setprofile(None)

    def _yield_to_trainer(self, *args: Any, **kwargs: Any) -> Any:
        prepare = self._prepare
        self._interrupted()
        return prepare(*args, **kwargs)

    def _detach(self) -> None:
        self._end_step()
        self._torch_profiler._prepare_profiler = self._prepare
        if self._mark_collection in gc.callbacks:
            gc.callbacks.remove(self._mark_collection)
        self._collection = None
        _sessions.discard(self)

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _mark_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collection = self._annotation(COLLECTION)
        elif self._collection is not None:
            self._collection.__exit__(None, None, None)
            self._collection = None

    def _annotation(self, name: str) -> Any:
        annotation = self._torch_profiler.record_function(name)
        annotation.__enter__()
        return annotation


def packed(export: Callable[[str], object]) -> bytes:
    """Return the gzip of the trace that `export` writes to a path.

    Raises:
        OSError: no temporary file can be written.
        ValueError: the trace is too large.
    """
    with tempfile.TemporaryDirectory(prefix="stepwatch-profile-") as folder:
        trace, small = Path(folder, "trace.json"), Path(folder, "trace.json.gz")
        export(str(trace))
        _check_size(trace, MAX_TRACE_BYTES)
        with trace.open("rb") as source, gzip.open(small, "wb", compresslevel=_LEVEL) as target:
            shutil.copyfileobj(source, target, _PIECE)
        _check_size(small, MAX_PACKED_BYTES)
        return small.read_bytes()


def _check_size(path: Path, most: int) -> None:
    if path.stat().st_size > most:
        raise ValueError(f"{path.name} is larger than {most >> 20} MiB: ask for fewer steps")


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
_follows_forks = False


def _follow_forks(session: Session) -> None:
    global _follows_forks
    _sessions.add(session)
    if not _follows_forks:
        _follows_forks = True
        os.register_at_fork(after_in_child=_leave_all)


def _leave_all() -> None:
    for session in list(_sessions):
        session.leave_in_child()
    _sessions.clear()
