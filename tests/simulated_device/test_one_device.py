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
def device_figures(forked_ranks: ForkedRanks, tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """Return the program's figures, part by part."""
    return figures(forked_ranks, "one_device", 1, tmp_path_factory.mktemp("one"))[0]


def test_the_host_returns_before_the_device_has_computed(device_figures: Figures) -> None:
    assert device_figures["asynchrony"]["host_waited"] is False
    assert device_figures["asynchrony"]["ms"] == pytest.approx(100, rel=EXACT)
    assert device_figures["asynchrony"]["value"] == pytest.approx(
        device_figures["asynchrony"]["expected"]
    )


def test_operations_take_their_stated_time(device_figures: Figures) -> None:
    assert device_figures["short_operations"]["healthy"] == pytest.approx(50, rel=EXACT)


def test_a_slow_device_takes_a_multiple_of_it(device_figures: Figures) -> None:
    assert device_figures["short_operations"]["slow"] == pytest.approx(150, rel=EXACT)


def test_a_wait_for_an_event_is_for_the_record_before_it(device_figures: Figures) -> None:
    assert device_figures["reused_event"] == {"second_passed": False, "value": 1.0}


def test_a_missing_wait_reads_stale_data(device_figures: Figures) -> None:
    assert device_figures["stale"] == [0.0, 1.0]


def test_streams_overlap(device_figures: Figures) -> None:
    assert device_figures["overlap"]["ms"] == pytest.approx(40, rel=EXACT)


def test_the_clocks_of_host_and_device_agree(device_figures: Figures) -> None:
    moments = device_figures["host_moments"]
    # Elapsed times are float32 milliseconds.
    assert moments["least"] - 1e-3 <= moments["ms"] <= moments["most"] + 1e-3


def test_a_copy_from_pinned_memory_reads_it_late(device_figures: Figures) -> None:
    assert device_figures["pinned_copy"] == {"pinned": 7.0, "pageable": 0.0}


def test_the_host_blocks_when_it_is_too_far_ahead(device_figures: Figures) -> None:
    assert device_figures["depth"] == {"bounded": True, "unbounded": False}


def test_random_numbers_are_those_of_the_cpu(device_figures: Figures) -> None:
    assert device_figures["numbers"] == {"as_host": True, "state": True, "own": True}


def test_autocast_knows_the_device(device_figures: Figures) -> None:
    assert device_figures["autocast"] == {"product": "torch.bfloat16", "normed": "torch.float32"}


def test_a_captured_graph_runs_when_it_is_replayed(device_figures: Figures) -> None:
    graph = device_figures["graph"]
    assert graph["capturing"] == [False, True, False]
    assert graph["values"] == [1.0, 4.0]
    assert graph["ms"] == pytest.approx(20, rel=EXACT)


def test_no_event_is_recorded_while_a_stream_is_captured(device_figures: Figures) -> None:
    assert all("captured" in error for error in device_figures["graph"]["refused"])


def test_an_error_of_the_device_is_raised_at_the_next_wait(device_figures: Figures) -> None:
    assert "index out of range" in device_figures["asynchronous_error"]["error"]
    assert device_figures["asynchronous_error"]["after"] == ""


def test_a_hung_kernel_keeps_its_stream(device_figures: Figures) -> None:
    assert device_figures["hung_kernel"] == {"hung": True, "ended": True}


def test_training_computes_what_the_cpu_computes(device_figures: Figures) -> None:
    on_cpu, on_device = device_figures["losses"]
    assert on_device == on_cpu
    assert on_cpu[-1] < on_cpu[0]


def test_memory_does_not_grow(device_figures: Figures) -> None:
    assert device_figures["memory"]["grown"] == 0


def test_every_event_of_a_lost_device_raises(device_figures: Figures) -> None:
    assert len(device_figures["lost"]) == 5
    assert all("lost" in error for error in device_figures["lost"].values())


def test_a_forked_child_cannot_use_the_device_of_its_parent(device_figures: Figures) -> None:
    assert all("forked" in error for error in device_figures["fork"]["errors"])
    assert device_figures["fork"]["bad"] == [False, True]
