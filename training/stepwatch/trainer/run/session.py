"""Everything one rank holds while it trains, built in the order in which it can fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from stepwatch.faults import Injector
from stepwatch.hooks import Watch
from stepwatch.trainer.checkpoint.manifest import CheckpointManifest
from stepwatch.trainer.checkpoint.resume import choose, load
from stepwatch.trainer.checkpoint.saver import Attempt, Saver
from stepwatch.trainer.checkpoint.state import (
    materialise_moments,
    optimizer_steps,
    random_state,
    state_tensors,
)
from stepwatch.trainer.checkpoint.write import Ranks
from stepwatch.trainer.config.elastic import fitted_mesh
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.data.loader import Loader, Slice
from stepwatch.trainer.durable import json_bytes, write_durably
from stepwatch.trainer.parallel.assemble import Share, assemble
from stepwatch.trainer.parallel.pipeline import BusyTime, Schedule, build_schedule
from stepwatch.trainer.parallel.runtime import Runtime, joined
from stepwatch.trainer.step.passes import Passes, PipelinePasses, PlainPasses
from stepwatch.trainer.step.steps import Steps

from .history import History
from .open_dataset import Opened, open_data
from .preemption import StopRequest
from .run_manifest import RUN_NAME, run_identity, run_manifest

CHECKPOINTS_DIRECTORY = "checkpoints"


@dataclass(frozen=True)
class Session:
    """One rank's run. `history` is held by the leading rank only; `first` is its first step.

    `manifest` is the run manifest, made once: it asks git, which no step should wait for.
    """

    options: Options
    runtime: Runtime
    data: Opened
    manifest: dict[str, Any]
    share: Share
    schedule: Schedule | None
    busy: BusyTime
    watch: Watch
    steps: Steps
    loader: Loader
    saver: Saver
    stop: StopRequest
    history: History | None
    first: int

    def say(self, text: str) -> None:
        """Print a line, once for all ranks."""
        _say(self.runtime, text)

    def save(self, done: int) -> None:
        """Begin the checkpoint that holds `done` completed steps."""
        options = self.options
        progress = {
            "world": self.runtime.world,
            "mesh": options.parallel.mesh.flag,
            "optimizer_steps": optimizer_steps(self.share),
            "sequences": done * options.parallel.batch,
        }
        identity = run_identity(options, self.data.digest)
        manifest = CheckpointManifest(done, identity, progress, self.manifest)
        materialise_moments(self.share)
        tensors = state_tensors(self.share)
        states = random_state(self.runtime.rank, self.runtime.device)
        self.saver.save(manifest, tensors | states, self.watch.checkpoint(done))


def _say(runtime: Runtime, text: str) -> None:
    if runtime.leads:
        print(text, file=sys.stderr, flush=True)


def _resume(
    root: Path, ranks: Ranks, share: Share, identity: Mapping[str, Any], watch: Watch, at: Runtime
) -> int:
    """Load the newest good checkpoint; returns the first step to train."""
    manifest, rejections = choose(root, ranks, identity)
    for bad in rejections:
        watch.checkpoint(bad.step).rejected(bad.reason)
        _say(at, f"rejected checkpoint of step {bad.step}: {bad.reason} ({bad.moved_to})")
    if manifest is None:
        return 0
    load(root, manifest, share, ranks, at.device)
    return manifest.step


def _open_history(run_dir: Path, options: Options, first: int) -> tuple[History, int]:
    """Open the diary; returns it and the steps lost by resuming at `first`."""
    history, lost = History(run_dir), 0
    if options.run.resume == "never":
        history.restart()
    elif first or history.steps:
        line = history.resume(first)
        lost = line.steps_lost
        print(
            f"resumed from step {first}: {lost} steps lost, {line.seconds:.1f} s without progress",
            file=sys.stderr,
            flush=True,
        )
    return history, lost


def _start_counting(
    run_dir: Path, options: Options, first: int, watch: Watch, runtime: Runtime
) -> History | None:
    """Tell the hooks of every rank where the run goes on; returns the leading rank's diary."""
    watch.start_at(first)
    history, lost = None, torch.zeros(1, dtype=torch.int64)
    if runtime.leads:
        history, steps_lost = _open_history(run_dir, options, first)
        lost.fill_(steps_lost)
    dist.broadcast(lost, group=runtime.side, group_src=0)
    if first or lost.item():
        watch.resumed(from_step=first, steps_lost=int(lost.item()))
    return history


