"""The session: everything that one rank holds while it trains."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwatch.faults import Injector
from stepwatch.hooks import Watch
from stepwatch.signals.durable import write_durably
from stepwatch.trainer.checkpoint.checkpointer import Checkpointer, CheckpointResult
from stepwatch.trainer.checkpoint.manifest import CheckpointManifest
from stepwatch.trainer.checkpoint.state import (
    materialise_moments,
    optimizer_steps,
    random_state,
    state_tensors,
)
from stepwatch.trainer.checkpoint.write import Ranks
from stepwatch.trainer.config.elastic import fit_mesh
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.data.held_out import HeldOut
from stepwatch.trainer.data.loader import BatchSlice, Loader
from stepwatch.trainer.integrity import json_bytes
from stepwatch.trainer.parallel.busy_time import BusyTime
from stepwatch.trainer.parallel.local_model import LocalModel, build_local_model
from stepwatch.trainer.parallel.runtime import Runtime, joined_process_group
from stepwatch.trainer.step.evaluate import Evaluator
from stepwatch.trainer.step.passes import Passes, PipelinePasses, PlainPasses
from stepwatch.trainer.step.steps import Steps

from .directory import CHECKPOINTS_DIRECTORY, RUN_NAME, SHARDS_DIRECTORY
from .history import History
from .open_dataset import VerifiedDataset, open_dataset
from .preemption import StopRequest
from .resume import load_newest, start_at
from .run_manifest import run_identity, run_manifest
from .utilisation import peak_of

if TYPE_CHECKING:
    from stepwatch.trainer.parallel.pipeline import Schedule

_OF_FILES = ("run_dir", "json", "rendezvous")


@dataclass(frozen=True)
class Session:
    """One rank's run. `history` is None except on rank 0; `first` is the first step to train.

    `manifest` is the run manifest. It is built only once, because it calls git.
    """

    options: Options
    runtime: Runtime
    data: VerifiedDataset
    manifest: dict[str, Any]
    model: LocalModel
    schedule: Schedule | None
    busy: BusyTime
    watch: Watch
    steps: Steps
    evaluator: Evaluator
    loader: Loader
    checkpointer: Checkpointer
    stop: StopRequest
    history: History | None
    first: int

    def save(self, completed_steps: int) -> None:
        """Start the checkpoint after `completed_steps`."""
        options = self.options
        progress = {
            "world": self.runtime.world,
            "mesh": options.parallel.mesh.flag,
            "optimizer_steps": optimizer_steps(self.model),
            "sequences": completed_steps * options.parallel.batch,
        }
        identity = run_identity(options, self.data.digest)
        manifest = CheckpointManifest(completed_steps, identity, progress, self.manifest)
        materialise_moments(self.model)
        tensors = state_tensors(self.model)
        states = random_state(self.runtime.rank, self.runtime.device)
        path = self.checkpointer.path(completed_steps)
        handle = self.watch.checkpoint(completed_steps, path)
        self.checkpointer.save(manifest, tensors | states, handle)


def _watch(options: Options, runtime: Runtime) -> Watch:
    device = runtime.device.index
    return Watch.from_env(
        job=options.run.job,
        mesh_index=runtime.coordinates.index,
        mesh_size=runtime.coordinates.size,
        device=-1 if device is None else device,
    )


def _describe(
    watch: Watch, manifest: Mapping[str, Any], flops_per_token: float, peak: float | None
) -> None:
    """Return the run's components without its file paths, which differ in every run.

    `flops_per_token` and `peak` (one device's FLOP/s, None if unknown) are for MFU.
    """
    config = {
        section: {name: value for name, value in values.items() if name not in _OF_FILES}
        for section, values in manifest["configuration"].items()
    }
    watch.describe(
        config=config,
        code=manifest["code"],
        data={"sha256": manifest["data_sha256"]},
        model={"flops_per_token": flops_per_token},
        environment=manifest["environment"]
        | ({} if peak is None else {"device_peak_flops_per_second": peak}),
    )


def _injector(runtime: Runtime) -> Injector:
    first = runtime.coordinates.pp * runtime.stage_ranks
    return Injector.from_env(
        rank=runtime.rank, stage_ranks=range(first, first + runtime.stage_ranks)
    )


def _passes(
    model: LocalModel, schedule: Schedule | None, microbatches: int, busy: BusyTime
) -> Passes:
    if schedule is None:
        return PlainPasses(model, microbatches)
    return PipelinePasses(model, schedule, busy)


def _schedule(
    model: LocalModel, options: Options, runtime: Runtime, busy: BusyTime
) -> Schedule | None:
    if options.parallel.mesh.pp == 1:
        return None
    from stepwatch.trainer.parallel.pipeline import build_schedule

    return build_schedule(model, options, runtime, busy)


def _slice(options: Options, runtime: Runtime) -> BatchSlice:
    part = runtime.coordinates.data_rank
    parts = options.parallel.mesh.data_ranks
    return BatchSlice(options.parallel.batch, part, parts, options.run.seed)


def _held_out(options: Options, run_dir: Path, runtime: Runtime) -> HeldOut | None:
    settings = options.evaluation
    if not settings.eval_every:
        return None
    return HeldOut(
        run_dir / SHARDS_DIRECTORY,
        _slice(options, runtime),
        batches=settings.eval_batches,
        length=options.model.length,
    )


def _loader(
    options: Options, data: VerifiedDataset, runtime: Runtime, first: int, injector: Injector
) -> Loader:
    return Loader(
        data.dataset,
        _slice(options, runtime),
        first,
        options.run.steps,
        ahead=options.data.ahead,
        before_next=lambda step: injector.reach("data", step),
    )


def _checkpointer(
    root: Path, options: Options, runtime: Runtime, injector: Injector, history: History | None
) -> Checkpointer:
    def record(result: CheckpointResult) -> None:
        if history is not None:
            history.checkpoint(result)

    return Checkpointer(
        root,
        Ranks(runtime.rank, runtime.world, runtime.control_group),
        options.checkpoint.checkpoint_keep,
        asynchronous=options.checkpoint.checkpoint_mode == "async",
        on_stage=lambda stage, step: injector.reach(f"checkpoint:{stage}", step),
        on_result=record,
    )


def _build(options: Options, run_dir: Path, runtime: Runtime, stop: StopRequest) -> Session:
    watch, injector = _watch(options, runtime), _injector(runtime)
    data = open_dataset(options, run_dir, runtime)
    model, busy = build_local_model(options, runtime), BusyTime()
    schedule = _schedule(model, options, runtime, busy)
    watch.attach(model=model.modules, optimizer=model.optimizer, schedule=schedule)
    passes = _passes(model, schedule, options.parallel.microbatches, busy)
    root, first = run_dir / CHECKPOINTS_DIRECTORY, 0
    resuming = options.run.resume == "auto"
    if resuming:
        identity = run_identity(options, data.digest)
        first = load_newest(root, runtime, model, identity=identity, watch=watch)
    start = start_at(first, run_dir, runtime, watch, restart=not resuming)
    manifest = run_manifest(options, data.digest)
    peak = peak_of(runtime.device, options.model.precision)
    _describe(watch, manifest, model.size.flops_per_token(options.model.length), peak)
    return Session(
        options=options,
        runtime=runtime,
        data=data,
        manifest=manifest,
        model=model,
        schedule=schedule,
        busy=busy,
        watch=watch,
        steps=Steps(
            options=options,
            runtime=runtime,
            model=model,
            passes=passes,
            watch=watch,
            injector=injector,
        ),
        evaluator=Evaluator(
            options=options,
            runtime=runtime,
            model=model,
            passes=passes,
            watch=watch,
            held_out=_held_out(options, run_dir, runtime),
        ),
        loader=_loader(options, data, runtime, first, injector),
        checkpointer=_checkpointer(root, options, runtime, injector, start.history),
        stop=stop,
        history=start.history,
        first=first,
    )


def _elastic(options: Options, environment: Mapping[str, str]) -> Options:
    """Return an elastic job's options with the mesh fitted to its current ranks."""
    if ":" not in options.run.nodes:
        return options
    mesh = fit_mesh(options, int(environment.get("WORLD_SIZE", "1")))
    return replace(options, parallel=replace(options.parallel, mesh=mesh))


_KEPT: list[Session] = []
"""Sessions stay until the process ends. A DDP model that is freed after its group would be the
last reference to it. It would hold the interpreter lock and wait for a Gloo thread that needs
that lock, so the rank would never end (https://github.com/pytorch/pytorch/issues/56297).
"""


@contextmanager
def open_session(options: Options, run_dir: Path) -> Iterator[Session]:
    """Join the other ranks, build the session, and handle SIGTERM until the session ends.

    Raises:
        StepwatchError: data, checkpoint or environment cannot be used.
    """
    options = _elastic(options, os.environ)
    stop = StopRequest(options.run.grace_seconds)
    run = options.run
    with joined_process_group(options.parallel.mesh, run.timeout_seconds, run.device) as runtime:
        session = _build(options, run_dir, runtime, stop)
        _KEPT.append(session)
        if runtime.is_leader:
            write_durably(run_dir / RUN_NAME, json_bytes(session.manifest))
        stop.install()
        yield session
        stop.remove()
        if not stop.is_requested:
            session.watch.finish()
        session.watch.close()
