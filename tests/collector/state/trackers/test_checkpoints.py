"""What agents find in checkpoints: known by job, with the reason, over all of a step's files."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from stepwatch.collector.detect import checkpoint_damage
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.site import Objectives, read_objectives
from stepwatch.collector.state.trackers import checkpoints
from stepwatch.collector.state.trackers.checkpoints import Checkpoint, failures_in_a_row
from stepwatch.collector.web.recorded.checkpoints_view import job_checkpoints
from stepwatch.signals.records import DTYPES, CheckpointEvent, Kind, LifecycleEvent, Verification
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    run_segments,
    segment,
)

WAITING, VERIFIED = Verification.WAITING, Verification.VERIFIED
DAMAGED, UNKNOWN, REMOVED = Verification.DAMAGED, Verification.UNKNOWN, Verification.REMOVED


def read_rows(
    step: int, state: Verification, *, path: str = "/runs/a", rank: int = 0, **fields: Any
) -> Rows:
    """One VERIFICATION row."""
    rows = np.zeros(1, dtype=DTYPES[Kind.VERIFICATION])
    rows["rank"], rows["step"], rows["state"] = rank, step, state
    rows["path"], rows["path_number"] = path.encode(), zlib.crc32(path.encode())
    for name, value in fields.items():
        rows[name] = value
    return rows


class Story:
    """A job of 40 steps whose checkpoints are read; `document` is its answer."""

    def __init__(self, service: Service, clock: HandClock) -> None:
        self.service, self.clock = service, clock
        self._sequence = 100
        service.site_objectives.replace(Objectives(read_objectives().slos))
        service.receive(body(run_segments(40)))
        clock.advance(1.0)

    def save(self, step: int) -> None:
        self.send(Kind.CHECKPOINT, checkpoint_rows(CheckpointEvent.BEGIN, range(4), step))

    def read(self, step: int, state: Verification, **fields: Any) -> None:
        self.send(Kind.VERIFICATION, read_rows(step, state, **fields))

    def send(self, kind: Kind, rows: Rows) -> None:
        self._sequence += 1
        self.service.receive(body([segment(self._sequence, {kind: rows})]))

    @property
    def document(self) -> Any:
        self.service.evaluate()
        state = self.service.job(JOB)
        assert state is not None
        return job_checkpoints(*state, self.clock.wall)

    def states(self) -> list[tuple[int, str, str]]:
        rows = self.document["checkpoints"]
        return [(item["step"], item["state"], item["reason"]) for item in rows]

    def findings(self) -> list[str]:
        self.service.evaluate()
        state = self.service.job(JOB)
        assert state is not None
        return [item.summary for item in state[1].findings if item.subject == "damaged"]

    def incidents(self) -> list[tuple[str, str, str]]:
        self.service.evaluate()
        state = self.service.job(JOB)
        assert state is not None
        return [(item.kind, item.cause, item.state) for item in state[1].incidents.values()]

    def slo(self) -> str:
        self.clock.advance(10.0)
        self.service.evaluate()
        state = self.service.job(JOB)
        assert state is not None
        statuses = {item.slo.name: item.state.value for item in state[1].slo_statuses}
        return statuses["checkpoint-success"]


@pytest.fixture
def story(service: Service, clock: HandClock) -> Story:
    return Story(service, clock)


def test_the_objective_is_known_once_an_agent_verified_a_checkpoint(story: Story) -> None:
    story.save(16)
    assert story.states() == [(16, "written", "no path was reported")]
    assert story.slo() == "unknown"
    story.read(16, WAITING)
    assert story.states() == [(16, "written", "not verified yet")]
    story.read(16, VERIFIED, bytes=5000)
    assert story.slo() == "ok"
    document = story.document
    assert document["recovery"]["step"] == 16 and document["recovery"]["steps"] == 23
    assert document["recovery"]["seconds"] == pytest.approx(23 * 0.2, abs=0.1)
    assert document["checkpoints"][0]["path"] == "/runs/a"
    assert document["checkpoints"][0]["size_bytes"] == 5000


def test_a_checkpoint_of_several_files_is_good_once_all_are(story: Story) -> None:
    story.save(16)
    for path in ("/runs/a", "/runs/b"):
        story.read(16, WAITING, path=path, rank=1)
    story.read(16, VERIFIED, path="/runs/a", rank=1)
    assert [item[1] for item in story.states()] == ["written"]
    story.read(16, UNKNOWN, path="/runs/b", rank=1, reason=b"no permission")
    assert story.states() == [(16, "unknown", "no permission")]
    story.read(16, VERIFIED, path="/runs/b", rank=1)
    assert [item[1] for item in story.states()] == ["verified"]


def test_damage_is_a_finding_with_file_and_last_good_one_until_a_newer_is_good(
    story: Story,
) -> None:
    for step in (8, 16):
        story.save(step)
    story.read(8, VERIFIED)
    story.read(16, DAMAGED, file=b"model.safetensors", reason=b"it is cut short")
    assert story.findings() == [
        "the checkpoint of step 16 is damaged: model.safetensors: it is cut short; "
        "the last good one is of step 8"
    ]
    assert story.states()[0] == (16, "damaged", "it is cut short")
    assert story.document["recovery"]["step"] == 8
    story.read(24, VERIFIED)
    assert story.findings() == []


def test_a_good_checkpoint_that_is_lost_pages(story: Story) -> None:
    story.read(16, VERIFIED)
    story.read(16, DAMAGED, again=1, file=b"a.pt", reason=b"it does not match its digest")
    (summary,) = story.findings()
    assert "was good and is damaged now" in summary and "no other is known" in summary
    state = story.service.job(JOB)
    assert state is not None
    assert failures_in_a_row([state[0].current.checkpoints.by_step]) == 2
    story.read(24, VERIFIED)
    assert story.findings() == []
    assert failures_in_a_row([state[0].current.checkpoints.by_step]) == 0


def test_damage_after_the_end_is_an_incident_for_a_day_or_until_the_files_are_removed(
    story: Story,
) -> None:
    story.read(16, VERIFIED)
    story.send(Kind.LIFECYCLE, lifecycle_rows(LifecycleEvent.FINISH, range(4)))
    assert story.incidents() == []
    story.clock.advance(3600.0)  # no rank sends, and only a later reading finds the damage
    damaged = [("checkpoint-stall", "storage-fault", "open")]
    story.read(16, DAMAGED, again=1, file=b"a.pt", reason=b"it does not match its digest")
    assert story.incidents() == damaged
    story.clock.advance(3600.0)
    assert story.incidents() == damaged
    story.read(16, REMOVED, again=1)
    ended = [("checkpoint-stall", "storage-fault", "ended")]
    assert story.incidents() == ended


def test_damage_after_the_end_does_not_stay_an_open_incident_for_ever(story: Story) -> None:
    story.send(Kind.LIFECYCLE, lifecycle_rows(LifecycleEvent.FINISH, range(4)))
    story.read(16, DAMAGED, file=b"a.pt", reason=b"it is cut short")
    assert [state for *_, state in story.incidents()] == ["open"]
    story.clock.advance(25 * 3600.0)
    assert [state for *_, state in story.incidents()] == ["ended"]


def test_a_deleted_checkpoint_is_no_recovery_point(story: Story) -> None:
    for step in (8, 16):
        story.read(step, VERIFIED)
    story.read(16, REMOVED, again=1)
    assert story.document["recovery"]["step"] == 8
    story.read(8, REMOVED, again=1)
    recovery = story.document["recovery"]
    assert (recovery["step"], recovery["seconds"]) == (None, None) and recovery["reason"]
    assert [item[1] for item in story.states()] == ["removed", "removed"]


def test_the_held_paths_are_bounded(monkeypatch: pytest.MonkeyPatch, story: Story) -> None:
    monkeypatch.setattr(checkpoints, "MAX_FILES", 3)
    for step in range(8, 48, 8):
        story.read(step, VERIFIED)
    state = story.service.job(JOB)
    assert state is not None
    tracker = state[0].current.checkpoints
    assert tracker.cells == 3 and len(tracker.by_step) == 5


def test_a_rejected_checkpoint_is_none_of_the_agents() -> None:
    item = Checkpoint(8, verified=False, is_rejected=True, reason="digest")
    assert checkpoint_damage.detect([item]) == []
