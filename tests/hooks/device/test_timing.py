"""A Watch with a device: its rows, its line in the ring, and what is left when the device fails."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.core import Bucket, Timeline
from stepwatch.hooks.device.marks import DeviceMarks
from stepwatch.hooks.device.progress import SILENT_NS, Progress
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.blackbox import DeviceLine
from stepwatch.signals.records import DeviceState, Kind, LifecycleEvent, Op, Phase
from tests.hooks.conftest import only_ring, rows_in

from .scripted import ScriptedDevice

MS = 1_000_000


@pytest.fixture
def device() -> ScriptedDevice:
    return ScriptedDevice()


@pytest.fixture
def watch(rings: Path, device: ScriptedDevice) -> Iterator[Watch]:
    """A Watch on the scripted clock that times the scripted device; no side thread looks."""
    first = Watch.from_env(job="job")
    ring = first.recorder.ring
    first.recorder.disable()
    opened = Watch(Recorder(ring, first.guard, device.clock))
    opened.instruments.device.start(device.backend)
    yield opened
    opened.close()


def step(watch: Watch, device: ScriptedDevice, *, reads_loss: bool = True) -> None:
    """Forward of 25 ms, an all-reduce of 5 ms, backward of 50 ms; launched in 2 ms each."""
    with watch.step() as under_way:
        with under_way.phase("forward"):
            device.work(25 * MS)
            device.host(2 * MS)
        with watch.collective("all_reduce"):
            device.work(5 * MS)
            device.host(2 * MS)
        with under_way.phase("backward"):
            device.work(50 * MS)
            device.host(2 * MS)
        if reads_loss:
            device.synchronise()


def events(root: Path) -> list[tuple[int, bytes]]:
    rows = rows_in(root, Kind.LIFECYCLE)
    timing = rows[rows["event"] == LifecycleEvent.DEVICE_TIMING]
    return [(int(row["value"]), bytes(row["text"])) for row in timing]


def test_each_step_has_a_row_on_the_device_beside_that_of_the_host(
    watch: Watch, device: ScriptedDevice, rings: Path
) -> None:
    for _ in range(3):
        step(watch, device)
        device.host(MS)
    watch.close()
    device_rows, host = rows_in(rings, Kind.DEVICE_STEP), rows_in(rings, Kind.STEP)
    assert device_rows["step"].tolist() == host["step"].tolist() == [0, 1, 2]
    assert device_rows["forward_seconds"].tolist() == pytest.approx([0.025] * 3)
    assert device_rows["backward_seconds"].tolist() == pytest.approx([0.05] * 3)
    assert device_rows["collective_seconds"].tolist() == pytest.approx([0.005] * 3)
    assert host["forward_ns"].tolist() == [2 * MS] * 3
    collectives = rows_in(rings, Kind.DEVICE_COLLECTIVE)
    assert collectives["op"].tolist() == [Op.ALL_REDUCE] * 3
    assert collectives["exposed_seconds"].tolist() == pytest.approx([0.005] * 3)
    assert events(rings) == [(1, b"scripted")]


def test_a_row_of_the_device_comes_after_that_of_the_host(
    watch: Watch, device: ScriptedDevice, rings: Path
) -> None:
    for _ in range(4):
        step(watch, device)
    watch.close()
    device_rows, host = rows_in(rings, Kind.DEVICE_STEP), rows_in(rings, Kind.STEP)
    assert (device_rows["seq"] > host["seq"][: len(device_rows)]).all()


def test_closing_waits_for_no_device(watch: Watch, device: ScriptedDevice, rings: Path) -> None:
    for _ in range(3):
        step(watch, device, reads_loss=False)
    device_time = device.now
    watch.close()
    assert device.now == device_time
    assert len(rows_in(rings, Kind.STEP)) == 3
    assert len(rows_in(rings, Kind.DEVICE_STEP)) == 0


def test_a_device_that_fails_leaves_the_host_timed_and_is_counted_once(
    watch: Watch, device: ScriptedDevice, rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    step(watch, device)
    device.lost = True
    with caplog.at_level(logging.WARNING, logger="stepwatch"):
        for _ in range(5):
            step(watch, device)
    assert watch.guard.errors == 1
    assert "device lost" in caplog.text
    assert type(watch.recorder.timeline) is Timeline
    watch.close()
    assert events(rings) == [(1, b"scripted"), (0, b"RuntimeError: device lost")]
    assert len(rows_in(rings, Kind.STEP)) == 6


def test_a_device_without_timing_events_is_refused(
    watch: Watch, device: ScriptedDevice, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_device: Any) -> Any:
        raise NotImplementedError("no events")

    timing = watch.instruments.device
    monkeypatch.setattr("stepwatch.hooks.device.timing.open_backend", refuse)
    timing._decide("cpu")
    watch.close()
    assert events(rings)[-1] == (0, b"NotImplementedError: no events")
    assert watch.guard.errors == 1


def test_no_event_is_asked_while_the_training_thread_captures_a_graph(
    watch: Watch, device: ScriptedDevice, rings: Path
) -> None:
    for _ in range(40):  # more than wait for the side thread
        with watch.step():
            device.host(10**6)
    captures: list[bool] = []
    device.asked = lambda: captures.append(device.capturing)
    device.capturing = True
    with watch.step():
        device.host(10**6)
    watch.close()
    assert not any(captures)


def test_a_rank_without_a_device_has_the_timeline_that_it_always_had(rings: Path) -> None:
    watch = Watch.from_env(job="job")
    with watch.step() as under_way, under_way.phase("forward"):
        pass
    assert type(watch.recorder.timeline) is Timeline
    assert {type(bucket) for bucket in watch.recorder.timeline.buckets} == {Bucket}
    watch.close()
    assert events(rings) == []
    assert len(rows_in(rings, Kind.DEVICE_STEP)) == 0


def test_phases_taken_before_the_device_was_known_still_count_on_the_host(
    rings: Path, device: ScriptedDevice
) -> None:
    watch = Watch.from_env(job="job")
    old = watch.phase("forward")
    watch.instruments.device.start(device.backend)
    with watch.step(), old:
        pass
    timeline = watch.recorder.timeline
    assert timeline is not None
    assert timeline.marks is watch.instruments.device.marks is not None
    assert watch.guard.errors == 0
    watch.close()
    assert rows_in(rings, Kind.STEP)["forward_ns"][0] > 0


def test_a_forked_child_records_no_event(watch: Watch, device: ScriptedDevice) -> None:
    step(watch, device)
    pid = os.fork()
    if not pid:
        watch.recorder.disable()  # what the Watch that owns the ring does after a fork
        recorded_before = device.recorded
        step(watch, device)
        os._exit(0 if device.recorded == recorded_before else 1)
    assert os.waitpid(pid, 0)[1] == 0
    recorded_before = device.recorded
    step(watch, device)
    assert device.recorded > recorded_before


def progress(watch: Watch, device: ScriptedDevice) -> Progress:
    timing = watch.instruments.device
    assert timing.marks is not None and timing._resolver is not None
    number = lambda: watch.recorder.step_number  # noqa: E731
    return Progress(timing.marks, timing._resolver, device.clock, number)


def test_the_line_shows_where_the_device_is_while_the_host_has_gone_on(
    watch: Watch, device: ScriptedDevice
) -> None:
    device_progress = progress(watch, device)
    step(watch, device, reads_loss=False)
    step(watch, device, reads_loss=False)
    began = device.now = device.now + 14 * MS
    line = device_progress.look()
    assert line is not None
    assert line._replace(group=0) == DeviceLine(
        since_ns=began,
        step=0,
        phase=Phase.FORWARD,
        state=DeviceState.IN_COLLECTIVE,
        op=Op.ALL_REDUCE,
    )
    device.host(2 * MS)
    repeated_line = device_progress.look()
    assert repeated_line == line
    device.host(5 * MS)
    line = device_progress.look()
    assert line is not None
    assert (line.state, line.phase, line.step) == (DeviceState.WORKING, Phase.BACKWARD, 0)
    assert line.since_ns == device.now


def test_a_step_that_ends_just_now_is_still_where_the_device_is(
    watch: Watch, device: ScriptedDevice
) -> None:
    """The side thread looks when the step is closed, and not handed over yet."""
    step(watch, device)
    device_progress, timing = progress(watch, device), watch.instruments.device
    assert timing.marks is not None
    for _ in range(3):
        device.host(10**6)
        timing.marks.mark(device.now, int(Phase.FORWARD))
        device.work(10**9)
    watch.recorder.step_number += 1
    timing.marks.end_step(device.now, 1, 10**7, int(Phase.OTHER))
    line = device_progress.look()
    assert line is not None
    assert (line.step, line.phase, line.state) == (1, Phase.FORWARD, DeviceState.WORKING)


def test_a_device_that_has_passed_everything_is_idle_unless_its_stream_says_otherwise(
    watch: Watch, device: ScriptedDevice
) -> None:
    device_progress = progress(watch, device)
    step(watch, device)
    device.stream.stuck = True
    device.host(MS)
    line = device_progress.look()
    assert line is not None and line.state is DeviceState.IDLE
    device.host(2 * SILENT_NS)
    line = device_progress.look()
    assert line is not None and line.state is DeviceState.WORKING
    device.stream.stream_id = 7  # may be captured: it is not asked
    line = device_progress.look()
    assert line is not None and line.state is DeviceState.IDLE


def test_the_side_thread_shows_the_line_in_the_ring(
    watch: Watch, device: ScriptedDevice, rings: Path
) -> None:
    step(watch, device, reads_loss=False)
    device.host(3 * MS)
    watch.instruments.device._look()
    reader = only_ring(rings)
    assert reader.device().state is not DeviceState.UNKNOWN
    reader.close()


def test_where_no_other_thread_may_ask_the_training_thread_does_alone(
    rings: Path, device: ScriptedDevice
) -> None:
    watch = Watch.from_env(job="job")
    watch.instruments.device.start(device.backend._replace(prepare_thread=lambda: False))
    for _ in range(3):
        step(watch, device)
        device.host(MS)
        watch.instruments.device._look()
    reader = only_ring(rings)
    assert reader.device().state is DeviceState.UNKNOWN
    reader.close()
    assert len(rows_in(rings, Kind.DEVICE_STEP)) == 2
    watch.close()


def test_a_side_thread_that_finds_the_device_lost_leaves_the_host_timed(
    watch: Watch, device: ScriptedDevice, rings: Path
) -> None:
    step(watch, device)
    device.lost = True
    watch.instruments.device._look()
    device.lost = False
    step(watch, device)
    assert events(rings)[-1] == (0, b"RuntimeError: device lost")
    assert watch.guard.errors == 1


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, OverflowError])
def test_whatever_a_side_thread_meets_is_counted_once_with_its_reason(
    watch: Watch, device: ScriptedDevice, rings: Path, kind: type[Exception]
) -> None:
    def fail() -> None:
        raise kind("odd")

    step(watch, device)
    device.asked = fail
    for _ in range(2):
        watch.instruments.device._look()
    device.asked = lambda: None
    step(watch, device)
    step(watch, device)
    assert events(rings)[-1][1].startswith(f"{kind.__name__}: ".encode())
    assert watch.guard.errors == 1


def test_another_stream_at_the_next_step_is_the_compute_stream_from_then_on(
    watch: Watch, device: ScriptedDevice
) -> None:
    marks = watch.instruments.device.marks
    assert isinstance(marks, DeviceMarks)
    step(watch, device)
    device.current = device.stream = type(device.stream)(9)
    step(watch, device)
    assert marks.stream is device.current
