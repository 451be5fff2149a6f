"""Paths that a trainer loads before its first step."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.pauses.loads import MOST_LOADS
from stepwatch.signals.records import Kind, LifecycleEvent, read_path
from tests.hooks.conftest import rows_in

torch = pytest.importorskip("torch", reason="loads are torch's")


def loaded(rings: Path) -> list[str]:
    """The reported paths, in order."""
    rows = rows_in(rings, Kind.LIFECYCLE)
    texts: list[list[str]] = []
    for row in rows[rows["event"] == LifecycleEvent.LOADED_PATH]:
        if row["value"] == 0:
            texts.append([])
        texts[-1].append(bytes(row["text"]).decode())
    return [read_path(parts) for parts in texts]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Files by `torch.save`, more than are reported."""
    paths = [tmp_path / f"{number}.pt" for number in range(MOST_LOADS + 2)]
    for path in paths:
        torch.save({"one": 1}, path)
    return paths


def test_loads_before_the_first_step_report_their_paths_once(
    watch: Watch, rings: Path, files: list[Path]
) -> None:
    watch.attach()
    for path in (files[0], files[1], files[0]):
        assert torch.load(path) == {"one": 1}
    torch.load(io.BytesIO(files[2].read_bytes()))
    with watch.step():
        pass
    torch.load(files[3])
    assert loaded(rings) == [str(path) for path in files[:2]]
    assert watch.guard.errors == 0


def test_a_load_that_fails_is_reported_and_raises_as_before(
    watch: Watch, rings: Path, files: list[Path]
) -> None:
    watch.attach()
    files[0].write_bytes(b"cut short")
    for path in (files[0], files[0].with_name("nowhere.pt")):
        with pytest.raises(Exception, match=r".") as raised:
            torch.load(path)
        assert not str(type(raised.value)).startswith("stepwatch")
    assert loaded(rings) == [str(files[0]), str(files[0].with_name("nowhere.pt"))]


def test_at_most_some_loads_are_reported(watch: Watch, rings: Path, files: list[Path]) -> None:
    watch.attach()
    for path in files:
        torch.load(path)
    assert loaded(rings) == [str(path) for path in files[:MOST_LOADS]]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
def test_a_distributed_load_reports_its_folder(watch: Watch, rings: Path, tmp_path: Path) -> None:
    dcp = pytest.importorskip("torch.distributed.checkpoint", reason="needs torch.distributed")
    dcp.save({"one": torch.ones(2)}, checkpoint_id=tmp_path / "saved")
    watch.attach()
    dcp.load({"one": torch.ones(2)}, checkpoint_id=tmp_path / "saved")
    reader = dcp.FileSystemReader(tmp_path / "saved")
    dcp.load({"one": torch.ones(2)}, storage_reader=reader)
    assert loaded(rings) == [str(tmp_path / "saved")]


LOOP = """
import sys, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.load_state_dict(torch.load(sys.argv[1]))
assert torch.load is torch.serialization.load
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def run_loop(rings: Path, path: Path) -> int:
    """Run a loop without a line of code for stepwatch, as `stepwatch run` starts it."""
    words = [sys.executable, "-m", "stepwatch.cli", "run", "--job", "j", "--", sys.executable]
    ended = subprocess.run(
        [*words, "-c", LOOP, str(path)], capture_output=True, timeout=120, check=False
    )
    return ended.returncode


@pytest.mark.parametrize("is_damaged", [False, True])
def test_without_code_a_load_is_reported_also_if_no_step_follows(
    rings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    from stepwatch.signals import places

    monkeypatch.setenv(places.ENV_RING_DIR, str(rings))
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 1).state_dict(), path)
    if is_damaged:
        path.write_bytes(path.read_bytes()[:-200])
    assert (run_loop(rings, path) != 0) == is_damaged
    assert loaded(rings) == [str(path)]
    events = rows_in(rings, Kind.LIFECYCLE)["event"].tolist()
    assert (LifecycleEvent.FAILURE in events) == is_damaged
    assert len(rows_in(rings, Kind.STEP)) == (0 if is_damaged else 3)
