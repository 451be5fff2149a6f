"""Memory that a snapshot used goes back to the system."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from stepwatch.collector import heap
from stepwatch.collector.runtime import snapshots
from stepwatch.collector.runtime.service import Service
from tests.collector.made import body, run_segments


def resident_bytes() -> int:
    """Memory of this process that is in use, as Linux counts it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory_below_an_allocation_is_returned() -> None:
    size = 100_000  # below the size that the allocator maps apart
    blocks = [bytearray(size) for _ in range(1000)]
    kept = blocks[::50]
    full = resident_bytes()
    del blocks
    heap.release_free_memory()
    assert resident_bytes() < full - 800 * size
    assert len(kept) == 20


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    heap._trim.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda _: object())
        heap.release_free_memory()
    heap._trim.cache_clear()


@pytest.mark.parametrize(("limit", "released"), [(1, 1), (1 << 40, 0)])
def test_only_a_snapshot_of_a_large_state_returns_memory(
    service: Service, monkeypatch: pytest.MonkeyPatch, limit: int, released: int
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(snapshots, "LARGE_BYTES", limit)
    monkeypatch.setattr(snapshots, "release_free_memory", lambda: calls.append(None))
    service.receive(body(run_segments(20)))
    service.snapshotter.save_all()
    service.snapshotter.save_all()  # unchanged: nothing was copied
    assert len(calls) == released
    assert service.snapshotter.counts[snapshots.SAVED] == 1
