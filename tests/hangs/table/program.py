"""One rank of a row that real processes play; torchrun starts it.

Words: shape, seconds of the wait, seconds of work, `marked` or not, the waiting rank, number of
waits, the port that sends bytes. A wait of `inf` seconds never ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from stepwatch.hooks import Watch
from tests.hangs.table.rows import Shape

STEPS_BEFORE, STEPS_BETWEEN, STEPS_AFTER = 40, 20, 60
STEP_SECONDS = 0.2
FOR_EVER = 3600.0
_SPINS = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
time.sleep(float(sys.argv[2]))
"""


def download(port: int) -> None:
    """Receive until the other end closes; if it only stops sending, wait for ever."""
    with socket.create_connection(("127.0.0.1", port)) as peer:
        while peer.recv(1 << 16):
            pass


def compute(seconds: float) -> None:
    """Use a CPU for the given seconds."""
    end, matrix = time.monotonic() + seconds, torch.randn(64, 64)
    while time.monotonic() < end:
        matrix = torch.tanh(matrix @ matrix)


def wait(shape: Shape, seconds: float, works: float, port: int) -> None:
    """Hold the others up for the wait's seconds, and work for `works` seconds of it."""
    idle_seconds = min(seconds, FOR_EVER) - works
    if shape is Shape.BYTES:
        download(port)
    elif shape is Shape.CPU:
        compute(works)
        time.sleep(idle_seconds)
    elif shape is Shape.CHILDREN:
        subprocess.run([sys.executable, "-c", _SPINS, str(works), str(idle_seconds)], check=True)
    else:
        time.sleep(min(seconds, FOR_EVER))


def main(words: list[str]) -> None:
    """Train, wait in between, and continue to train."""
    shape, seconds, works = Shape(words[0]), float(words[1]), float(words[2])
    marked, rank, times, port = words[3] == "marked", int(words[4]), int(words[5]), int(words[6])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    watch = Watch.from_env(job=os.environ["TABLE_JOB"])
    steps = [STEPS_BETWEEN] * (times - 1) + [STEPS_AFTER]
    _train(watch, STEPS_BEFORE)
    for count in steps:
        if dist.get_rank() == rank:
            with Path(os.environ["TABLE_BEGAN"]).open("a") as began:
                began.write(f"{time.time()}\n")
            with watch.phase("eval") if marked else contextlib.nullcontext():
                wait(shape, seconds, works, port)
        _train(watch, count)
    watch.finish()
    watch.close()


def _train(watch: Watch, steps: int) -> None:
    for _ in range(steps):
        with watch.step(tokens=8) as step:
            with step.phase("forward"):
                time.sleep(STEP_SECONDS)
            values = torch.ones(1000)
            with step.phase("backward"), watch.collective("all_reduce", None, values.nbytes):
                dist.all_reduce(values)


if __name__ == "__main__":
    main(sys.argv[1:])
