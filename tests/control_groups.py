"""Control groups of version 1, which this project's containers and tests can make."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import until

ROOT = Path("/sys/fs/cgroup")


@contextmanager
def control_group(controller: str, limit: str, value: str) -> Iterator[Path]:
    """Yield a group whose file `limit` has `value`; skip the test if none can be created."""
    place = ROOT / controller / f"stepwatch-test-{uuid.uuid4().hex[:8]}"
    try:
        place.mkdir()
        (place / limit).write_text(value)
    except OSError as error:
        pytest.skip(f"no {limit} can be set here: {error}")
    yield place
    until("the group is empty", lambda: not (place / "cgroup.procs").read_text().split())
    place.rmdir()
