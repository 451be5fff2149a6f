"""`stepwatch track` into real TensorBoard event files, read back by TensorBoard's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")

from tensorboard.backend.event_processing import event_accumulator as reading

from stepwatch.cli.main import PROBLEM, USAGE, main
from stepwatch.signals.records import Kind, Link, Verification
from tests.cli.track.courses import (
    finish,
    send_steps,
    track_once,
    track_with_kills,
    tracking,
    words,
)
from tests.collector.conftest import collector
from tests.collector.made import JOB, body, link_rows, segment
from tests.collector.process import Process
from tests.collector.state.trackers.test_checkpoints import read_rows
from tests.waiting import until

__all__ = ["collector"]
pytestmark = pytest.mark.filterwarnings("ignore")
PACE = "stepwatch/recent_step_seconds"


def read(folder: Path) -> Any:
    """Everything that is in a run, as TensorBoard reads it."""
    (folder / "stepwatch").mkdir(exist_ok=True)
    everything = {reading.SCALARS: 0, reading.TENSORS: 0}
    return reading.EventAccumulator(str(folder / "stepwatch"), everything).Reload()


def steps(folder: Path) -> list[int]:
    """The steps with a step time, oldest first."""
    found = read(folder)
    return [event.step for event in found.Scalars(PACE)] if PACE in found.Tags()["scalars"] else []


def notes(folder: Path) -> list[str]:
    found = read(folder)
    events = [event for tag in found.Tags()["tensors"] for event in found.Tensors(tag)]
    return [event.tensor_proto.string_val[0].decode() for event in events]


def test_values_and_notes_of_a_job(collector: Process, tmp_path: Path) -> None:
    send_steps(collector, 0, 60)
    track_once(collector, f"tensorboard:{tmp_path}")
    found = read(tmp_path)
    (pace,) = found.Scalars(PACE)
    assert pace.step == 59 and 0.2 < pace.value < 0.6
    (goodput,) = found.Scalars("stepwatch/sli/goodput")
    assert 0.0 < goodput.value <= 1.0
    (note,) = notes(tmp_path)
    assert note.startswith("open: straggler, rank 2") and "stepwatch runbook" in note


def test_without_to_it_writes_into_the_trainers_run(
    collector: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send_steps(collector, 0, 60)
    without_to = ["track", JOB, "--collector", collector.url, "--once"]
    assert main(without_to) == USAGE
    assert "reports no run" in capsys.readouterr().err
    rows = {Kind.LIFECYCLE: link_rows(Link("tensorboard", str(tmp_path), ""))}
    collector.send(body([segment(13, rows)]))
    until("the link to arrive", lambda: main(without_to) == 0)
    assert steps(tmp_path) == [59]
    assert f"writing into tensorboard:{tmp_path}" in capsys.readouterr().err


def test_twice_writes_nothing_twice_and_new_steps_are_added(
    collector: Process, tmp_path: Path
) -> None:
    send_steps(collector, 0, 60)
    for _ in range(3):
        track_once(collector, f"tensorboard:{tmp_path}")
    assert steps(tmp_path) == [59] and len(notes(tmp_path)) == 1
    send_steps(collector, 60, 80)
    track_once(collector, f"tensorboard:{tmp_path}")
    assert steps(tmp_path) == [59, 79] and len(notes(tmp_path)) == 1


@pytest.mark.long(
    "tests/cli/track/test_tensorboard.py::test_twice_writes_nothing_twice_and_new_steps_are_added"
)
def test_kills_write_nothing_twice_and_lose_no_note(collector: Process, tmp_path: Path) -> None:
    def points() -> int:
        return len(steps(tmp_path)) if any(tmp_path.iterdir()) else 0

    track_with_kills(collector, f"tensorboard:{tmp_path}", points, kills=4, seed=1)
    written = steps(tmp_path)
    assert written == sorted(set(written)) and written[-1] == 99 and len(written) > 4
    headlines = [note.partition("\n")[0] for note in notes(tmp_path)]
    assert [line for line in headlines if "straggler, rank 2" in line]
    assert len(headlines) == len(set(headlines))


def test_it_ends_when_the_job_has_ended(collector: Process, tmp_path: Path) -> None:
    with tracking(collector, f"tensorboard:{tmp_path}") as process:
        send_steps(collector, 0, 100)
        finish(collector)
        assert process.wait(60) == 0
    assert steps(tmp_path)[-1] == 99
    assert [note for note in notes(tmp_path) if note.startswith(("resolved:", "ended:"))]


def has_open_incident(collector: Process) -> bool:
    job = httpx.get(f"{collector.url}/v1/jobs/{JOB}", timeout=10.0).json()
    return bool(job["open_incidents"])


def test_it_ends_although_the_damage_of_a_checkpoint_stays_an_open_incident(
    collector: Process, tmp_path: Path
) -> None:
    send_steps(collector, 0, 60)
    finish(collector)
    until("the straggler's incident to end", lambda: not has_open_incident(collector))
    damaged = read_rows(16, Verification.DAMAGED, file=b"a.pt", reason=b"it is cut short")
    collector.send(body([segment(90, {Kind.VERIFICATION: damaged})]))
    until("the incident", lambda: has_open_incident(collector))
    with tracking(collector, f"tensorboard:{tmp_path}") as process:
        assert process.wait(60) == 0
    assert has_open_incident(collector)
    assert [note for note in notes(tmp_path) if note.startswith("open: checkpoint-stall")]


def test_an_outage_of_the_collector_is_one_line_and_outlasted(
    collector: Process, tmp_path: Path
) -> None:
    with tracking(collector, f"tensorboard:{tmp_path}") as process:
        send_steps(collector, 0, 60)
        until("the first step", lambda: 59 in steps(tmp_path))
        collector.end()
        assert process.stderr is not None and "no collector answers" in process.stderr.readline()
        collector.start()
        collector.wait_ready()
        send_steps(collector, 60, 100)
        until("the newest step", lambda: steps(tmp_path)[-1] == 99)
        assert steps(tmp_path) == sorted(set(steps(tmp_path)))
        process.kill()
        lines = process.stderr.readlines()
    assert len({*lines}) == len(lines) < 4, "a problem is reported once while it lasts"


def test_a_torn_record_is_written_again(collector: Process, tmp_path: Path) -> None:
    send_steps(collector, 0, 60)
    track_once(collector, f"tensorboard:{tmp_path}")
    (file,) = (tmp_path / "stepwatch").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])  # as a crash of the node leaves it
    assert notes(tmp_path) == []
    track_once(collector, f"tensorboard:{tmp_path}")
    assert steps(tmp_path) == [59] and len(notes(tmp_path)) == 1


def test_the_trainers_own_files_stay_as_they_are(collector: Process, tmp_path: Path) -> None:
    own = tmp_path / "events.out.tfevents.1.host"
    own.write_bytes(b"the trainer's")
    send_steps(collector, 0, 60)
    track_once(collector, f"tensorboard:{tmp_path}")
    assert own.read_bytes() == b"the trainer's"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["stepwatch"]


def test_a_missing_folder_job_or_collector_is_one_line(
    collector: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = f"tensorboard:{tmp_path}/none"
    assert main(words(collector, missing, "--once")) == PROBLEM
    assert main(words(collector, f"tensorboard:{tmp_path}", "--once")) == PROBLEM
    collector.end()
    assert main(words(collector, f"tensorboard:{tmp_path}", "--once")) == PROBLEM
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "no directory" in lines[0] and JOB in lines[1] and "no collector" in lines[2]
