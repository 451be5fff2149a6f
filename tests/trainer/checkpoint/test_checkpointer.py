"""Checkpoints of one rank, written and verified for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.staging import DefaultStager
from torch.distributed.checkpoint.state_dict_loader import load

from stepwatch.hooks import Watch
from stepwatch.trainer.checkpoint import layout
from stepwatch.trainer.checkpoint.checkpointer import Checkpointer, CheckpointResult
from stepwatch.trainer.checkpoint.search import newest_valid
from stepwatch.trainer.checkpoint.write import Ranks
from stepwatch.trainer.parallel.runtime import Runtime
from tests.trainer.builders import checkpoint_manifest

Open = Callable[..., Checkpointer]


@pytest.fixture
def open_checkpointer(tmp_path: Path, runtime: Runtime) -> Iterator[Open]:
    """Opens checkpointers that keep two checkpoints and add results to a list; closes them."""
    with ExitStack() as stack:

        def open_one(results: list[CheckpointResult], *, asynchronous: bool = True) -> Checkpointer:
            checkpointer = Checkpointer(
                tmp_path / "checkpoints",
                Ranks(runtime.rank, runtime.world, runtime.control_group),
                2,
                asynchronous=asynchronous,
                on_stage=lambda stage, step: None,
                on_result=results.append,
            )
            return stack.enter_context(closing(checkpointer))

        yield open_one


def _save(checkpointer: Checkpointer, watch: Watch, *steps: int) -> None:
    for step in steps:
        tensors = {"model.weight": torch.full((4,), float(step))}
        checkpointer.save(checkpoint_manifest(step), tensors, watch.checkpoint(step))
    assert checkpointer.wait(None)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_checkpoint_is_published_and_verified(
    open_checkpointer: Open, tmp_path: Path, watch: Watch, asynchronous: bool
) -> None:
    results: list[CheckpointResult] = []
    _save(open_checkpointer(results, asynchronous=asynchronous), watch, 4)
    (result,) = results
    assert (result.step, result.verified, result.failure) == (4, True, None)
    manifest, rejections = newest_valid(tmp_path / "checkpoints")
    assert manifest is not None
    assert (manifest.step, rejections) == (4, [])
    assert result.bytes == manifest.size
    assert layout.is_marked_verified(tmp_path / "checkpoints", 4)


class OneUse(DefaultStager):
    """A stager like torch 2.11's, which works for one state only."""

    def stage(self, *words: Any, **options: Any) -> Any:
        staged = super().stage(*words, **options)
        inner: Any = self._state_dict_stager
        inner.close()
        return staged


def test_a_stager_that_is_good_for_one_checkpoint_is_replaced(
    open_checkpointer: Open, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwatch.trainer.checkpoint.checkpointer.DefaultStager", OneUse)
    results: list[CheckpointResult] = []
    _save(open_checkpointer(results), watch, 1, 2, 3)
    assert [(result.step, result.verified) for result in results] == [
        (1, True),
        (2, True),
        (3, True),
    ]


def test_old_checkpoints_are_deleted(open_checkpointer: Open, tmp_path: Path, watch: Watch) -> None:
    _save(open_checkpointer([]), watch, 1, 2, 3)
    assert layout.published_steps(tmp_path / "checkpoints") == [3, 2]


def test_a_checkpoint_that_cannot_be_written_is_a_result_not_an_exception(
    open_checkpointer: Open, tmp_path: Path, watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoints").write_text("not a directory")
    results: list[CheckpointResult] = []
    _save(open_checkpointer(results), watch, 4)
    (result,) = results
    assert not result.verified
    assert result.durable_seconds is None
    assert result.failure is not None
    assert "checkpoint of step 4 failed" in capsys.readouterr().err


def test_tensors_that_change_after_save_do_not_change_the_checkpoint(
    open_checkpointer: Open, tmp_path: Path, watch: Watch
) -> None:
    results, tensor = list[CheckpointResult](), torch.zeros(1000)
    checkpointer = open_checkpointer(results)
    checkpointer.save(checkpoint_manifest(1), {"x": tensor}, watch.checkpoint(1))
    tensor.fill_(1.0)
    checkpointer.wait(None)
    loaded = {"x": torch.ones(1000)}
    path = layout.published_path(tmp_path / "checkpoints", 1)
    load(loaded, storage_reader=FileSystemReader(path))
    assert results[0].verified
    assert not loaded["x"].any()
