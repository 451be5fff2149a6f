"""The doctor reads data and checkpoints as the trainer does, and changes nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from stepwatch.agent.doctor.result import Outcome, Result, Surroundings
from stepwatch.cli.preflight import run_files
from stepwatch.cli.verbs import doctor
from stepwatch.signals import places
from stepwatch.trainer.checkpoint.layout import published_path
from stepwatch.trainer.checkpoint.manifest import CheckpointManifest, entry_of, write_manifest
from stepwatch.trainer.data import shards

PASS, WARN, FAIL = Outcome.PASS, Outcome.WARN, Outcome.FAIL


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shards, "SHARD_BYTES", 1000)
    (tmp_path / "text.txt").write_text("word " * 500)
    shards.build_shards(tmp_path / "data", str(tmp_path / "text.txt"), 10_000)
    return tmp_path / "data"


def checkpoint(root: Path, step: int) -> Path:
    """A checkpoint as the trainer publishes it."""
    folder = published_path(root, step)
    folder.mkdir(parents=True)
    for name in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
        (folder / name).write_bytes(f"{name} of {step}".encode() * 100)
    files = {path.name: entry_of(path) for path in folder.iterdir()}
    write_manifest(folder, CheckpointManifest(step, {}, {}, {}, files))
    return folder


def of_data(folder: Path) -> Result:
    (result,) = run_files.check(Surroundings({}, data=folder))
    return result


def newest(root: Path) -> Result:
    (result,) = run_files.check(Surroundings({}, checkpoints=root))
    return result


def test_data_that_is_as_its_manifest_says(data: Path) -> None:
    result = of_data(data)
    assert result.outcome is PASS
    assert result.text.endswith("3 files, 0.0025 MB, all read back") and "manifest " in result.text


def test_data_that_is_not(data: Path) -> None:
    shard = sorted(data.glob("shard-*"))[1]
    shard_bytes = shard.read_bytes()
    shard.write_bytes(b"W" + shard_bytes[1:])
    result = of_data(data)
    assert result.outcome is FAIL and result.text.endswith("does not match its digest")
    assert "--bad-shard quarantine" in result.remedy
    shard.write_bytes(shard_bytes[:-1])
    assert of_data(data).text.endswith(f"{shard.name} has 999 bytes instead of 1000")
    shard.unlink()
    assert of_data(data).text.endswith(f"{shard.name}: No such file or directory")
    (data / "manifest.json").write_text("{}")
    assert of_data(data).outcome is FAIL and "no digest or version" in of_data(data).text
    assert of_data(data / "none").outcome is FAIL


def test_when_the_time_is_up_sizes_are_what_is_left(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "READ_SECONDS", -1.0)
    assert of_data(data).text.endswith("1 read back, the sizes of all")


def test_the_newest_checkpoint(tmp_path: Path) -> None:
    result = newest(tmp_path)
    assert result.outcome is PASS and result.text.endswith("a job begins at step 0")
    checkpoint(tmp_path, 20)
    checkpoint(tmp_path, 40)
    assert newest(tmp_path).outcome is PASS and "step 40 is good: 3 files" in newest(tmp_path).text


def test_a_checkpoint_that_is_bad_stays_where_it_is(tmp_path: Path) -> None:
    older, newer = checkpoint(tmp_path, 20), checkpoint(tmp_path, 40)
    (newer / "__1_0.distcp").write_bytes(b"__1_0.distcp oF 40" * 100)
    files_before = sorted(tmp_path.rglob("*"))
    result = newest(tmp_path)
    assert result.outcome is WARN and result.remedy.startswith("a job resumes from step 20")
    assert "step 40 is bad: __1_0.distcp does not match its digest; " in result.text
    assert sorted(tmp_path.rglob("*")) == files_before, "nothing is moved to the quarantine"
    (older / "manifest.json").unlink()
    result = newest(tmp_path)
    assert result.outcome is FAIL and "its manifest cannot be read" in result.text


def test_names_with_a_folder_in_them_are_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, 20)
    (tmp_path / "outside").write_bytes(b"secret")
    files = {"../outside": entry_of(tmp_path / "outside")}
    write_manifest(folder, CheckpointManifest(20, {}, {}, {}, files))
    assert newest(tmp_path).outcome is FAIL


def test_both_may_stand_in_the_environment(
    data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(places.ENV_DATA, str(data))
    monkeypatch.setenv(places.ENV_CHECKPOINTS, str(tmp_path))
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    parsed = parser.parse_args([])
    assert (parsed.data, parsed.checkpoints) == (data, tmp_path)
    assert list(run_files.check(Surroundings({}))) == [], "nothing was named"
