"""The training loop: steps, checkpoints and evaluations that are due, and the end."""

from __future__ import annotations

import math
import time
from pathlib import Path

from stepwatch.signals.errors import StepwatchError
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.step.steps import Outcome

from .directory import PREEMPTED_MARKER
from .history import StepLine
from .preemption import EXIT_PREEMPTED
from .result import write_result
from .session import Session, open_session


class DivergenceError(StepwatchError):
    """The gradient is not finite and `--nonfinite` is `stop`."""


def _require_finite(session: Session, outcome: Outcome, number: int) -> None:
    if not outcome.updated and session.options.optimizer.nonfinite == "stop":
        raise DivergenceError(
            f"step {number}: loss {outcome.loss}, gradient norm {outcome.grad_norm}: lower --lr, "
            "or leave the batch out with --nonfinite skip"
        )


def checkpoint_due(completed_steps: int, steps: int, every: int, *, overdue: bool) -> bool:
    """Return whether to start a checkpoint after `completed_steps` of `steps`.

    Args:
        completed_steps: completed steps.
        steps: steps in the run.
        every: steps between checkpoints; 0 means only after the last step.
        overdue: whether an earlier checkpoint was due and could not start.
    """
    return overdue or completed_steps == steps or (every > 0 and completed_steps % every == 0)


def _checkpoint(session: Session, completed_steps: int, outcome: Outcome, *, overdue: bool) -> bool:
    """Start a checkpoint if one is due; return whether it is overdue.

    A due checkpoint does not start while another one is being written, except the last, nor while
    the loss is not finite. All ranks decide alike, because `outcome` is equal on all ranks.
    """
    steps, every = session.options.run.steps, session.options.checkpoint.checkpoint_every
    if outcome.stop or not checkpoint_due(completed_steps, steps, every, overdue=overdue):
        return False
    if not math.isfinite(outcome.loss) or (completed_steps < steps and outcome.saving):
        return True
    session.save(completed_steps)
    return False


def _record(session: Session, line: StepLine) -> None:
    if session.history is not None:
        session.history.append(line)
    session.runtime.log(
        f"step {line.step}  loss {line.loss:.4f}  norm {line.grad_norm:.3f}  "
        f"lr {line.rate:.2e}  {line.seconds:.3f} s"
    )


def _evaluate(session: Session, completed_steps: int) -> None:
    result = session.evaluator.run(completed_steps, lambda: session.stop.is_requested)
    if result is None:
        return
    if session.history is not None:
        session.history.evaluation(result)
    session.runtime.log(
        f"evaluation after step {completed_steps - 1}  "
        f"loss {result.loss:.4f}  {result.seconds:.3f} s"
    )


def _train(session: Session) -> tuple[bool, list[StepLine]]:
    """Train to the last step or until SIGTERM; return whether SIGTERM arrived, and the steps."""
    options, lines, overdue = session.options, list[StepLine](), False
    sequences = options.parallel.batch // options.parallel.mesh.data_ranks
    ended = time.monotonic()
    for number, batch in enumerate(session.watch.batches(session.loader), start=session.first):
        if number == session.first + 1:
            session.busy.reset()
        with session.watch.step(tokens=sequences * options.model.length) as step:
            outcome = session.steps.run(
                number,
                batch,
                step,
                stop=session.stop.is_requested,
                saving=session.checkpointer.busy,
            )
        begun, ended = ended, time.monotonic()
        line = StepLine(
            step=number,
            loss=outcome.loss,
            grad_norm=outcome.grad_norm,
            rate=outcome.rate,
            seconds=ended - begun,
            wall_seconds=time.time(),
        )
        lines.append(line)
        _record(session, line)
        _require_finite(session, outcome, number)
        overdue = _checkpoint(session, number + 1, outcome, overdue=overdue)
        if outcome.stop:
            return True, lines
        _evaluate(session, number + 1)
    return False, lines


def _finish_preempted(session: Session, run_dir: Path, completed_steps: int) -> None:
    """Write the last checkpoint within the grace period, and the launcher's marker."""
    session.save(completed_steps)
    in_time = session.checkpointer.wait(session.stop.seconds_left())
    session.watch.preempted()
    if session.runtime.is_leader:
        (run_dir / PREEMPTED_MARKER).touch()
    verified = in_time and session.checkpointer.results[-1].verified
    session.runtime.log(
        f"asked to stop: checkpoint of step {completed_steps} "
        + ("verified" if verified else "NOT verified within the grace period")
    )


def train(options: Options, run_dir: Path) -> int:
    """Train as one rank among several; return the exit code, 0 or 75 (preempted).

    Raises:
        StepwatchError: data, checkpoint or environment cannot be used, or the run diverged.
    """
    with open_session(options, run_dir) as session:
        preempted, lines = _train(session)
        if preempted:
            _finish_preempted(session, run_dir, lines[-1].step + 1)
        session.checkpointer.close()
        write_result(session, lines, preempted=preempted)
        if session.history is not None:
            session.history.close()
    return EXIT_PREEMPTED if preempted else 0
