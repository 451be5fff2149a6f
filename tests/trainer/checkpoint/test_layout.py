"""The layout of the checkpoint directory, and which checkpoints retention deletes."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stepwatch.trainer.checkpoint import layout

steps = st.lists(st.integers(0, 100), unique=True, max_size=12)


@given(steps, st.integers(1, 5), st.data())
def test_the_newest_and_the_newest_verified_stay(
    checkpoints: list[int], keep: int, data: st.DataObject
) -> None:
    verified = set(data.draw(st.lists(st.sampled_from(checkpoints or [0]))))
    deleted = layout.steps_to_delete(checkpoints, verified, keep)
    retained = set(checkpoints) - set(deleted)
    assert set(sorted(checkpoints)[-keep:]) <= retained
    assert (
        not checkpoints
        or not (verified & set(checkpoints))
        or max(verified & set(checkpoints)) in retained
    )
    assert len(retained) <= keep + 1


def test_only_published_checkpoints_are_seen(tmp_path: Path) -> None:
    for name in ("step-00000002", "step-00000010", ".saving-00000012", ".leaving-00000001", "x"):
        (tmp_path / name).mkdir()
    assert layout.published_steps(tmp_path) == [10, 2]
    assert layout.remove_unfinished(tmp_path) == [".leaving-00000001", ".saving-00000012"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000002", "step-00000010", "x",
    ]  # fmt: skip
    assert layout.published_steps(tmp_path / "nowhere") == []


def test_a_removed_checkpoint_is_gone(tmp_path: Path) -> None:
    layout.published_path(tmp_path, 3).mkdir()
    layout.remove_checkpoint(tmp_path, 3)
    assert list(tmp_path.iterdir()) == []


def test_quarantine_keeps_every_bad_one_with_its_reason(tmp_path: Path) -> None:
    for reason in ("first", "second"):
        layout.published_path(tmp_path, 3).mkdir()
        layout.quarantine(tmp_path, 3, reason)
    aside = tmp_path / "quarantine"
    assert (aside / "step-00000003-0.reason.txt").read_text() == "first\n"
    assert (aside / "step-00000003-1.reason.txt").read_text() == "second\n"
    assert layout.published_steps(tmp_path) == []
