"""Saving beside training: what the loop waits for is the copy to host memory, nothing else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from stepwatch.hooks.checkpoints import CheckpointHandle
from stepwatch.signals.errors import CheckpointError

from . import layout
from .manifest import CheckpointManifest
from .write import Ranks, verify_checkpoint, write_checkpoint


@dataclass
class Attempt:
    """One try to save: times in seconds; `durable_seconds` is None where it never was durable."""

    step: int
    verified: bool = False
    stall_seconds: float = 0.0
    durable_seconds: float | None = None
    bytes: int | None = None
    failure: str | None = None


def _stager() -> DefaultStager:
    pinned = torch.cuda.is_available()
    return DefaultStager(
        StagingOptions(
            use_pinned_memory=pinned,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=pinned,
        )
    )


class Saver:
    """Takes checkpoints under `root` and keeps the newest `keep` and the newest verified one.

    One save is under way at a time: ask `busy` before the next. A save that fails is a fact in
    `attempts`, never an exception in the training loop.

    Args:
        root: directory of all checkpoints.
        ranks: who saves together.
        keep: how many to keep.
        beside: write on a thread beside training instead of within it.
        at: called with a stage and a step at each stage of a save (fault injection).
        note: called with every attempt once it has ended, well or not.
    """

    def __init__(
        self,
        root: Path,
        ranks: Ranks,
        keep: int,
        *,
        beside: bool,
        at: Callable[[str, int], None],
        note: Callable[[Attempt], None],
    ) -> None:
        self._root = root
        self._ranks = ranks
        self._keep = keep
        self._beside = beside
        self._at = at
        self._note = note
        self._stager = _stager()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stepwatch-checkpoint")
        self._pending: Future[None] | None = None
        self.attempts: list[Attempt] = []

    @property
    def busy(self) -> bool:
        """Whether a save of this rank is still under way."""
        return self._pending is not None and not self._pending.done()

    def save(
        self, manifest: CheckpointManifest, tensors: dict[str, Any], handle: CheckpointHandle
    ) -> None:
        """Copy `tensors` to the host, then write, publish and verify them.

        Returns after the copy when saving beside training, else after verification.
        """
        attempt = Attempt(manifest.step)
        begun = time.monotonic()
        with handle:
            self.wait(None)
            self.attempts.append(attempt)
            self._at("begin", manifest.step)
            staged: Any = self._stager.stage(tensors)
            # What the loop waits for is known before the rest begins, so the rest may note it.
            attempt.stall_seconds = time.monotonic() - begun
            self._pending = self._thread.submit(
                self._finish, manifest, staged, handle, attempt, begun
            )
            if not self._beside:
                self.wait(None)

    def wait(self, timeout_seconds: float | None) -> bool:
        """Wait for the save under way; returns whether it ended in time.

        Raises:
            RuntimeError: the ranks could no longer talk to each other.
        """
        if self._pending is None:
            return True
        try:
            self._pending.result(timeout_seconds)
        except TimeoutError:
            return False
        self._pending = None
        return True

    def close(self) -> None:
        """Wait for the save under way and free the host memory."""
        self.wait(None)
        self._thread.shutdown()
        self._stager.close()

    def _finish(
        self,
        manifest: CheckpointManifest,
        staged: dict[str, Any],
        handle: CheckpointHandle,
        attempt: Attempt,
        begun: float,
    ) -> None:
        step = manifest.step

        def at(stage: str) -> None:
            self._at(stage, step)

        try:
            written = write_checkpoint(self._root, manifest, staged, self._ranks, at)
            attempt.durable_seconds, attempt.bytes = written.seconds, written.size
            handle.written(nbytes=written.size, durable_seconds=written.seconds)
            verify_checkpoint(self._root, step, self._ranks, at)
            attempt.verified = True
            handle.verified()
            if self._ranks.rank == 0:
                self._retire()
        except (CheckpointError, OSError) as error:
            attempt.failure = str(error)
            handle.failed(attempt.failure)
            if self._ranks.rank == 0:
                print(f"checkpoint of step {step} failed: {error}", file=sys.stderr, flush=True)
        if not self._beside:
            attempt.stall_seconds = time.monotonic() - begun
        self._note(attempt)

    def _retire(self) -> None:
        steps = layout.published_steps(self._root)
        verified = {step for step in steps if layout.is_marked_verified(self._root, step)}
        for step in layout.expendable_steps(steps, verified, self._keep):
            layout.remove_checkpoint(self._root, step)
