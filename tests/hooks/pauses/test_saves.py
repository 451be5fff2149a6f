"""Saves that nobody marks: the phase while they last, and the record that stays."""

from __future__ import annotations

import io
import pickle
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.records import CheckpointEvent, Kind
from tests.hooks.conftest import rows_in

from .conftest import Live

torch = pytest.importorskip("torch", reason="saves are torch's")

BEGIN, FAILED = CheckpointEvent.BEGIN, CheckpointEvent.FAILED


class Seen:
    """Writes down the phase in which it is pickled."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.phases: list[str] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as an empty dict."""
        self.phases.append(self.live())
        return dict, ()


def events(rings: Path) -> list[tuple[int, int, bool]]:
    """(step, event, whether it says how long the loop stood still) of each record."""
    rows = rows_in(rings, Kind.CHECKPOINT)
    return [(int(row["step"]), int(row["event"]), bool(row["stall_ns"])) for row in rows]


def test_a_save_is_shown_while_it_lasts_and_recorded(
    watch: Watch, rings: Path, live: Live, tmp_path: Path
) -> None:
    with watch.step():
        pass
    reporter = Seen(live)
    torch.save({"one": reporter}, tmp_path / "a.pt")
    assert reporter.phases == ["checkpoint"]
    assert live() == "other"
    torch.serialization.save({"one": 1}, f=str(tmp_path / "b.pt"))
    assert events(rings) == [(1, BEGIN, False), (1, BEGIN, True)] * 2
    _, first, _, total_ns = rows_in(rings, Kind.CHECKPOINT)["stall_ns"]
    assert total_ns > first, "two files of one checkpoint"
    assert torch.load(tmp_path / "b.pt") == {"one": 1}


def test_a_save_that_fails_is_recorded_and_raises_as_before(
    watch: Watch, rings: Path, live: Live, tmp_path: Path
) -> None:
    watch.attach()
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch.save({}, tmp_path / "nowhere" / "a.pt")
    assert events(rings) == [(0, BEGIN, False), (0, FAILED, True)]
    assert live() == "other"
    assert watch.guard.errors == 0


def test_a_save_into_memory_is_no_checkpoint(watch: Watch, rings: Path, live: Live) -> None:
    watch.attach()
    reporter = Seen(live)
    torch.save(reporter, io.BytesIO())
    assert reporter.phases == ["checkpoint"]
    assert events(rings) == []


def test_what_a_marked_checkpoint_saves_is_its_own(
    watch: Watch, rings: Path, tmp_path: Path
) -> None:
    watch.attach()
    with watch.checkpoint(7):
        torch.save({}, tmp_path / "a.pt")
    assert events(rings) == [(7, BEGIN, False), (7, BEGIN, True)]


def test_another_thread_does_not_hold_the_loop_up(
    watch: Watch, rings: Path, tmp_path: Path
) -> None:
    watch.attach()
    thread = threading.Thread(target=torch.save, args=({}, tmp_path / "a.pt"))
    thread.start()
    thread.join()
    assert events(rings) == []


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_a_distributed_save_and_what_fails_behind_an_async_one(
    watch: Watch, rings: Path, live: Live, tmp_path: Path
) -> None:
    watch.attach()
    from stepwatch.hooks.pauses.saves import RecognisedSave

    dcp = pytest.importorskip("torch.distributed.checkpoint", reason="needs torch.distributed")
    dcp.save({"one": torch.ones(2)}, checkpoint_id=tmp_path / "sync")
    assert events(rings) == [(0, BEGIN, False), (0, BEGIN, True)]
    handle = RecognisedSave(watch.instruments.pauses.saves, watch.instruments.checkpoints, 0)
    future: Future[None] = Future()
    handle.follow(future)
    future.set_exception(OSError("disk"))
    with watch.step():
        pass
    last = rows_in(rings, Kind.CHECKPOINT)[-1]
    assert (last["event"], last["text"]) == (FAILED, b"OSError: disk")


def test_everything_is_as_before_once_the_watch_is_closed(watch: Watch, tmp_path: Path) -> None:
    originals = torch.save, torch.serialization.save, torch.nn.Module.train
    watch.attach()
    watch.attach()
    during = torch.save, torch.serialization.save, torch.nn.Module.train
    assert all(new.__wrapped__ is old for new, old in zip(during, originals, strict=True))
    watch.close()
    assert (torch.save, torch.serialization.save, torch.nn.Module.train) == originals


def test_what_somebody_else_replaced_since_stays_and_passes_through(
    watch: Watch, rings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.attach()
    ours = torch.save
    monkeypatch.setattr(torch, "save", lambda *args: ours(*args))
    replacement = torch.save
    watch.close()
    assert torch.save is replacement
    torch.save({}, tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt") == {}
    assert events(rings) == []
    monkeypatch.setattr(torch, "save", ours.__wrapped__)


def test_a_save_is_found_by_its_name_as_before(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "save", torch.serialization.save)
    watch.attach()
    assert torch.save is torch.serialization.save
    assert pickle.loads(pickle.dumps(torch.save)) is torch.save  # noqa: S301
    watch.close()
    assert torch.save is torch.serialization.save


def test_a_save_to_a_full_disk_says_so(watch: Watch, rings: Path) -> None:
    watch.attach()
    values = {"one": torch.zeros(1 << 20)}
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError, match="No space"):
        torch.save(values, full)
    text = rows_in(rings, Kind.CHECKPOINT)["text"][-1]
    assert text == b"OSError: [Errno 28] No space left on device"
