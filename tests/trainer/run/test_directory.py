"""The run directory of launcher and ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.signals.errors import ConfigurationError
from stepwatch.trainer.run.directory import (
    launcher_directory,
    rank_directory,
    require_writable_parent,
)


def test_a_temporary_directory_is_removed_at_the_end() -> None:
    with launcher_directory("") as path:
        (path / "file").write_text("")
    assert not path.exists()


def test_a_given_directory_is_created_and_kept(tmp_path: Path) -> None:
    with launcher_directory(str(tmp_path / "new" / "run")) as path:
        assert path == tmp_path / "new" / "run"
    assert path.is_dir()


@pytest.mark.parametrize("run_dir", ["", "run"])
def test_an_error_of_the_launch_is_not_reported_as_one_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_dir: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="python"), launcher_directory(run_dir):
        raise FileNotFoundError("python")


def test_a_directory_below_a_file_is_refused_by_launcher_and_rank(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run_dir = str(tmp_path / "file" / "run")
    with (
        pytest.raises(ConfigurationError, match="as run directory: Not a directory"),
        launcher_directory(run_dir),
    ):
        pass
    with pytest.raises(ConfigurationError, match="as run directory: Not a directory"):
        rank_directory(run_dir)


def test_ranks_of_one_launch_share_a_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "launch-1")
    assert rank_directory("") == rank_directory("")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "launch-2")
    second_directory = rank_directory("")
    assert {path.name for path in tmp_path.iterdir()} >= {second_directory.name}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_result_in_a_missing_directory_is_refused(tmp_path: Path) -> None:
    require_writable_parent("")
    require_writable_parent(str(tmp_path / "result.json"))
    with pytest.raises(ConfigurationError, match="choose another --json"):
        require_writable_parent(str(tmp_path / "missing" / "result.json"))
