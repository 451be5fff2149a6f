"""One rank of the reference trainer."""

from __future__ import annotations

from pathlib import Path

from stepwatch.trainer.config.configure import configure
from stepwatch.trainer.run.loop import train as run
from stepwatch.trainer.run.rank import leave
from tests.verdicts.plan import Plan


def train(plan: Plan, rank: int) -> None:
    """Train in this process as `stepwatch train` does."""
    flags = ["--job", plan.job, "--steps", str(plan.steps), "--seed", str(plan.seed), *plan.flags]
    options, _ = configure(flags, f"rank {rank}")
    leave(run(options, Path(plan.folder, "run")))
