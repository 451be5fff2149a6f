"""A rank profiles its steps when asked, and the trainer notices nothing but time."""

from __future__ import annotations

import gc
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from stepwatch.hooks import Watch
from stepwatch.hooks.profiles import profiler as profiler_module
from stepwatch.hooks.profiles.request import ProfileRequest
from stepwatch.hooks.profiles.session import COLLECTION, Session, packed
from stepwatch.signals.profiles import MOST_STEPS, ProfileState
from stepwatch.signals.records import Kind, StepFlag
from tests.hooks.conftest import rows_in

ASKED = ProfileRequest("a", 0, 2)


def train(watch: Watch, steps: int) -> list[str]:
    """Train a small model; return the bits of its losses."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(steps):
        with watch.step():
            loss = model(torch.randn(8, 16)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss.detach()).hex())
    return losses


def is_profiled() -> bool:
    autograd: Any = torch.autograd
    return bool(autograd._profiler_enabled())


def trace_of(watch: Watch, name: str = "a") -> dict[str, Any]:
    """Wait for the packed trace; return it unpacked."""
    for thread in threading.enumerate():
        if thread.name == "stepwatch-profile":
            thread.join()
    document: dict[str, Any] = json.loads(gzip.decompress(watch.instruments.profiles.result(name)))
    return document


def state_of(watch: Watch, name: str = "a") -> dict[str, Any]:
    state: dict[str, Any] = json.loads(watch.instruments.profiles.result(name))
    return state


def test_the_requested_steps_are_in_the_trace(watch: Watch, rings: Path) -> None:
    train(watch, 2)
    assert watch.instruments.profiles.ask(ASKED)["state"] == ProfileState.PENDING
    train(watch, 5)
    trace = trace_of(watch)
    names = {event["name"] for event in trace["traceEvents"] if "name" in event}
    assert {name for name in names if name.startswith("stepwatch: step")} == {
        "stepwatch: step 3",
        "stepwatch: step 4",
    }
    assert {"aten::addmm", "Optimizer.step#AdamW.step"} <= names
    facts = trace["stepwatch"]
    assert (facts["rank"], facts["first"], facts["steps"]) == (0, 3, 2)
    assert 0 < facts["cpu_ns"] <= facts["wall_ns"] * 1.05
    assert watch.guard.errors == 0


def test_profiled_steps_and_the_one_after_them_are_marked(watch: Watch, rings: Path) -> None:
    train(watch, 1)
    watch.instruments.profiles.ask(ProfileRequest("a", 3, 2))
    train(watch, 7)
    rows = rows_in(rings, Kind.STEP)
    marked = rows["step"][rows["flags"] & StepFlag.PROFILED > 0].tolist()
    assert marked == [3, 4, 5]


def test_losses_are_equal_to_the_last_bit(watch: Watch) -> None:
    without = train(watch, 8)
    watch.instruments.profiles.ask(ASKED)
    assert train(watch, 8) == without
    assert trace_of(watch)["traceEvents"]


def test_a_garbage_collection_is_marked(watch: Watch) -> None:
    watch.instruments.profiles.ask(ASKED)
    for _ in range(4):
        with watch.step():
            gc.collect()
    assert COLLECTION in {event.get("name") for event in trace_of(watch)["traceEvents"]}
    assert not any("Session" in repr(callback) for callback in gc.callbacks)


def test_one_profile_at_a_time_and_not_often(watch: Watch) -> None:
    profiles = watch.instruments.profiles
    profiles.ask(ASKED)
    assert profiles.ask(ASKED)["state"] == ProfileState.PENDING  # repeated, after a lost answer
    other = ProfileRequest("b", 0, 2)
    assert profiles.ask(other)["reason"] == "another profile is in progress"
    train(watch, 4)
    trace_of(watch)
    assert "ask again in" in profiles.ask(other)["reason"]


def test_a_request_that_cannot_begin_in_time_makes_place(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles, now = watch.instruments.profiles, time.monotonic()
    train(watch, 2)
    profiles.ask(ProfileRequest("far", 1_000_000, 2, 30))
    train(watch, 2)
    monkeypatch.setattr(time, "monotonic", lambda: now + 20.0)
    assert profiles.ask(ASKED)["reason"] == "another profile is in progress"
    monkeypatch.setattr(time, "monotonic", lambda: now + 100.0)
    reason = "step 1000000 did not begin in 30 s: the rank is at step 4"
    assert state_of(watch, "far") == {"state": "failed", "step": 4, "reason": reason}
    assert profiles.ask(ASKED)["state"] == ProfileState.PENDING, "no profile ended: no pause"
    train(watch, 4)
    assert trace_of(watch)["stepwatch"]["first"] == 5


def test_an_overdue_request_does_not_begin(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles, now = watch.instruments.profiles, time.monotonic()
    train(watch, 1)
    profiles.ask(ProfileRequest("a", 3, 2, 30))
    monkeypatch.setattr(time, "monotonic", lambda: now + 31.0)
    train(watch, 5)
    assert state_of(watch)["reason"] == "step 3 did not begin in 30 s: the rank is at step 2"
    assert not profiles.active


def test_a_trace_stays_until_it_is_released(watch: Watch) -> None:
    watch.instruments.profiles.ask(ASKED)
    train(watch, 4)
    assert trace_of(watch) == trace_of(watch)
    watch.instruments.profiles.release("other")
    assert trace_of(watch)
    watch.instruments.profiles.release("a")
    assert state_of(watch)["state"] == ProfileState.NONE


def test_a_trainer_that_profiles_keeps_its_profile(watch: Watch) -> None:
    with torch.profiler.profile() as own:
        watch.instruments.profiles.ask(ASKED)
        train(watch, 4)
    assert state_of(watch)["reason"] == "RuntimeError: the trainer profiles already"
    assert "aten::addmm" in {event.key for event in own.key_averages()}


def test_a_profile_that_the_trainer_begins_ends_ours(watch: Watch) -> None:
    train(watch, 1)
    watch.instruments.profiles.ask(ProfileRequest("a", 0, 10))
    train(watch, 3)
    with torch.profiler.profile() as own:
        train(watch, 2)
    assert "aten::addmm" in {event.key for event in own.key_averages()}
    assert state_of(watch)["reason"] == "the trainer began its own profile"
    with torch.profiler.profile() as again:
        train(watch, 2)
    assert "aten::addmm" in {event.key for event in again.key_averages()}
    assert watch.guard.errors == 0


def test_closing_ends_a_profile(watch: Watch) -> None:
    train(watch, 1)
    watch.instruments.profiles.ask(ProfileRequest("a", 0, 10))
    train(watch, 2)
    watch.close()
    assert state_of(watch)["reason"] == "the rank's hooks ended"
    assert not is_profiled()


def test_a_forked_child_is_not_traced(watch: Watch) -> None:
    train(watch, 1)
    watch.instruments.profiles.ask(ProfileRequest("a", 0, 10))
    train(watch, 2)
    assert sys.getprofile() is not None or is_profiled()
    child = os.fork()
    if not child:
        os._exit(0 if sys.getprofile() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_full_disk_fails_the_profile_alone(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    watch.instruments.profiles.ask(ASKED)
    assert len(train(watch, 5)) == 5
    for thread in threading.enumerate():
        if thread.name == "stepwatch-profile":
            thread.join()
    assert state_of(watch)["state"] == ProfileState.FAILED


def test_a_torch_without_the_parts_fails_the_request_alone(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("torch.autograd.profiler._prepare_profiler")
    watch.instruments.profiles.ask(ASKED)
    assert len(train(watch, 4)) == 4
    assert state_of(watch)["state"] == ProfileState.FAILED
    assert not is_profiled()
    assert watch.guard.errors == 1  # counted once, not at each step


def test_a_session_that_cannot_end_hurts_neither_trainer_nor_its_profile(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise AttributeError("no such part")

    train(watch, 1)
    watch.instruments.profiles.ask(ProfileRequest("a", 0, 10))
    train(watch, 2)
    session = watch.instruments.profiles._session
    assert session is not None
    monkeypatch.setattr(session._profile, "stop", fail)
    watch.instruments.profiles._abandon("the trainer began its own profile")
    monkeypatch.undo()
    session._profile.stop()
    assert state_of(watch)["state"] == ProfileState.FAILED


def test_a_trace_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwatch.hooks.profiles.session.MAX_TRACE_BYTES", 10)
    with pytest.raises(ValueError, match="ask for fewer steps"):
        packed(lambda path: Path(path).write_bytes(bytes(11)))


@pytest.mark.parametrize("seconds", ["0", "-1", "3601", "x", "1.5"])
def test_a_bad_deadline_is_refused(seconds: str) -> None:
    with pytest.raises(ValueError, match="seconds"):
        ProfileRequest.parse("a", "0", "1", seconds)


def test_an_earlier_agent_gives_no_deadline() -> None:
    assert ProfileRequest.parse("a", "0", "1", "") == ProfileRequest("a", 0, 1)


@pytest.mark.parametrize(
    ("name", "first", "steps"),
    [
        ("../a", "0", "1"),
        ("", "0", "1"),
        ("a" * 65, "0", "1"),
        ("a", "-1", "1"),
        ("a", "1e3", "1"),
        ("a", "9" * 11, "1"),
        ("a", "4294967296", "1"),
        ("a", "0", "0"),
        ("a", "0", str(MOST_STEPS + 1)),
        ("a", "٣", "1"),
    ],
)
def test_bad_requests_are_refused(name: str, first: str, steps: str) -> None:
    with pytest.raises(ValueError, match=r"name|first|steps"):
        ProfileRequest.parse(name, first, steps)


def test_without_a_request_nothing_is_active(watch: Watch) -> None:
    train(watch, 3)
    assert not watch.instruments.profiles.active
    assert not isinstance(watch.instruments.profiles._session, Session)


PROGRAM = """
import torch
from stepwatch.hooks import Watch
watch = Watch.from_env("job")
with watch.step():
    torch.ones(3) + 1
watch.close()
print("ended")
"""


def test_a_process_with_handlers_ends_cleanly(rings: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "ended\n"), ended.stderr


def test_handlers_answer_without_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bytes] = []

    class Response:
        def set_content(self, body: bytes, _: str) -> None:
            answers.append(body)

        def set_status(self, status: int) -> None:
            assert status == 200

    monkeypatch.setattr(profiler_module, "_current", None)
    handler = profiler_module._answering(profiler_module.StepProfiler.answer_ask)
    handler(object(), Response())
    assert json.loads(answers[0])["state"] == ProfileState.REFUSED


def test_a_handler_raises_nothing(watch: Watch) -> None:
    profiles = watch.instruments.profiles
    for answer in (profiles.answer_ask, profiles.answer_result, profiles.answer_fetched):
        assert answer(object()) is None  # no request of torch's server
    assert watch.guard.errors == 3
