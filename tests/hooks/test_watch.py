"""A Watch records what happened, and takes any misuse without a word to the trainer."""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.hooks import Watch
from stepwatch.signals import places
from stepwatch.signals.records import Kind, LifecycleEvent, StepFlag
from tests.waiting import until

from .conftest import only_ring, rows_in


def test_a_step_is_recorded_with_its_phases(watch: Watch, rings: Path) -> None:
    for number, batch in enumerate(watch.batches([1, 2, 3])):
        with watch.step(tokens=10 * batch) as step:
            with step.phase("forward"):
                time.sleep(0.01)
                with step.phase("eval") if number == 1 else step.phase("forward"):
                    time.sleep(0.005)
            step.record(loss=1.5, grad_norm=2)
    rows = rows_in(rings, Kind.STEP)
    assert rows["step"].tolist() == [0, 1, 2]
    assert rows["tokens"].tolist() == [10, 20, 30]
    assert (rows["forward_ns"] >= 9_000_000).all()
    assert (rows["eval_ns"] >= 4_000_000).tolist() == [False, True, False]
    assert rows["flags"].tolist() == [StepFlag.FIRST, StepFlag.AFTER_PAUSE, 0]
    assert (rows["loss"] == 1.5).all() and (rows["grad_norm"] == 2).all()
    parts = [name for name in rows.dtype.names or () if name.endswith("_ns")]
    parts = [name for name in parts if name not in ("time_ns", "duration_ns")]
    self_ns = np.sum([rows[name] for name in parts], axis=0)
    assert self_ns.tolist() == rows["duration_ns"].tolist()


def test_an_exception_passes_through_and_leaves_the_clock_right(watch: Watch, rings: Path) -> None:
    with pytest.raises(KeyError, match="mine"), watch.step() as step, step.phase("backward"):
        raise KeyError("mine")
    with watch.step() as step, step.phase("forward"):
        pass
    rows = rows_in(rings, Kind.STEP)
    assert rows["flags"].tolist() == [StepFlag.FIRST | StepFlag.UNFINISHED, 0]
    assert rows["loss"].tolist() != rows["loss"].tolist(), "an unknown loss is NaN"
    assert rows["backward_ns"][1] == 0
    assert watch.guard.errors == 0


