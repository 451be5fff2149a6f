"""The comparison of two traces in a process of its own: whatever they hold, there is an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepwatch.collector.runtime import comparisons
from stepwatch.collector.runtime.comparisons import compared
from tests.collector.web.test_profiles import trace_of


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    slow, peer = tmp_path / "slow.json.gz", tmp_path / "peer.json.gz"
    slow.write_bytes(trace_of(2, 9000))
    peer.write_bytes(trace_of(3, 3000))
    return slow, peer


def test_two_traces_have_a_sentence(pair: tuple[Path, Path]) -> None:
    answer = compared(*pair)
    assert answer["sentence"].startswith("aten::mm 3.0x")
    assert answer["comparison"]["rows"][0]["name"] == "aten::mm"


def test_a_comparison_that_does_not_end_is_a_problem(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "_GRACE_SECONDS", 0.0)
    endless = pair[0].with_name("endless")
    os.mkfifo(endless)
    answer = compared(endless, pair[1], seconds=1.0)
    assert "not compared within 1 s" in answer["problem"]


def test_a_comparison_that_dies_is_a_problem(pair: tuple[Path, Path]) -> None:
    assert "not compared" in compared(pair[0].with_name("missing"), pair[1])["problem"]


@pytest.mark.parametrize("place", [0, 1])
def test_an_unreadable_trace_is_named(pair: tuple[Path, Path], place: int) -> None:
    pair[place].write_bytes(b"\x1f\x8bjunk")
    name = ("slow rank", "peer")[place]
    assert f"the {name}'s trace cannot be read" in compared(*pair)["problem"]
