"""One rank's run: join, open, build, resume, train, save, tell."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from stepwatch.faults import Injector
from stepwatch.hooks import Watch
from stepwatch.signals.errors import StepwatchError

from .assemble import Share, assemble
from .checkpoint.manifest import CheckpointManifest
from .checkpoint.resume import choose, load
from .checkpoint.saver import Saver
from .checkpoint.state import materialise_moments, optimizer_steps, random_state, state_tensors
from .checkpoint.write import Ranks
from .data.loader import Loader, Slice
from .durable import json_bytes, write_durably
from .history import History, StepLine
from .launch import MARK_NAME, PREEMPTED
from .lineage import RUN_NAME, run_identity, run_manifest
from .opened import open_data
from .options import Options
from .passes import Passes, PipelinePasses, PlainPasses
from .peak import model_flops_utilisation, peak_flops
from .pipeline import BusyTime, build_schedule
from .placement import ideal_bubble
from .preemption import StopRequest
from .result import build_result
from .runtime import Runtime, joined
from .steps import Outcome, Steps

CHECKPOINTS_DIRECTORY = "checkpoints"


class DivergenceError(StepwatchError):
    """The gradient is not finite and the policy is to stop."""


@dataclass
class Run:
    """Everything one rank holds while it trains."""

    options: Options
    runtime: Runtime
    run_dir: Path
    share: Share
    busy: BusyTime
    watch: Watch
    steps: Steps
    loader: Loader
    saver: Saver
    stop: StopRequest
    identity: dict[str, Any]
    manifest: dict[str, Any]
    history: History | None
    first: int
    left_out: list[str]


def _say(runtime: Runtime, text: str) -> None:
    if runtime.leads:
        print(text, file=sys.stderr, flush=True)


def _save(run: Run, step: int) -> None:
    """Take the checkpoint that holds `step` completed steps."""
    progress = {
        "world": run.runtime.world,
        "mesh": run.options.parallel.mesh.flag,
        "optimizer_steps": optimizer_steps(run.share),
        "sequences": step * run.options.parallel.batch,
    }
    manifest = CheckpointManifest(step, run.identity, progress, run.manifest)
    materialise_moments(run.share)
    tensors = state_tensors(run.share) | random_state(run.runtime.rank, run.runtime.device)
    run.saver.save(manifest, tensors, run.watch.checkpoint(step))


def _resume(
    root: Path, ranks: Ranks, share: Share, identity: dict[str, Any], runtime: Runtime, watch: Watch
) -> int:
    """Load the newest good checkpoint; returns the first step to train."""
    manifest, rejections = choose(root, ranks, identity)
    for rejection in rejections:
        watch.checkpoint(rejection.step).rejected(rejection.reason)
        _say(
            runtime,
            f"rejected checkpoint of step {rejection.step}: {rejection.reason} "
            f"({rejection.moved_to})",
        )
    if manifest is None:
        return 0
    load(root, manifest, share, ranks, runtime.device)
    return manifest.step


def _history(run_dir: Path, first: int, runtime: Runtime, watch: Watch) -> History | None:
    if not runtime.leads:
        return None
    history = History(run_dir)
    if first or history.steps:
        line = history.resume(first)
        watch.resumed(from_step=first, steps_lost=line.steps_lost)
        _say(
            runtime,
            f"resumed from step {first}: {line.steps_lost} steps lost, "
            f"{line.seconds:.1f} s without progress",
        )
    return history


def _passes(
    share: Share, options: Options, runtime: Runtime, busy: BusyTime, watch: Watch
) -> Passes:
    schedule = build_schedule(share, options, runtime, busy)
    watch.attach(model=share.modules, optimizer=share.optimizer, schedule=schedule)
    if schedule is None:
        return PlainPasses(share, options.parallel.microbatches)
    return PipelinePasses(share, schedule, busy)


@contextmanager
def _started(options: Options, run_dir: Path) -> Iterator[Run]:
    """Build everything, in the order in which it can fail.

    Raises:
        StepwatchError: data, checkpoint or environment cannot be used.
    """
    stop = StopRequest(options.run.grace_seconds)
    shape = options.parallel.mesh
    with joined(shape, options.run.timeout_seconds) as runtime:
        place = runtime.place
        watch = Watch.from_env(job=options.run.job, mesh_index=place.index, mesh_size=place.size)
        injector = Injector.from_env(rank=runtime.rank)
        dataset, digest, left_out = open_data(options, run_dir, runtime)
        identity = run_identity(options, digest)
        manifest = run_manifest(options, digest)
        share, busy = assemble(options, runtime), BusyTime()
        passes = _passes(share, options, runtime, busy, watch)
        ranks = Ranks(runtime.rank, runtime.world, runtime.side)
        root = run_dir / CHECKPOINTS_DIRECTORY
        first = 0
        if options.run.resume == "auto":
            first = _resume(root, ranks, share, identity, runtime, watch)
        watch.start_at(first)
        history = _history(run_dir, first, runtime, watch)
        if runtime.leads:
            write_durably(run_dir / RUN_NAME, json_bytes(manifest))
        loader = Loader(
            dataset,
            Slice(options.parallel.batch, place.data_rank, shape.data_ranks, options.run.seed),
            first,
            options.run.steps,
            ahead=options.data.ahead,
            before_next=lambda step: injector.at("data", step),
        )
        saver = Saver(
            root,
            ranks,
            options.checkpoint.checkpoint_keep,
            beside=options.checkpoint.checkpoint_mode == "async",
            at=lambda stage, step: injector.at(f"checkpoint:{stage}", step),
        )
        steps = Steps(options, runtime, share, passes, watch, injector)
        stop.install()
        yield Run(
            options, runtime, run_dir, share, busy, watch, steps, loader, saver, stop,
            identity, manifest, history, first, left_out,
        )  # fmt: skip
        watch.finish()
        watch.close()


def _due(run: Run, done: int, waiting: bool) -> bool:
    every = run.options.checkpoint.checkpoint_every
    return waiting or done == run.options.run.steps or (every > 0 and done % every == 0)


def _progress(run: Run, line: StepLine) -> None:
    if run.history is not None:
        run.history.append(line)
        _say(
            run.runtime,
            f"step {line.step}  loss {line.loss:.4f}  norm {line.grad_norm:.3f}  "
            f"lr {line.rate:.2e}  {line.seconds:.3f} s",
        )


def _train(run: Run) -> tuple[bool, list[StepLine]]:
    """Train to the last step or to the first request to stop; returns whether it was stopped."""
    lines: list[StepLine] = []
    share = run.options.parallel.batch // run.runtime.place.shape.data_ranks
    tokens = share * run.options.model.length
    waiting = False
    ended = time.monotonic()
    for number, batch in enumerate(run.watch.batches(run.loader), start=run.first):
        if number == run.first + 1:
            run.busy.reset()
        with run.watch.step(tokens=tokens) as step:
            outcome = run.steps.run(number, batch, step, stop=run.stop.asked, saving=run.saver.busy)
        now = time.monotonic()
        line = StepLine(
            number, outcome.loss, outcome.grad_norm, outcome.rate, now - ended, time.time()
        )
        ended = now
        lines.append(line)
        _progress(run, line)
        _require_finite(run, outcome, number)
        waiting = _checkpoint(run, number + 1, outcome, waiting)
        if outcome.stop:
            return True, lines
    return False, lines


def _require_finite(run: Run, outcome: Outcome, number: int) -> None:
    if not outcome.updated and run.options.optimizer.nonfinite == "stop":
        raise DivergenceError(
            f"step {number}: loss {outcome.loss}, gradient norm {outcome.grad_norm}: lower --lr, "
            "or leave the batch out with --nonfinite skip"
        )


def _checkpoint(run: Run, done: int, outcome: Outcome, waiting: bool) -> bool:
    """Save if due; returns whether a due save waits because the previous one is still written.

    All ranks decide alike, because `outcome` is what they agreed on.
    """
    if outcome.stop or not _due(run, done, waiting):
        return False
    if outcome.saving and done < run.options.run.steps:
        return True
    _save(run, done)
    return False


def _finish(run: Run, stopped: bool, lines: list[StepLine]) -> None:
    if stopped:
        done = lines[-1].step + 1
        _save(run, done)
        in_time = run.saver.wait(run.stop.seconds_left())
        run.watch.preempted()
        if run.runtime.leads:
            (run.run_dir / MARK_NAME).touch()
        _say(
            run.runtime,
            f"asked to stop: checkpoint of step {done} " + ("taken" if in_time else "LATE"),
        )
    run.saver.close()


def _bubble(run: Run) -> dict[str, float | None]:
    parallel = run.options.parallel
    ideal = ideal_bubble(parallel.schedule, parallel.mesh.pp, parallel.microbatches)
    if parallel.mesh.pp == 1 or not run.busy.wall_ns:
        return {"measured": None, "ideal": ideal}
    sums = torch.tensor([run.busy.busy_ns, run.busy.wall_ns], dtype=torch.float64)
    dist.all_reduce(sums, group=run.runtime.side)
    return {"measured": round(1.0 - float(sums[0] / sums[1]), 6), "ideal": round(ideal, 6)}


def _result(run: Run, stopped: bool, lines: list[StepLine]) -> dict[str, Any] | None:
    bubble = _bubble(run)
    samples = torch.zeros(run.runtime.world, dtype=torch.int64)
    samples[run.runtime.rank] = run.loader.sequences_read
    dist.all_reduce(samples, group=run.runtime.side)
    if run.history is None:
        return None
    options = run.options
    tokens = options.parallel.batch * options.model.length
    extra = {
        "bubble": bubble,
        "samples": samples.tolist(),
        "quarantined_shards": run.left_out,
        "preempted": stopped,
        "mesh": options.parallel.mesh.flag,
        "world": run.runtime.world,
        "first_step": run.first,
    }
    result = build_result(run.history, lines, run.saver.attempts, tokens, extra)
    device = run.runtime.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    result["mfu"] = model_flops_utilisation(
        result["tokens_per_second"],
        run.share.size.flops_per_token(options.model.length),
        run.runtime.world,
        peak_flops(name, options.model.precision),
    )
    return result


def train(options: Options, run_dir: Path) -> int:
    """Train as one rank among others; returns the exit code.

    Raises:
        StepwatchError: this run cannot be made; says why.
    """
    with _started(options, run_dir) as run:
        stopped, lines = _train(run)
        _finish(run, stopped, lines)
        result = _result(run, stopped, lines)
        if result is not None and options.run.json:
            write_durably(Path(options.run.json), json_bytes(result))
        if run.history is not None:
            run.history.close()
    return PREEMPTED if stopped else 0