def test_a_number_without_a_name_is_left_out_and_said_once(
    watch: Watch, rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unnamed: Any = [2.5]
    for _ in range(2):
        with watch.step() as step:
            step.record(*unnamed, grad_norm=2.0)
    assert rows_in(rings, Kind.STEP)["grad_norm"].tolist() == [2.0, 2.0]
    assert watch.guard.errors == 2
    assert [record.getMessage() for record in caplog.records] == [
        "stepwatch: record(...) left out a number without a name; write record(loss=...)",
    ]


def test_what_loss_was_not_recorded_is_not_carried_over(watch: Watch, rings: Path) -> None:
    with watch.step(tokens=5) as step:
        step.record(loss=3.0)
    with watch.step():
        pass
    rows = rows_in(rings, Kind.STEP)
    assert rows["loss"][0] == 3.0 and rows["loss"][1] != rows["loss"][1]
    assert rows["tokens"].tolist() == [5, 0]


def misuse_step_in_step(watch: Watch) -> None:
    with watch.step(), watch.step():
        pass


def misuse_after_close(watch: Watch) -> None:
    watch.close()
    with watch.step() as step, step.phase("forward"):
        step.record(loss=1.0)
    watch.phase("no such phase")
    watch.close()
    watch.finish()
    watch.preempted()
    watch.checkpoint(1).verified()
    assert list(watch.batches([1, 2])) == [1, 2]


def misuse_phase_twice(watch: Watch) -> None:
    with watch.step() as step:
        phase = step.phase("forward")
        phase.__enter__()
        phase.__exit__(None, None, None)
        phase.__exit__(None, None, None)


def misuse_types(watch: Watch) -> None:
    wrong: Any = ["forward"]
    with watch.step(tokens=wrong) as step, step.phase(wrong):
        step.record(loss="a lot", grad_norm=object())
    watch.start_at(wrong)
    watch.attach(model=wrong, schedule=wrong)
    with watch.collective(wrong, group="nonsense", nbytes=3):
        pass


def misuse_numbers(watch: Watch) -> None:
    for tokens in (-1, 1 << 40, float("nan")):
        with watch.step(tokens=tokens) as step:  # type: ignore[arg-type]
            step.record(loss=10**400)
    watch.start_at(-5)
    watch.start_at(1 << 40)
    with watch.step():
        pass


def misuse_checkpoints(watch: Watch) -> None:
    wrong: Any = ValueError("disk")
    for step in (-1, 1 << 40, 3):
        with watch.checkpoint(step) as handle:
            pass
        handle.written(nbytes=-3, durable_seconds=float("nan"))
        handle.written(nbytes=wrong, durable_seconds=float("inf"))
        handle.failed(wrong)
        handle.rejected("x\0y\ud800" * 99)
    with watch.step():
        pass


MISUSES: list[Callable[[Watch], None]] = [
    misuse_step_in_step,
    misuse_after_close,
    misuse_phase_twice,
    misuse_types,
    misuse_numbers,
    misuse_checkpoints,
]


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_is_counted_logged_once_and_never_raised(
    watch: Watch, rings: Path, misuse: Callable[[Watch], None], caplog: pytest.LogCaptureFixture
) -> None:
    with watch.step():
        pass
    misuse(watch)
    counted = watch.guard.errors
    assert counted > 0
    messages = [record.getMessage() for record in caplog.records]
    assert messages and all(text.startswith("stepwatch: ") for text in messages)
    assert len(messages) == len(set(messages))
    if watch.enabled:
        assert only_ring(rings).hook_errors == counted
        with watch.step():
            pass
        assert rows_in(rings, Kind.STEP)["step"].tolist()[-1] == watch.step_number - 1


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"RANK": "two"}, "RANK='two' is not a whole number"),
        ({"RANK": "-1"}, "not a whole number"),
        ({"RANK": "\u00b2"}, "not a whole number"),
        ({"RANK": "99999999999999999999"}, "cannot create the ring"),
        ({"WORLD_SIZE": "4.0"}, "not a whole number"),
        ({places.ENV_ATTEMPT_BASE: "x"}, "not a whole number"),
        ({places.ENV_JOB: "../../etc"}, "job name"),
        ({places.ENV_JOB_CLASS: "a b"}, places.ENV_JOB_CLASS),
        ({places.ENV_RING_DIR: "/proc/nowhere"}, "set STEPWATCH_RING_DIR to a writable"),
        ({places.ENV_RING_DIR: "/dev/null"}, "set STEPWATCH_RING_DIR to a writable"),
    ],
)
def test_a_bad_environment_disables_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    environ: dict[str, str],
    reason: str,
) -> None:
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    threads_before = set(threading.enumerate())
    watch = Watch.from_env(job="job")
    with watch.step() as step, step.phase("forward"):
        step.record(loss=1.0)
    with watch.checkpoint(1) as handle:
        handle.verified()
    watch.close()
    assert not watch.enabled
    assert watch.guard.errors == 1
    (record,) = caplog.records
    assert reason in record.getMessage() and "\n" not in record.getMessage()
    assert set(threading.enumerate()) <= threads_before


@pytest.mark.parametrize(
    "arguments",
    [
        {"job": 5},
        {"job": "a/b"},
        {"mesh_index": {"pp": "first"}},
        {"mesh_index": {"cp": 1}},
        {"mesh_index": {"pp": 1 << 20}},
        {"mesh_size": 3},
        {"device": "cuda:0"},
    ],
)
def test_bad_arguments_disable_with_one_line(
    caplog: pytest.LogCaptureFixture, arguments: dict[str, Any]
) -> None:
    watch = Watch.from_env(**arguments)
    assert (watch.enabled, watch.guard.errors, len(caplog.records)) == (False, 1, 1)


