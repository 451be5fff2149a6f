"""Plays sequences of calls under a scripted clock, on the core that STEPWATCH_CORE names.

`python -m tests.hooks.core.player` reads one sequence a line and answers with what a reader of the
ring could see: every live line after every call, and in the end every byte of the slots.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.hooks.collectives.fsdp2 import TimedCommunication
from stepwatch.hooks.core import CORE
from stepwatch.hooks.guard import Guard
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.blackbox import Identity, RingWriter, layout
from stepwatch.signals.records import Op

from .played_device import PlayedDevice

LINES = (layout.LIVE_AT, layout.COLLECTIVE_AT, layout.HOOK_ERRORS_AT, layout.HEAD_AT)
OTHER_THREAD, PID = ThreadPoolExecutor(1), os.getpid()
Call = list[Any]
"""A name of a `Player`'s method without its underscore, and arguments."""


class Stop(Exception):
    """What a trainer raises."""


class Tensor:
    """What a collective reads of a tensor."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class Parameters:
    """FSDP2's parameter group: it holds the object that communicates."""

    _all_gather_comm: Any = None


class Player:
    """One Watch, and a clock that runs other calls where a signal handler would."""

    def __init__(self, folder: Path, ticks: list[int], handlers: dict[int, Call]) -> None:
        self._now, self._reads = 1_000_000, 0
        self._ticks, self._handlers = ticks, handlers
        self._path = folder / "0"
        identity = Identity("job", 0, 0, 1, "node", os.getpid(), 1, capacity=64)
        self._ring = RingWriter(self._path, identity)
        self._words: list[str] = []
        self.guard = Guard()
        self.watch = Watch(Recorder(self._ring, self.guard, self._clock))
        self._open: list[Any] = []
        self._group_owner = Parameters()

    def _clock(self) -> int:
        self._reads += 1
        self._now += self._ticks[self._reads % len(self._ticks)]
        handler = self._handlers.pop(self._reads, None)
        if handler is not None:
            self.run(handler)
        return self._now

    def run(self, call: Call) -> None:
        """Make one call, and note how it ended."""
        name, *arguments = call
        try:
            result = getattr(self, f"_{name}")(*arguments)
        except Exception as error:  # noqa: BLE001
            result = type(error).__name__
        self._words.append(f"{name}: {result}")

    def seen(self) -> list[Any]:
        """Return the ring's lines, the current step's times, and the guard's count."""
        with self._path.open("rb") as file:
            header = file.read(layout.HEADER_SIZE)
        lines = [header[at : at + 24].hex() for at in LINES]
        timeline = self.watch.recorder.timeline
        times = (
            None
            if timeline is None
            else [
                list(timeline.totals),
                list(timeline.stack),
                timeline.bucket,
                timeline.since,
                timeline.step,
                timeline.flags,
                timeline.microbatches,
                timeline.entered,
                sorted((*key, totals.count) for key, totals in timeline.collectives.items()),
            ]
        )
        words, self._words = self._words, []
        return [lines, times, self._marks(), self.guard.errors, self.watch.step_number, words]

    def _marks(self) -> Any:
        """Return the current step's boundaries on the device."""
        marks = self.watch.instruments.device.marks
        if marks is None:
            return None
        events, *facts = marks.open
        moments = [getattr(event, "at", None) for event in events]
        counts = sorted((*key, count) for key, count in marks._counts.items())
        state = [marks.active, marks.inferred, marks._flags, marks._merged_until, marks._turn]
        return [moments, *facts, counts, state, len(marks.passed_ns)]

    def slots(self) -> str:
        """Return every byte of the slots."""
        with self._path.open("rb") as file:
            file.seek(layout.HEADER_SIZE)
            return file.read().hex()

    def _step(self, tokens: Any, number: int | None) -> None:
        context = self.watch.step(tokens, number=number)
        self._open.append(context)
        context.__enter__()

    def _phase(self, name: Any) -> None:
        context = self.watch.step().phase(name)
        self._open.append(context)
        context.__enter__()

    def _collective(self, op: Any, nbytes: Any) -> None:
        context = self.watch.collective(op, None, nbytes)
        self._open.append(context)
        context.__enter__()

    def _leave(self, place: int, fails: bool) -> None:
        """Leave what was entered last, or out of order."""
        if self._open:
            error = Stop() if fails else None
            context = self._open.pop(max(-place, -len(self._open)))
            context.__exit__(type(error) if error else None, error, None)

    def _again(self) -> None:
        """Leave a phase that may have been left, or never entered."""
        self.watch.phase("forward").__exit__(None, None, None)

    def _record(self, numbers: dict[str, Any], unnamed: list[Any]) -> None:
        values = {"nan": float("nan"), "inf": float("inf")}
        self.watch.record(
            *unnamed,
            **{
                name: values.get(value, value) if isinstance(value, str) else value
                for name, value in numbers.items()
            },
        )

    def _fsdp(self, nbytes: int, inside: list[Call], fails: bool, named: bool) -> str:
        def inner(output_tensor: Any, input_tensor: Any, group: Any) -> str:
            self._turns(inside)
            if fails:
                raise Stop
            return "result"

        timed = TimedCommunication(self.watch.instruments, inner, Op.ALL_GATHER, self._group_owner)
        self._group_owner._all_gather_comm = timed
        tensor = Tensor(nbytes)
        if named:
            return str(timed(output_tensor=tensor, input_tensor=tensor, group=None))
        return str(timed(tensor, tensor, None))

    def _timeline(self, name: str, *arguments: int) -> Any:
        timeline = self.watch.recorder.timeline
        return None if timeline is None else getattr(timeline, name)(*arguments)

    def _evaluation(self, name: str) -> None:
        getattr(self.watch.instruments.pauses.evaluation, name)()

    def _device(self, captures: int, fails_at: int) -> None:
        if self.watch.instruments.device.marks is None:
            device = PlayedDevice(self._clock, captures, fails_at)
            self.watch.instruments.device.start(device.backend())

    def _marked(self, name: str, bucket: int) -> Any:
        marks = self.watch.instruments.device.marks
        return None if marks is None else getattr(marks, name)(self._now, bucket)

    def _microbatches(self, count: int) -> None:
        if self.watch.recorder.timeline is not None:
            self.watch.recorder.timeline.microbatches += count

    def _thread(self, calls: list[Call]) -> None:
        """Make calls on the other thread; it lives on, so that its number is no other thread's."""
        if threading.current_thread() is not threading.main_thread() or os.getpid() != PID:
            self._turns(calls)
        else:
            OTHER_THREAD.submit(self._turns, calls).result()

    def _turns(self, calls: list[Call]) -> None:
        for call in calls:
            self.run(call)

    def _signal(self, call: Call) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Python runs handlers on the main thread, at a moment of its own
        previous = signal.signal(signal.SIGUSR1, lambda *_: self.run(call))
        signal.raise_signal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, previous)

    def _fork(self, calls: list[Call]) -> int:
        """Make calls in a child, as a data loader's worker does with what it inherited."""
        child = os.fork()
        if child == 0:
            self.watch._leave_to_parent()
            self._turns(calls)
            os._exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _close(self) -> None:
        self.watch.close()


def play(sequence: dict[str, Any]) -> dict[str, Any]:
    """Play one sequence on a new ring."""
    handlers = {int(read): call for read, call in sequence["handlers"].items()}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        player = Player(Path(folder), sequence["ticks"], handlers)
        seen = []
        for call in sequence["calls"]:
            player.run(call)
            seen.append(player.seen())
        player._handlers.clear()
        player.watch.close()
        return {"seen": [*seen, player.seen()], "slots": player.slots()}


def main() -> None:
    """Answer each line of standard input with a line; the first line names the core."""
    os.environ["STEPWATCH_QUIET"] = "1"
    print(CORE, flush=True)
    for line in sys.stdin:
        print(json.dumps(play(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
