"""A probe whose source hangs is unknown, is killed, and holds up nobody."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.isolation.answer import Answer, encode
from stepwatch.agent.isolation.decoding import decode
from stepwatch.agent.isolation.helper_process import HelperProcess
from stepwatch.agent.isolation.readings import Readings
from stepwatch.agent.isolation.starter import Starter
from stepwatch.agent.probes import Probe, ProbeContext
from stepwatch.agent.probes.probe import RankProcesses, Unknown
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import Kind, NodeFact, Values, unknown_values
from tests.waiting import until


class FileProbe(Probe):
    """Reads a file with one number; a FIFO that nobody writes to hangs like a sick driver does."""

    name = "file"
    kind = Kind.FLIGHT
    deadline_seconds = 0.3
    first_seconds = 0.3

    def __init__(self, file: Path, name: str = "file", ranks: RankProcesses | None = None) -> None:
        self.file = file
        self.name = name  # type: ignore[misc]
        self._ranks = ranks or RankProcesses()
        self._reads = 0

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Make the probe."""
        return cls(Path("never"))

    def supported(self) -> bool:
        """Whether the file is there."""
        return self.file.exists()

    def read(self) -> list[Values]:
        """One row: the number, how often this process has read, and itself."""
        self._reads += 1
        return [
            unknown_values(
                Kind.FLIGHT,
                collective_seq=int(self.file.read_text()),
                sizes=json.dumps([self._reads, os.getpid(), sorted(self._ranks())]).encode(),
            )
        ]

    def owners(self) -> list[set[int]]:
        """The row is about the ranks that it knows of."""
        return [set(self._ranks())]


class Raising(FileProbe):
    """Raises what no probe may raise."""

    def read(self) -> list[Values]:
        """Never reads."""
        raise KeyError("no such thing")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "number"
    place.write_text("7")
    return place


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    place = tmp_path / "fifo"
    os.mkfifo(place)
    return place


@pytest.fixture
def reading() -> Iterator[list[Readings]]:
    opened: list[Readings] = []
    yield opened
    for reading in opened:
        reading.close()


def readings_of(opened: list[Readings], *probes: Probe, ranks: RankProcesses) -> Readings:
    opened.append(Readings(probes, SystemClock(), ranks))
    return opened[-1]


def sizes_of(readings: Readings, probe: str) -> list[object]:
    """What the newest row of a probe says of the process that read it."""
    sizes: list[object] = json.loads(bytes(readings.latest[probe]["sizes"][0]))
    return sizes


def test_a_probe_is_read_in_one_process_of_its_own(file: Path, reading: list[Readings]) -> None:
    ranks = RankProcesses()
    readings = readings_of(reading, FileProbe(file, ranks=ranks), ranks=ranks)
    for number in (1, 2, 3):
        ranks.pids = frozenset({number})
        readings.read()
        times, process, numbers = sizes_of(readings, "file")
        assert times == number and numbers == [number] and process != os.getpid()
    assert readings.tables([])[Kind.FLIGHT]["collective_seq"].tolist() == [7]


def test_a_hung_read_is_unknown_and_delays_no_other_probe(
    file: Path, fifo: Path, reading: list[Readings], caplog: pytest.LogCaptureFixture
) -> None:
    ranks, other_processes = RankProcesses(), living(os.getpid())
    hung = FileProbe(fifo, "hung", ranks)
    readings = readings_of(reading, hung, FileProbe(file, ranks=ranks), ranks=ranks)
    rounds = 0

    def unknown() -> bool:
        nonlocal rounds
        readings.read()
        rounds += 1
        assert sizes_of(readings, "file")[0] == rounds, "every round has its reading"
        assert "hung" not in readings.latest
        return "hung" in readings.unknown

    until("the hung read is unknown", unknown)
    assert readings.unknown == {"hung": Unknown.LATE} and readings.up["hung"] is False
    assert caplog.text.count("probe hung is unknown (late): its read did not come back") == 1
    process = sizes_of(readings, "file")[1]
    until(
        "only the process that reads lives",
        lambda: {*living(os.getpid())} - {*other_processes} == {process},
    )


def living(parent: int) -> list[int]:
    """Living descendants of a process, zombies left out."""
    descendants = []
    for pid in map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state != "Z":
            descendants += [pid, *living(pid)]
    return descendants


