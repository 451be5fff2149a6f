"""The paths of saves, which the agent reads from the ring."""

from __future__ import annotations

import io
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.pauses.interruptions import INTERRUPTIONS
from stepwatch.hooks.pauses.save_paths import SaveCall
from stepwatch.signals.records import Kind, LifecycleEvent, read_path
from tests.hooks.conftest import rows_in

torch = pytest.importorskip("torch", reason="saves are torch's")


def paths(rings: Path) -> list[tuple[int, str]]:
    """(step, path) of each reported save."""
    rows = rows_in(rings, Kind.LIFECYCLE)
    reported: list[tuple[int, list[str]]] = []
    for row in rows[rows["event"] == LifecycleEvent.CHECKPOINT_PATH]:
        if row["value"] == 0:
            reported.append((int(row["step"]), []))
        reported[-1][1].append(bytes(row["text"]).decode())
    return [(step, read_path(texts)) for step, texts in reported]


def path_of(name: str, *args: Any, result: Any = None, **kwargs: Any) -> Any:
    """The path of a library's call, by the function's name."""
    entry = next(item for item in INTERRUPTIONS if item.name == name and item.path is not None)
    assert entry.path is not None
    return entry.path(SaveCall(args, kwargs, result))


def test_a_save_reports_its_file_and_a_failed_one_does_not(
    watch: Watch, rings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.attach()
    monkeypatch.chdir(tmp_path)
    torch.save({}, "a.pt")
    torch.save({}, f=tmp_path / "b.pt")
    with open("c.pt", "wb") as file:
        torch.save({}, file)
    torch.save({}, io.BytesIO())
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch.save({}, tmp_path / "nowhere" / "d.pt")
    assert paths(rings) == [(0, str(tmp_path / name)) for name in ("a.pt", "b.pt", "c.pt")]
    assert watch.guard.errors == 0


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_a_marked_checkpoint_reports_its_path_or_the_files_saved_inside(
    watch: Watch, rings: Path, tmp_path: Path
) -> None:
    watch.attach()
    with watch.checkpoint(5, path=tmp_path / "five"):
        torch.save({}, tmp_path / "inner.pt")
    with watch.checkpoint(6):
        torch.save({}, tmp_path / "six.pt")
    with pytest.raises(OSError, match="full"), watch.checkpoint(7, path=tmp_path / "seven"):
        raise OSError("full")
    handle = watch.checkpoint(8, path=tmp_path / "eight")
    handle.written(nbytes=3, durable_seconds=1.0)
    with watch.step():
        pass
    wanted = [(5, "five"), (6, "six.pt"), (8, "eight")]
    assert paths(rings) == [(step, str(tmp_path / name)) for step, name in wanted]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_a_distributed_save_reports_its_folder_once(
    watch: Watch, rings: Path, tmp_path: Path
) -> None:
    watch.attach()
    from stepwatch.hooks.pauses.saves import RecognisedSave

    dcp = pytest.importorskip("torch.distributed.checkpoint", reason="needs torch.distributed")
    dcp.save({"one": torch.ones(2)}, checkpoint_id=tmp_path / "id")
    dcp.save({"one": torch.ones(2)}, storage_writer=dcp.FileSystemWriter(tmp_path / "writer"))
    handle = RecognisedSave(watch.instruments.pauses.saves, watch.instruments.checkpoints, 3)
    entry = next(item for item in INTERRUPTIONS if item.name == "async_save")
    future: Future[None] = Future()
    handle.returned(entry, SaveCall(({},), {"checkpoint_id": str(tmp_path / "later")}, future))
    assert paths(rings) == [(0, str(tmp_path / "id")), (0, str(tmp_path / "writer"))]
    future.set_result(None)
    with watch.step():
        pass
    assert paths(rings)[2:] == [(3, str(tmp_path / "later"))]


def test_a_path_that_is_long_or_foreign_or_a_secret_is_left_out(
    watch: Watch, rings: Path, tmp_path: Path
) -> None:
    long = "/runs/" + "é" * 180
    for place in (
        "s3://bucket/a.pt",
        "/runs/\x1b[31m.pt",
        "/runs/" + "a" * 440,
        "/runs/hf_" + "aB3" * 12 + "/a.pt",
        3,
        long,
    ):
        with watch.checkpoint(1, path=place):  # type: ignore[arg-type]
            pass
    assert paths(rings) == [(1, long)]
    assert watch.guard.errors == 0


def test_only_rank_0_reports_what_all_ranks_save(watch: Watch, rings: Path, tmp_path: Path) -> None:
    watch.attach()
    ring = watch.recorder.ring
    assert ring is not None
    ring.identity = ring.identity._replace(rank=1)
    with watch.checkpoint(1, path=tmp_path):
        pass
    torch.save({}, tmp_path / "shard-1.pt")
    assert paths(rings) == [(0, str(tmp_path / "shard-1.pt"))]


def test_the_frameworks_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SimpleNamespace(get_args=lambda: SimpleNamespace(save="/out"))
    monkeypatch.setitem(sys.modules, "megatron.training.global_vars", settings)
    assert path_of("save_checkpoint_and_time", 40, "model") == "/out/iter_0000040"
    trainer = SimpleNamespace(
        _get_output_dir=lambda trial: "/out", state=SimpleNamespace(global_step=7)
    )
    assert path_of("_save_checkpoint", trainer, "model", trial=None) == "/out/checkpoint-7"
    assert path_of("save_state", "accelerator", result="/chosen/checkpoint_0") == (
        "/chosen/checkpoint_0"
    )
    assert path_of("save_state", "accelerator", output_dir="/out") == "/out"
    engine = SimpleNamespace(global_steps=9)
    assert path_of("save_checkpoint", engine, "/out", "best") == "/out/best"
    assert path_of("save_checkpoint", engine, save_dir="/out") == "/out/global_step9"
