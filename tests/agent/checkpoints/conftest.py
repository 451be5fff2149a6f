"""Checkpoints that are written once, and copied for each test that damages one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from .written import LAYOUTS, tensors

Copy = Callable[[str], Path]


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Return a checkpoint by layout and kind of tensors; it must not be changed."""

    @cache
    def write(layout: str, kind: str) -> Path:
        folder = tmp_path_factory.mktemp(layout)
        return LAYOUTS[layout](folder, tensors(kind))

    return write


@pytest.fixture
def copy_of(originals: Callable[[str, str], Path], tmp_path: Path) -> Copy:
    """Return a copy of a checkpoint, to be damaged."""

    def copy(layout: str) -> Path:
        original = originals(layout, "weights")
        target = tmp_path / original.name
        if original.is_dir():
            shutil.copytree(original, target)
        else:
            shutil.copy(original, target)
        return target

    return copy
