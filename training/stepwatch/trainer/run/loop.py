"""The training loop: steps, checkpoints when they are due, and the way out."""

from __future__ import annotations

import math
import time
from pathlib import Path

from stepwatch.signals.errors import StepwatchError
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.step.steps import Outcome

from .history import StepLine
from .launch import MARK_NAME, PREEMPTED
from .result import tell
from .session import Session, started


class DivergenceError(StepwatchError):
    """The gradient is not finite and the policy is to stop."""


def _require_finite(session: Session, outcome: Outcome, number: int) -> None:
    if not outcome.updated and session.options.optimizer.nonfinite == "stop":
        raise DivergenceError(
            f"step {number}: loss {outcome.loss}, gradient norm {outcome.grad_norm}: lower --lr, "
            "or leave the batch out with --nonfinite skip"
        )


def checkpoint_due(done: int, steps: int, every: int, *, waiting: bool) -> bool:
    """Whether a checkpoint of `done` completed steps is to be taken."""
    return waiting or done == steps or (every > 0 and done % every == 0)


def _checkpoint(session: Session, done: int, outcome: Outcome, waiting: bool) -> bool:
    """Save if due; returns whether a due save has to wait for the one still being written.

    All ranks decide alike, because `outcome` is what they agreed on.
    """
    steps, every = session.options.run.steps, session.options.checkpoint.checkpoint_every
    if outcome.stop or not checkpoint_due(done, steps, every, waiting=waiting):
        return False
    if not math.isfinite(outcome.loss) or (done < steps and outcome.saving):
        return True
    session.save(done)
    return False


def _note(session: Session, line: StepLine) -> None:
    if session.history is not None:
        session.history.append(line)
        session.say(
            f"step {line.step}  loss {line.loss:.4f}  norm {line.grad_norm:.3f}  "
            f"lr {line.rate:.2e}  {line.seconds:.3f} s"
        )


def _train(session: Session) -> tuple[bool, list[StepLine]]:
    """Train to the last step or to a request to stop; returns whether it was stopped."""
    options, lines, waiting = session.options, list[StepLine](), False
    share = options.parallel.batch // options.parallel.mesh.data_ranks
    ended = time.monotonic()
    for number, batch in enumerate(session.watch.batches(session.loader), start=session.first):
        if number == session.first + 1:
            session.busy.reset()
        with session.watch.step(tokens=share * options.model.length) as step:
            outcome = session.steps.run(
                number, batch, step, stop=session.stop.asked, saving=session.saver.busy
            )
        begun, ended = ended, time.monotonic()
        lines.append(
            StepLine(
                number, outcome.loss, outcome.grad_norm, outcome.rate, ended - begun, time.time()
            )
        )
        _note(session, lines[-1])
        _require_finite(session, outcome, number)
        waiting = _checkpoint(session, number + 1, outcome, waiting)
        if outcome.stop:
            return True, lines
    return False, lines


def _take_leave(session: Session, run_dir: Path, done: int) -> None:
    """Take the grace checkpoint and leave a mark for the launcher."""
    session.save(done)
    in_time = session.saver.wait(session.stop.seconds_left())
    session.watch.preempted()
    if session.runtime.leads:
        (run_dir / MARK_NAME).touch()
    verified = in_time and session.saver.attempts[-1].verified
    session.say(
        f"asked to stop: checkpoint of step {done} "
        + ("verified" if verified else "NOT verified within the grace period")
    )


def train(options: Options, run_dir: Path) -> int:
    """Train as one rank among others; returns the exit code, 0 or 75 (preempted).

    Raises:
        StepwatchError: this run cannot be made, or diverged; says why.
    """
    with started(options, run_dir) as session:
        stopped, lines = _train(session)
        if stopped:
            _take_leave(session, run_dir, lines[-1].step + 1)
        session.saver.close()
        tell(session, lines, stopped=stopped)
        if session.history is not None:
            session.history.close()
    return PREEMPTED if stopped else 0
