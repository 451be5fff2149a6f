"""Damaged checkpoints, and storage that cannot be written."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwatch.trainer.checkpoint.search import newest_valid

FLAGS = ("--mesh", "dp_shard=2", "--steps", "8", "--checkpoint-every", "4")


@pytest.fixture(scope="module")
def checkpoints(
    tmp_path_factory: pytest.TempPathFactory, make_trainer: Callable[[Path], Any]
) -> Path:
    """The checkpoints of steps 4 and 8 of a real run on two ranks."""
    trainer = make_trainer(tmp_path_factory.mktemp("saved"))
    trainer.train_forked(*FLAGS)
    root: Path = trainer.run_dir / "checkpoints"
    return root


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def _empty_directory(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "flipped": (_flip, "does not match"),
    "truncated": (_truncate, "bytes instead of"),
    "missing": (Path.unlink, "No such file"),
    "empty-directory": (_empty_directory, "manifest cannot be read"),
}
FILES = ("__0_0.distcp", "__1_0.distcp", ".metadata")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_found_and_the_checkpoint_before_it_is_used(
    checkpoints: Path, tmp_path: Path, damage: str, name: str
) -> None:
    root = tmp_path / "checkpoints"
    shutil.copytree(checkpoints, root)
    harm, reason = DAMAGE[damage]
    harm(root / "step-00000008" / name)
    manifest, rejections = newest_valid(root)
    assert manifest is not None
    assert manifest.step == 4
    (rejection,) = rejections
    assert rejection.step == 8
    assert reason in rejection.reason
    moved = Path(rejection.moved_to)
    assert moved.parent == root / "quarantine"
    assert moved.with_suffix(".reason.txt").read_text() == rejection.reason + "\n"
    assert not (root / "step-00000008").exists()


@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing"])
def test_a_damaged_manifest_is_found(checkpoints: Path, tmp_path: Path, damage: str) -> None:
    root = tmp_path / "checkpoints"
    shutil.copytree(checkpoints, root)
    DAMAGE[damage][0](root / "step-00000008" / "manifest.json")
    manifest, (rejection,) = newest_valid(root)
    assert manifest is not None
    assert manifest.step == 4
    assert "manifest" in rejection.reason


def test_the_run_prints_what_it_rejected_and_resumes_from_an_older_checkpoint(
    checkpoints: Path, trainer: Any, straight: Callable[..., Any]
) -> None:
    shutil.copytree(checkpoints.parent, trainer.run_dir)
    _flip(trainer.run_dir / "checkpoints" / "step-00000008" / "__1_0.distcp")
    finished = trainer.train_forked("--mesh", "dp_shard=2", "--steps", "10")
    assert "rejected checkpoint of step 8: __1_0.distcp does not match" in finished.output
    assert finished.result["resumes"][0]["from_step"] == 4
    assert finished.losses == straight("--mesh", "dp_shard=2", "--steps", "10").losses


def _mounts_allowed() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return (
        shutil.which("unshare") is not None
        and not subprocess.run(command, capture_output=True, check=False).returncode
    )


mounting = pytest.mark.skipif(
    not _mounts_allowed(), reason="the kernel lets this user mount nothing (user namespaces)"
)


def _mount_command(trainer: Any, mount: str, *flags: str) -> list[str]:
    """Command that trains where `mount`, a shell line with the checkpoints as $1, has been run."""
    root = trainer.run_dir / "checkpoints"
    root.mkdir(parents=True, exist_ok=True)
    script = f'{mount} && shift && exec "$@"'
    return ["unshare", "-rm", "sh", "-c", script, "sh", str(root), *trainer.command(*flags)]


@mounting
@pytest.mark.long(
    "tests/distributed/test_damage.py::test_storage_that_vanishes_stops_no_step",
    "tests/trainer/checkpoint/test_checkpointer.py::test_a_checkpoint_that_cannot_be_written_is_a_result_not_an_exception",
)
def test_a_full_disk_stops_no_step_and_damages_no_older_checkpoint(
    trainer: Any, straight: Callable[..., Any]
) -> None:
    # The debug model takes 3.2 MB: one checkpoint and the next one's beginning fit, two do not.
    mount = 'mount -t tmpfs -o size=5m none "$1"'
    finished = trainer.finish(trainer.start(*_mount_command(trainer, mount, *FLAGS)))
    assert finished.code == 0, finished.output[-3000:]
    assert finished.losses == straight("--mesh", "dp_shard=2", "--steps", "8").losses
    first, second = finished.result["checkpoints"]
    assert (first["step"], first["verified"]) == (4, True)
    assert (second["step"], second["verified"]) == (8, False)
    assert "No space left" in second["failure"]


@mounting
@pytest.mark.matrix
def test_a_read_only_mount_stops_no_step(
    checkpoints: Path, trainer: Any, straight: Callable[..., Any]
) -> None:
    root = trainer.run_dir / "checkpoints"
    shutil.copytree(checkpoints.parent, trainer.run_dir)
    _flip(root / "step-00000008" / "__0_0.distcp")
    mount = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1"'
    flags = ("--mesh", "dp_shard=2", "--steps", "10")
    finished = trainer.finish(trainer.start(*_mount_command(trainer, mount, *flags)))
    assert finished.code == 0, finished.output[-3000:]
    assert "left in place (Read-only file system)" in finished.output
    assert finished.result["resumes"][0]["from_step"] == 4
    assert finished.losses == straight(*flags).losses
    assert finished.result["checkpoints"][-1]["failure"]
    assert (root / "step-00000008").is_dir()


def test_storage_that_vanishes_stops_no_step(trainer: Any, straight: Callable[..., Any]) -> None:
    # A file where the directory should be: every checkpoint fails at its start, as on a lost mount.
    trainer.run_dir.mkdir()
    (trainer.run_dir / "checkpoints").write_text("not a directory")
    finished = trainer.train_forked(*FLAGS)
    assert finished.losses == straight("--mesh", "dp_shard=2", "--steps", "8").losses
    assert [row["verified"] for row in finished.result["checkpoints"]] == [False, False]
    assert finished.output.count("checkpoint of step") == 2