def _passes(
    share: Share, schedule: Schedule | None, options: Options, busy: BusyTime, watch: Watch
) -> Passes:
    watch.attach(model=share.modules, optimizer=share.optimizer, schedule=schedule)
    if schedule is None:
        return PlainPasses(share, options.parallel.microbatches)
    return PipelinePasses(share, schedule, busy)


def _loader(
    options: Options, data: Opened, runtime: Runtime, first: int, inject: Injector
) -> Loader:
    shape, place = options.parallel.mesh, runtime.place
    return Loader(
        data.dataset,
        Slice(options.parallel.batch, place.data_rank, shape.data_ranks, options.run.seed),
        first,
        options.run.steps,
        ahead=options.data.ahead,
        before_next=lambda step: inject.at("data", step),
    )


def _saver(
    root: Path, options: Options, ranks: Ranks, inject: Injector, history: History | None
) -> Saver:
    def note(attempt: Attempt) -> None:
        if history is not None:
            history.checkpoint(attempt)

    return Saver(
        root,
        ranks,
        options.checkpoint.checkpoint_keep,
        beside=options.checkpoint.checkpoint_mode == "async",
        at=lambda stage, step: inject.at(f"checkpoint:{stage}", step),
        note=note,
    )


def _fitted(options: Options, environment: Mapping[str, str]) -> Options:
    """The options with the mesh that the ranks at hand allow, where the job is elastic."""
    if ":" not in options.run.nodes:
        return options
    mesh = fitted_mesh(options, int(environment.get("WORLD_SIZE", "1")))
    return replace(options, parallel=replace(options.parallel, mesh=mesh))


def _built(options: Options, run_dir: Path, runtime: Runtime, stop: StopRequest) -> Session:
    place = runtime.place
    watch = Watch.from_env(
        job=options.run.job,
        mesh_index=place.index,
        mesh_size=place.size,
        device=-1 if runtime.device.index is None else runtime.device.index,
    )
    stage = range(place.pp * runtime.stage_ranks, (place.pp + 1) * runtime.stage_ranks)
    inject = Injector.from_env(rank=runtime.rank, stage_ranks=stage)
    data = open_data(options, run_dir, runtime)
    share, busy = assemble(options, runtime), BusyTime()
    schedule = build_schedule(share, options, runtime, busy)
    passes = _passes(share, schedule, options, busy, watch)
    ranks = Ranks(runtime.rank, runtime.world, runtime.side)
    root, first = run_dir / CHECKPOINTS_DIRECTORY, 0
    if options.run.resume == "auto":
        identity = run_identity(options, data.digest)
        first = _resume(root, ranks, share, identity, watch, runtime)
    history = _start_counting(run_dir, options, first, watch, runtime)
    return Session(
        options, runtime, data, run_manifest(options, data.digest), share, schedule, busy, watch,
        Steps(options, runtime, share, passes, watch, inject),
        _loader(options, data, runtime, first, inject),
        _saver(root, options, ranks, inject, history),
        stop, history, first,
    )  # fmt: skip


@contextmanager
def started(options: Options, run_dir: Path) -> Iterator[Session]:
    """Join the other ranks and build the session; take SIGTERM over while it is used.

    Raises:
        StepwatchError: data, checkpoint or environment cannot be used.
    """
    options = _fitted(options, os.environ)
    stop = StopRequest(options.run.grace_seconds)
    with joined(options.parallel.mesh, options.run.timeout_seconds) as runtime:
        session = _built(options, run_dir, runtime, stop)
        if runtime.leads:
            write_durably(run_dir / RUN_NAME, json_bytes(session.manifest))
        stop.install()
        yield session
        stop.remove()
        if not stop.asked:
            session.watch.finish()
        session.watch.close()
