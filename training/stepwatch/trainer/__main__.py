"""One rank of the trainer: `torchrun --nproc-per-node 4 -m stepwatch.trainer ...`."""

from __future__ import annotations

import os
import sys

from stepwatch.signals.errors import StepwatchError, UsageError

from .configure import configure


def main() -> int:
    """Run this rank and return its exit code: 0 done, 1 problem, 2 wrong usage, 75 preempted."""
    try:
        options, faults = configure(sys.argv[1:], "python -m stepwatch.trainer")
        if faults:
            raise UsageError(
                "--fault is for `stepwatch train`; set STEPWATCH_FAULTS under torchrun"
            )
        from .rank import run_rank

        run_rank(options)
    except StepwatchError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"stepwatch: {error}", file=sys.stderr, flush=True)
        return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    sys.exit(main())