def test_a_full_disk_disables_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.strip()}")
    try:
        monkeypatch.setenv(places.ENV_RING_DIR, str(folder))
        watch = Watch.from_env(job="job")
        with watch.step():
            pass
        assert not watch.enabled
        assert "No space left on device" in caplog.text
        assert [path for path in folder.rglob("*") if path.is_file()] == []
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_switched_off_it_leaves_no_trace(
    rings: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(places.ENV_DISABLE, "1")
    threads_before = set(threading.enumerate())
    watch = Watch.from_env(job="job")
    for _ in watch.batches([1]):
        with watch.step() as step, step.phase("forward"), watch.collective("all_reduce"):
            step.record(loss=1.0)
    watch.attach(model=object())
    watch.close()
    assert (watch.guard.errors, caplog.records, rings.exists()) == (0, [], False)
    assert set(threading.enumerate()) <= threads_before


def test_a_second_watch_does_nothing_and_the_first_goes_on(
    watch: Watch, rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    second = Watch.from_env(job="other")
    assert not second.enabled
    assert "has a Watch already" in caplog.text
    with watch.step(), second.step():
        pass
    assert len(rows_in(rings, Kind.STEP)) == 1
    watch.close()
    third = Watch.from_env(job="job")
    assert third.enabled
    third.close()


def test_outside_torchrun_it_watches_as_rank_0_of_1(
    rings: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.delenv("RANK")
    watch = Watch.from_env()
    watch.close()
    assert only_ring(rings).path == rings / "default/0/0"
    assert caplog.text.count("no launcher numbered this process") == 1


def test_attempts_count_on_from_the_base(rings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    for base, restart, attempt in (("", "0", 0), ("", "2", 2), ("5", "1", 6)):
        monkeypatch.setenv(places.ENV_ATTEMPT_BASE, base)
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restart)
        Watch.from_env(job="job").close()
        assert (rings / f"job/{attempt}/3").is_file()


def test_a_ring_of_an_earlier_process_is_replaced(watch: Watch, rings: Path) -> None:
    with watch.step():
        pass
    first = only_ring(rings).identity.ring_id
    watch.close()
    reopened = Watch.from_env(job="job")
    assert only_ring(rings).identity.ring_id != first
    assert len(rows_in(rings, Kind.STEP)) == 0
    reopened.close()


def test_checkpoint_facts_come_from_any_thread(watch: Watch, rings: Path) -> None:
    with watch.step(), watch.checkpoint(7) as handle:
        time.sleep(0.01)

    def save() -> None:
        handle.written(nbytes=99, durable_seconds=1.5)
        handle.verified()

    saver = threading.Thread(target=save)
    saver.start()
    saver.join()
    with pytest.raises(OSError, match="full"), watch.checkpoint(8):
        raise OSError("disk full")
    handle.failed("é" * 40)
    watch.close()
    rows = rows_in(rings, Kind.CHECKPOINT)
    assert rows["step"].tolist() == [7, 7, 7, 7, 8, 8, 7]
    assert rows["event"].tolist() == [1, 1, 2, 3, 1, 4, 4]
    assert rows["stall_ns"][1] >= 9_000_000
    assert rows["durable_ns"][2] == 1_500_000_000 and rows["bytes"][2] == 99
    assert rows["text"][5] == b"OSError: disk full" and rows["text"][6].decode() == "é" * 24
    step = rows_in(rings, Kind.STEP)[0]
    assert step["checkpoint_ns"] >= 9_000_000
    assert step["flags"] & StepFlag.AFTER_PAUSE


def test_a_watch_closed_inside_leaves_the_trainers_exception_alone(watch: Watch) -> None:
    with pytest.raises(SystemExit), watch.step() as step, step.phase("forward"):  # noqa: SIM117
        with watch.checkpoint(3), watch.collective("all_reduce", nbytes=4):
            watch.close()
            raise SystemExit(143)


def test_the_heart_beats_and_stops_with_the_watch(watch: Watch, rings: Path) -> None:
    reader = only_ring(rings)
    first = reader.heartbeat_ns
    until("a beat", lambda: reader.heartbeat_ns > first)
    hearts = [thread for thread in threading.enumerate() if thread.name == "stepwatch-heartbeat"]
    assert hearts
    watch.close()
    until("the heart to stop", lambda: not any(heart.is_alive() for heart in hearts))
    assert reader.closed


def test_an_error_in_one_part_of_the_end_keeps_no_other_from_it(
    watch: Watch, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError("broken")

    monkeypatch.setattr(watch.steps, "close", fail)
    watch.close()
    assert watch.guard.errors == 1 and not watch.enabled
    assert LifecycleEvent.FINISH in rows_in(rings, Kind.LIFECYCLE)["event"]
