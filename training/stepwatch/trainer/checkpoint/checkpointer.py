"""Asynchronous checkpoints: the loop waits for the copy to host memory only."""

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
class CheckpointResult:
    """The outcome of one checkpoint; times in seconds.

    `durable_seconds` and `bytes` are None if it never became durable, `failure` is None if
    nothing failed.
    """

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


def _is_spent(stager: DefaultStager) -> bool:
    """Return whether a stager can stage no more: torch 2.11 closes each after its first state."""
    inner = getattr(stager, "_state_dict_stager", None)
    return not getattr(inner, "_deepcopy_dispatch", True)


class Checkpointer:
    """Writes checkpoints under `root`; keeps the newest `keep` and the newest verified one.

    It writes one checkpoint at a time: `save` waits for the previous one, so check `busy` first. A
    checkpoint that fails is a result in `results`, never an exception in the training loop.

    Args:
        root: directory for all checkpoints.
        ranks: the ranks that write together.
        keep: number of checkpoints to keep.
        asynchronous: write on a thread while training continues.
        on_stage: called with a stage and a step at each checkpoint stage (fault injection).
        on_result: called with every checkpoint's result, verified or failed.
    """

    def __init__(
        self,
        root: Path,
        ranks: Ranks,
        keep: int,
        *,
        asynchronous: bool,
        on_stage: Callable[[str, int], None],
        on_result: Callable[[CheckpointResult], None],
    ) -> None:
        self._root = root
        self._ranks = ranks
        self._keep = keep
        self._asynchronous = asynchronous
        self._on_stage = on_stage
        self._on_result = on_result
        self._stager = _stager()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stepwatch-checkpoint")
        self._pending: Future[None] | None = None
        self.results: list[CheckpointResult] = []

    @property
    def busy(self) -> bool:
        """Return whether this rank still writes a checkpoint."""
        return self._pending is not None and not self._pending.done()

    def path(self, step: int) -> Path:
        """Return where the checkpoint of `step` is published."""
        return layout.published_path(self._root, step)

    def save(
        self, manifest: CheckpointManifest, tensors: dict[str, Any], handle: CheckpointHandle
    ) -> None:
        """Copy `tensors` to the host, then write, publish and verify them.

        Returns after the copy if asynchronous, else after verification.
        """
        result = CheckpointResult(manifest.step)
        begun = time.monotonic()
        with handle:
            self.wait(None)
            self.results.append(result)
            self._on_stage("begin", manifest.step)
            if _is_spent(self._stager):
                self._stager = _stager()
            staged: Any = self._stager.stage(tensors)
            # Set before the thread starts: the thread passes the result on when it ends.
            result.stall_seconds = time.monotonic() - begun
            self._pending = self._thread.submit(
                self._finish, manifest, staged, handle, result, begun
            )
            if not self._asynchronous:
                self.wait(None)

    def wait(self, timeout_seconds: float | None) -> bool:
        """Wait for the checkpoint in flight; return whether it ended in time.

        Raises:
            RuntimeError: a collective between the ranks failed.
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
        """Wait for the checkpoint in flight and free the host memory."""
        self.wait(None)
        self._thread.shutdown()
        self._stager.close()

    def _finish(
        self,
        manifest: CheckpointManifest,
        staged: dict[str, Any],
        handle: CheckpointHandle,
        result: CheckpointResult,
        begun: float,
    ) -> None:
        step = manifest.step

        def on_stage(stage: str) -> None:
            self._on_stage(stage, step)

        try:
            written = write_checkpoint(self._root, manifest, staged, self._ranks, on_stage)
            result.durable_seconds, result.bytes = written.seconds, written.size
            handle.written(nbytes=written.size, durable_seconds=written.seconds)
            verify_checkpoint(self._root, step, self._ranks, on_stage)
            result.verified = True
            handle.verified()
            if self._ranks.rank == 0:
                self._delete_old()
        except (CheckpointError, OSError) as error:
            result.failure = str(error)
            handle.failed(result.failure)
            if self._ranks.rank == 0:
                print(f"checkpoint of step {step} failed: {error}", file=sys.stderr, flush=True)
        if not self._asynchronous:
            result.stall_seconds = time.monotonic() - begun
        self._on_result(result)

    def _delete_old(self) -> None:
        steps = layout.published_steps(self._root)
        verified = {step for step in steps if layout.is_marked_verified(self._root, step)}
        for step in layout.steps_to_delete(steps, verified, self._keep):
            layout.remove_checkpoint(self._root, step)
