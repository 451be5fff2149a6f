"""One simulated device behaves as an accelerator does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ranks.forked import ForkedRanks

from .runs import figures

EXACT = 0.02
"""Relative error of device time that is allowed."""

Figures = dict[str, Any]


@pytest.fixture(scope="module")
def seen(forked_ranks: ForkedRanks, tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """What the program saw, part by part."""
    return figures(forked_ranks, "one_device", 1, tmp_path_factory.mktemp("one"))[0]


def test_the_host_returns_before_the_device_has_computed(seen: Figures) -> None:
    assert seen["asynchrony"]["host_waited"] is False
    assert seen["asynchrony"]["ms"] == pytest.approx(100, rel=EXACT)
    assert seen["asynchrony"]["value"] == pytest.approx(seen["asynchrony"]["expected"])


def test_operations_take_their_stated_time(seen: Figures) -> None:
    assert seen["short_operations"]["healthy"] == pytest.approx(50, rel=EXACT)


def test_a_slow_device_takes_a_multiple_of_it(seen: Figures) -> None:
    assert seen["short_operations"]["slow"] == pytest.approx(150, rel=EXACT)


def test_a_wait_for_an_event_is_for_the_record_before_it(seen: Figures) -> None:
    assert seen["reused_event"] == {"second_passed": False, "value": 1.0}


def test_a_missing_wait_reads_stale_data(seen: Figures) -> None:
    assert seen["stale"] == [0.0, 1.0]


def test_streams_overlap(seen: Figures) -> None:
    assert seen["overlap"]["ms"] == pytest.approx(40, rel=EXACT)


def test_the_clocks_of_host_and_device_agree(seen: Figures) -> None:
    moments = seen["host_moments"]
    # Elapsed times are float32 milliseconds.
    assert moments["least"] - 1e-3 <= moments["ms"] <= moments["most"] + 1e-3


def test_a_copy_from_pinned_memory_reads_it_late(seen: Figures) -> None:
    assert seen["pinned_copy"] == {"pinned": 7.0, "pageable": 0.0}


def test_the_host_blocks_when_it_is_too_far_ahead(seen: Figures) -> None:
    assert seen["depth"] == {"bounded": True, "unbounded": False}


def test_random_numbers_are_those_of_the_cpu(seen: Figures) -> None:
    assert seen["numbers"] == {"as_host": True, "state": True, "own": True}


def test_autocast_knows_the_device(seen: Figures) -> None:
    assert seen["autocast"] == {"product": "torch.bfloat16", "normed": "torch.float32"}


def test_a_captured_graph_runs_when_it_is_replayed(seen: Figures) -> None:
    graph = seen["graph"]
    assert graph["capturing"] == [False, True, False]
    assert graph["values"] == [1.0, 4.0]
    assert graph["ms"] == pytest.approx(20, rel=EXACT)


def test_no_event_is_recorded_while_a_stream_is_captured(seen: Figures) -> None:
    assert all("captured" in error for error in seen["graph"]["refused"])


def test_an_error_of_the_device_is_raised_at_the_next_wait(seen: Figures) -> None:
    assert "index out of range" in seen["asynchronous_error"]["error"]
    assert seen["asynchronous_error"]["after"] == ""


def test_a_hung_kernel_keeps_its_stream(seen: Figures) -> None:
    assert seen["hung_kernel"] == {"hung": True, "ended": True}


def test_training_computes_what_the_cpu_computes(seen: Figures) -> None:
    on_cpu, on_device = seen["losses"]
    assert on_device == on_cpu
    assert on_cpu[-1] < on_cpu[0]


def test_memory_does_not_grow(seen: Figures) -> None:
    assert seen["memory"]["grown"] == 0


def test_every_event_of_a_lost_device_raises(seen: Figures) -> None:
    assert len(seen["lost"]) == 5
    assert all("lost" in error for error in seen["lost"].values())


def test_a_forked_child_cannot_use_the_device_of_its_parent(seen: Figures) -> None:
    assert all("forked" in error for error in seen["fork"]["errors"])
    assert seen["fork"]["bad"] == [False, True]
