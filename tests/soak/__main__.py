"""`python -m tests.soak`: kill a collector at random under a simulated fleet, and check the
store."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from stepwatch.cli import text
from stepwatch.cli.interruptions import terminable
from stepwatch.signals.errors import StepwatchError

from .comparison import Check
from .plan import Plan, sustained_step_seconds
from .replicas import ReplicaSoak
from .run import Soak

_HELD, _BROKEN, _INTERRUPTED = 0, 1, 130
_SMALL = {"ranks": 64, "seconds": 60.0, "step_seconds": 0.25, "kill_every": (12.0, 18.0)}
_EXAMPLES = """examples:
  make soak                                        16,384 ranks for ten minutes
  make soak ARGS="--small"                         64 ranks for a minute, three kills
  make soak ARGS="--replicas 2"                    two collectors on one PostgreSQL
  make soak ARGS="--ranks 1024 --seconds 120 --kill-every 10 20 --seed 7"

A step is as long as two cores sustain at that size, sender included: 1 s up to 8,192 ranks, 2 s at
16,384. --step-seconds sets it. The exit code is 0 if all of it held, 1 if not.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Real collector processes and a simulated fleet over HTTP. The collector is "
        "killed with -9 at random and started again; then what is stored is compared with what was "
        "acknowledged, with brute force over the log, and with an undisturbed run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--small", action="store_true", help="64 ranks, 60 s, three kills")
    parser.add_argument("--ranks", type=int, default=16384, help="[16384]")
    parser.add_argument("--seconds", type=float, default=600.0, help="of the fleet [600]")
    parser.add_argument("--step-seconds", type=float, help="[what two cores sustain]")
    parser.add_argument(
        "--kill-every", type=float, nargs=2, default=(30.0, 60.0), metavar=("LEAST", "MOST"),
        help="seconds between two kills, at random [30 60]",
    )  # fmt: skip
    parser.add_argument(
        "--replicas", type=int, default=1,
        help="collectors on one PostgreSQL; by turns one is killed, stopped by SIGSTOP, or cut off "
        "from the database by a TCP relay that goes silent [1]",
    )  # fmt: skip
    parser.add_argument(
        "--stop-seconds", type=float, default=60.0, help="how long one is stopped or cut off [60]"
    )
    parser.add_argument("--seed", type=int, help="of the moments and of the fleet's noise [random]")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep store, logs and receipts, also if it held"
    )
    return parser


def main(words: list[str]) -> int:
    """Run one soak and print its table; the exit code tells whether all checks hold."""
    arguments = _parser().parse_args(words)
    if arguments.small:
        for name, value in _SMALL.items():
            setattr(arguments, name, value)
    seed = random.SystemRandom().randrange(1 << 16) if arguments.seed is None else arguments.seed
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="stepwatch-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        _parser().error(f"--keep {folder} must be an empty folder")
    plan = Plan(
        folder=folder.absolute(),
        ranks=arguments.ranks,
        seconds=arguments.seconds,
        step_seconds=arguments.step_seconds or sustained_step_seconds(arguments.ranks),
        kill_seconds=tuple(arguments.kill_every),
        seed=seed,
        store=str(folder.absolute() / "store.db"),
        replicas=arguments.replicas,
        stop_seconds=arguments.stop_seconds,
    )
    code = _INTERRUPTED
    try:
        code = _soak(plan)
    finally:
        if arguments.keep is not None or code == _BROKEN:
            _note(f"store, logs and receipts are in {folder}")
        else:
            shutil.rmtree(folder)
    return code


def _soak(plan: Plan) -> int:
    _note(
        f"seed {plan.seed}: {plan.ranks:,} ranks on {plan.nodes:,} nodes, {plan.steps} steps of "
        f"{plan.step_seconds:g} s, something every {plan.kill_seconds[0]:g} to "
        f"{plan.kill_seconds[1]:g} s; faults {' '.join(plan.faults)}"
    )
    began = time.monotonic()
    soak = Soak(plan, _note) if plan.replicas == 1 else ReplicaSoak(plan, _note)
    try:
        with terminable():
            checks = soak.run()
    except KeyboardInterrupt:
        _note("interrupted")
        return _INTERRUPTED
    except StepwatchError as error:
        _note(f"it did not hold: {error}")
        return _BROKEN
    finally:
        soak.close()
    _report(soak, checks, time.monotonic() - began)
    return _HELD if all(check.holds for check in checks) else _BROKEN


def _report(soak: Soak, checks: list[Check], seconds: float) -> None:
    back = soak.disturbances.back_seconds
    slowest = f", back after {min(back):.1f} to {max(back):.1f} s" if back else ""
    rows = [[check.claim, "yes" if check.holds else "NO", check.detail] for check in checks]
    print()
    print(text.table(["what", "holds", "found"], rows, "", left_columns=3))
    verdict = "everything held" if all(check.holds for check in checks) else "it did NOT hold"
    print(
        f"\nseed {soak.plan.seed}: {verdict}; {soak.disturbances.words()}{slowest}; "
        f"{seconds:.0f} s in all, {os.cpu_count()} cores"
    )


def _note(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
