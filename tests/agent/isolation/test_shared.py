"""Probes share a process until one fails: the others then go on, and it gets its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwatch.agent.isolation.readings import Readings
from stepwatch.agent.probes import Probe
from stepwatch.agent.probes.probe import Unknown
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import Values
from tests.waiting import until

from .test_isolation import FileProbe, Raising, living, sizes_of

Make = Callable[..., Readings]


class ByDriver(FileProbe):
    """One of those that call a driver."""

    def helper(self) -> str:
        """Apart from the kernel's files."""
        return "driver"


class CrashesOnce(FileProbe):
    """Ends its process at its second read, unless the file says 9."""

    def read(self) -> list[Values]:
        """Read, or crash."""
        rows = super().read()
        if self._reads == 2 and rows[0]["collective_seq"] != 9:
            os.kill(os.getpid(), signal.SIGSEGV)
        return rows


class Unbuilt(FileProbe):
    """Cannot be built in another process."""

    def __init__(self, file: Path, name: str = "unbuilt", pid: int = 0) -> None:
        super().__init__(file, name)
        if pid and os.getpid() != pid:
            raise ValueError("not here")


@pytest.fixture
def make() -> Iterator[Make]:
    opened: list[Readings] = []

    def build(*probes: Probe) -> Readings:
        opened.append(Readings(probes, SystemClock()))
        return opened[-1]

    yield build
    for readings in opened:
        readings.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "number"
    place.write_text("7")
    return place


def process_of(readings: Readings, name: str) -> object:
    return sizes_of(readings, name)[1]


def reads_of(readings: Readings, name: str) -> object:
    return sizes_of(readings, name)[0]


def test_probes_with_one_helper_share_its_process(file: Path, make: Make) -> None:
    before = {*living(os.getpid())}
    names = ("a", "b", "c")
    by_driver = [ByDriver(file, "d"), ByDriver(file, "e")]
    readings = make(*(FileProbe(file, name) for name in names), *by_driver)
    for number in (1, 2, 3):
        readings.read()
        assert [reads_of(readings, name) for name in (*names, "d", "e")] == [number] * 5
    assert len({process_of(readings, name) for name in names}) == 1
    assert process_of(readings, "d") == process_of(readings, "e") != process_of(readings, "a")
    assert len({*living(os.getpid())} - before) == 2, "two helpers"
    readings.close()
    assert {*living(os.getpid())} <= before


def test_a_member_that_hangs_gets_its_own_process_and_the_others_keep_theirs(
    file: Path, tmp_path: Path, make: Make
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    readings = make(FileProbe(file, "well"), FileProbe(fifo, "hung"))
    rounds = 0

    def has_hung() -> bool:
        nonlocal rounds
        readings.read()
        rounds += 1
        return readings.unknown.get("hung") is Unknown.LATE

    until("the member to be late", has_hung)
    helper = process_of(readings, "well")
    fifo.unlink()
    fifo.write_text("8")
    until("it to be read again", lambda: not has_hung() and "hung" in readings.latest)
    assert process_of(readings, "hung") != helper == process_of(readings, "well")
    assert reads_of(readings, "well") == rounds, "it lost no round and no state"


def test_a_member_with_an_error_leaves_and_the_others_stay(file: Path, make: Make) -> None:
    readings = make(FileProbe(file, "well"), Raising(file, "raising"))
    readings.read()
    assert readings.unknown == {"raising": Unknown.FAILED}
    readings.read()
    assert reads_of(readings, "well") == 2 and readings.starter.crashes == {}


def test_a_crash_costs_each_member_one_reading(
    file: Path, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    readings = make(FileProbe(file, "well"), CrashesOnce(file, "crashing"))
    readings.read()
    helper = process_of(readings, "well")

    def has_crashed() -> bool:
        readings.read()
        return readings.unknown == {"well": Unknown.FAILED, "crashing": Unknown.FAILED}

    until("the crash", has_crashed)
    assert "(SIGSEGV)" in readings.details["well"] and "(SIGSEGV)" in readings.details["crashing"]
    assert readings.starter.crashes == {("shared", "SIGSEGV"): 1}
    file.write_text("9")

    def are_read() -> bool:
        readings.read()
        return not readings.unknown

    until("both to be read again", are_read)
    assert len({process_of(readings, "well"), process_of(readings, "crashing"), helper}) == 3
    caplog.clear()  # or the fixture that looks for crashes fails this test


def test_a_member_that_cannot_be_built_stops_no_other(file: Path, make: Make) -> None:
    readings = make(FileProbe(file, "well"), Unbuilt(file, "unbuilt", os.getpid()))

    def is_named() -> bool:
        readings.read()
        assert "well" not in readings.unknown
        return "not here" in readings.details.get("unbuilt", "")

    until("the reason", is_named)
    assert readings.unknown == {"unbuilt": Unknown.FAILED}
    assert isinstance(reads_of(readings, "well"), int)
