"""One rank of the trainer: `torchrun --nproc-per-node 4 -m stepwatch.trainer ...`."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

from stepwatch.signals.errors import StepwatchError, UsageError
from stepwatch.signals.stderr.keeping import keep_stderr


def main() -> NoReturn:
    """Run this rank; exit codes: 0 done, 1 problem, 2 wrong usage, 75 preempted."""
    keep_stderr()
    # Freeze the imported objects: collecting them again and again takes a fifth of the import.
    gc.disable()
    # Import only now: torch and numpy start threads, and none may run before.
    from stepwatch.trainer.config.configure import configure
    from stepwatch.trainer.run.rank import run_rank

    gc.freeze()
    gc.enable()
    try:
        options, faults = configure(sys.argv[1:], "python -m stepwatch.trainer")
        if faults:
            raise UsageError(
                "--fault is for `stepwatch train`; set STEPWATCH_FAULTS under torchrun"
            )
        run_rank(options)
    except StepwatchError as error:
        # Every rank prints its error: only one rank may know the cause.
        print(f"stepwatch: {error}", file=sys.stderr)
        # Exit handlers, the hooks' among them, read the cause here.
        sys.last_value = error
        sys.exit(2 if isinstance(error, UsageError) else 1)


if __name__ == "__main__":
    main()