def test_who_was_late_is_not_waited_for(
    fifo: Path, reading: list[Readings], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []
    waited: list[int] = []
    wait = Starter.wait

    def noted(starter: Starter, helpers: list[HelperProcess], seconds: float) -> bool:
        waited.extend(rounds[-1:])
        return wait(starter, helpers, seconds)

    ranks = RankProcesses()
    readings = readings_of(reading, FileProbe(fifo, "hung", ranks), ranks=ranks)
    readings.read()
    monkeypatch.setattr(Starter, "wait", noted)
    for number in range(1, 4):
        rounds.append(number)
        readings.read()
    assert waited == [], "only the first round of a hang costs the grace"


def test_a_source_that_comes_back_is_read_again(fifo: Path, reading: list[Readings]) -> None:
    ranks = RankProcesses()
    readings = readings_of(reading, FileProbe(fifo, ranks=ranks), ranks=ranks)

    def state() -> bool | None:
        readings.read()
        return readings.up.get("file")

    until("it hangs", lambda: state() is False)
    fifo.unlink()
    fifo.write_text("8")
    until("it is read again", state)
    assert readings.unknown == {}
    assert readings.latest["file"]["collective_seq"].tolist() == [8]


def test_a_process_that_is_killed_or_raises_is_unknown(
    file: Path, reading: list[Readings], caplog: pytest.LogCaptureFixture
) -> None:
    ranks = RankProcesses()
    probes = FileProbe(file, ranks=ranks), Raising(file, "raising", ranks)
    readings = readings_of(reading, *probes, ranks=ranks)
    readings.read()
    assert readings.unknown == {"raising": Unknown.FAILED}
    assert "probe raising is unknown (failed): KeyError: 'no such thing'" in caplog.text
    killed = sizes_of(readings, "file")[1]
    assert isinstance(killed, int)
    os.kill(killed, signal.SIGKILL)
    readings.read()
    assert readings.unknown["file"] is Unknown.FAILED and "file" not in readings.latest
    assert "its process ended while it read" in caplog.text

    def is_read() -> bool:
        readings.read()
        return "file" in readings.latest

    until("it is read again", is_read)
    assert sizes_of(readings, "file")[1] != killed


def test_no_process_is_left_when_the_agent_closes_or_is_killed(file: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from tests.agent.isolation.test_isolation import *\n"
        "ranks = RankProcesses()\n"
        f"readings = Readings([FileProbe(Path({str(file)!r}))], SystemClock(), ranks)\n"
        "readings.read()\n"
        "print(sizes_of(readings, 'file')[1], flush=True)\n"
        "sys.stdin.readline()\n"
        "readings.close()\n"
        "print(living(os.getpid()), flush=True)\n"
        "time.sleep(60)\n"
    )
    for killed in (True, False):
        with subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        ) as agent:  # fmt: skip
            assert agent.stdin is not None and agent.stdout is not None
            probe = int(agent.stdout.readline())
            descriptors = {os.readlink(path) for path in Path(f"/proc/{probe}/fd").iterdir()}
            assert len(descriptors) == 2 and os.devnull in descriptors, (
                "nothing of the agent but its pipe"
            )
            if not killed:
                agent.stdin.write("\n")
                assert agent.stdout.readline() == "[]\n"
            agent.kill()
        process_folder = Path(f"/proc/{probe}")
        until("it is gone", lambda: not process_folder.exists())  # noqa: B023


@given(
    st.lists(
        st.tuples(st.integers(0, 2**31 - 1), st.frozensets(st.integers(0, 2**22), max_size=4))
    ),
    st.text(max_size=20),
)
def test_an_answer_is_what_was_said(sockets: list[tuple[int, frozenset[int]]], detail: str) -> None:
    rows = [unknown_values(Kind.NIC, rank=rank) for rank, _ in sockets]
    facts = tuple(Sighting(NodeFact.XID, detail, code=rank, pid=1) for rank, _ in sockets)
    answer = Answer(rows, tuple(pids for _, pids in sockets), facts, None, detail)
    back = decode(encode(answer, Kind.NIC), Kind.NIC)
    assert back.rows is not None and back.rows["rank"].tolist() == [rank for rank, _ in sockets]
    assert back[1:] == answer[1:]


@given(st.binary(max_size=200))
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data, Kind.NIC)
    with pytest.raises(ValueError):
        decode(b"{}\n" + data, Kind.NIC)


@pytest.mark.long(
    "tests/agent/isolation/test_isolation.py::test_a_process_that_is_killed_or_raises_is_unknown",
)
def test_probes_start_again_while_threads_come_and_go(
    file: Path, reading: list[Readings], caplog: pytest.LogCaptureFixture
) -> None:
    """Ten processes in turn, beside threads that allocate, log and use locks."""
    ended = threading.Event()
    threads = [threading.Thread(target=busy, args=(ended,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    ranks = RankProcesses()
    try:
        for _ in range(10):
            readings = readings_of(reading, FileProbe(file, ranks=ranks), ranks=ranks)
            readings.read()
            until("it is read", lambda: has_read(readings))  # noqa: B023
            assert readings.starter.crashes == {}
    finally:
        ended.set()
        for thread in threads:
            thread.join(20)


def has_read(readings: Readings) -> bool:
    readings.read()
    return "file" in readings.latest


def busy(ended: threading.Event) -> None:
    while not ended.is_set():
        logging.getLogger("busy").debug("%s", np.zeros(1000).sum())


class Crashing(FileProbe):
    """Ends as a driver's library ends its process."""

    def read(self) -> list[Values]:
        """Never reads."""
        os.kill(os.getpid(), signal.SIGSEGV)
        return super().read()


def test_a_process_that_crashes_is_counted_and_named(
    file: Path, reading: list[Readings], caplog: pytest.LogCaptureFixture
) -> None:
    ranks = RankProcesses()
    readings = readings_of(reading, Crashing(file, ranks=ranks), ranks=ranks)

    def crashed() -> bool:
        readings.read()
        return bool(readings.unknown)

    until("it crashed", crashed)
    assert readings.unknown == {"file": Unknown.FAILED}
    assert readings.details["file"] == "its process ended while it read (SIGSEGV)"
    assert readings.starter.crashes == {("file", "SIGSEGV"): 1}
    caplog.clear()  # or the fixture that looks for crashes fails this test


def test_a_probe_that_no_process_can_make_is_unknown(
    tmp_path: Path, reading: list[Readings]
) -> None:
    ranks = RankProcesses()
    probe = FileProbe(tmp_path, name=object())  # type: ignore[arg-type]
    probe.name = "odd"  # type: ignore[misc]
    readings = readings_of(reading, probe, ranks=ranks)
    readings.read()
    assert readings.unknown == {"odd": Unknown.FAILED}
