"""Imports torch and the trainer once and forks the ranks of each run.

A rank under torchrun imports for three seconds, and torchrun itself for two. Tests that do not
concern the start of a run get their ranks from here: separate processes without other differences.

It reads one run per line and answers with the exit codes of its ranks. No process group, and so no
thread, exists when it forks. Like torchrun it ends the other ranks once one has failed.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.pipelining
from torch.nn.parallel import DistributedDataParallel as _ddp  # noqa: F401

from tests.ranks.child import become_rank, environment_of

# Not on a torch that only the hooks are tested with.
with suppress(ImportError):
    import stepwatch.trainer.parallel.pipeline
    import stepwatch.trainer.run.rank  # noqa: F401


def _fork(run: dict[str, Any], rank: int) -> int:
    """Fork one rank; return 0 in the child, which is then the rank."""
    child = os.fork()
    if child == 0:
        os.environ.clear()
        place = environment_of(rank, run["world"], run["port"])
        become_rank(Path(run["folder"], f"rank-{rank}.log"), {**run["environ"], **place})
    return child


def _codes(children: list[int], most_seconds: float) -> list[int]:
    """Return the exit codes in the order of ranks, negative for a signal, once all have ended.

    The other ranks are killed once one has failed or is late: a hang fails its test.
    """
    codes: dict[int, int] = {}
    deadline = time.monotonic() + most_seconds
    while len(codes) < len(children):
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[pid] = os.waitstatus_to_exitcode(status)
        if codes.get(pid, 0) or time.monotonic() > deadline:
            for straggling_pid in set(children) - set(codes):
                os.kill(straggling_pid, signal.SIGKILL)
        if not pid:
            time.sleep(0.005)
    return [codes[child] for child in children]


def _serve() -> list[str] | None:
    """Fork for each run until the input ends; in a child, returns its command."""
    for line in sys.stdin:
        run = json.loads(line)
        children = []
        for rank in range(run["world"]):
            child = _fork(run, rank)
            if child == 0:
                command: list[str] = run["command"]
                return command
            children.append(child)
        print(json.dumps(_codes(children, run["most_seconds"])), flush=True)
    return None


def main() -> None:
    """Serve, or be a rank: `command` is `-m module words...` or `program words...`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    print(json.dumps([]), flush=True)
    command = _serve()
    if command is None:
        return
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main()
