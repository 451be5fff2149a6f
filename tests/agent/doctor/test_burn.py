"""The self-test: real computing in children, and who is slow, wrong, or not there."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.doctor import Meeting, Outcome, burn, examine
from stepwatch.agent.doctor.children import ChildError, answers
from stepwatch.agent.doctor.children.pairs import MOST_ROUNDS, rounds
from stepwatch.agent.doctor.result import Surroundings
from tests.ports import free_port
from tests.waiting import until

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN


def test_the_self_test_measures_this_machine() -> None:
    pytest.importorskip("torch", reason="the self-test computes with torch")
    cpu, together = examine(Surroundings({}), 0.2, {})
    assert cpu.outcome is PASS and cpu.text.startswith("cpu: ")
    assert "MiB of memory hold written data" in cpu.text
    assert together.check == "all-reduce" and together.outcome is PASS
    assert together.text.startswith("2 ranks of this node reduce ")


def test_without_torch_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('none')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (result,) = burn.check(0.1)
    assert (result.outcome, result.text) == (UNKNOWN, "torch is not installed")
    assert result.problem == "user_problem"


def test_a_child_that_fails_or_hangs_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChildError, match="it ended with 1: ValueError: could not convert"):
        answers("selftest", ["x"], 60.0)
    names_before = set(os.listdir("/proc"))
    with pytest.raises(ChildError, match="no answer within 1 s"):
        answers("selftest", ["60"], 1.0)

    def remaining_processes() -> list[str]:
        names = [name for name in set(os.listdir("/proc")) - names_before if name.isdecimal()]
        return [name for name in names if b"children.selftest" in command(name)]

    until("nothing of it is left", lambda: not remaining_processes())


def command(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return b""


def device(name: str, **changed: float) -> dict[str, Any]:
    healthy = {
        "flops": 1e12,
        "copied": 1e11,
        "wrong": 0,
        "tested_bytes": 64 << 20,
        "wrong_bytes": 0,
    }
    return {"device": name, **healthy, **changed}


@pytest.mark.parametrize(
    ("changed", "outcome", "words"),
    [
        ({}, PASS, "64 MiB of memory hold"),
        ({"flops": 8e11}, WARN, "80% of the median of this node"),
        ({"copied": 5e10}, WARN, "50% of the median"),
        ({"wrong": 3}, FAIL, "cuda:2: 3 products and 0 bytes are wrong"),
        ({"wrong_bytes": 1}, FAIL, "0 products and 1 bytes are wrong"),
    ],
)
def test_devices_are_compared(
    changed: dict[str, float], outcome: Outcome, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device_results = [device("cuda:0"), device("cuda:1"), device("cuda:2", **changed)]
    reduced = {"ranks": 3, "backend": "nccl", "bytes_per_second": 1e11, "wrong": 1}
    monkeypatch.setattr(burn, "answers", lambda *_: [*device_results, reduced])
    *_, last, together = burn.check(1.0)
    assert last.outcome is outcome and words in last.text
    assert together.outcome is FAIL and "1 sums of whole numbers are wrong" in together.text


@pytest.mark.parametrize("nodes", [2, 3, 4, 7, 8, 33])
def test_rounds_of_pairs(nodes: int) -> None:
    plan = rounds(nodes)
    assert 0 < len(plan) <= MOST_ROUNDS
    pairs = [frozenset(pair) for pair in chain(*plan)]
    assert len(set(pairs)) == len(pairs), "no pair meets twice"
    for together in plan:
        busy = list(chain(*together))
        assert len(set(busy)) == len(busy) and len(busy) >= nodes - 1, "each has one peer at most"
        assert set(busy) <= set(range(nodes))
    if nodes <= MOST_ROUNDS:
        assert len(pairs) == nodes * (nodes - 1) // 2, "all of them"


def test_a_slow_node_is_not_taken_for_its_peers() -> None:
    names = ["a", "b", "c", "d"]
    fast, slow = 1e9, 2e8
    pairs = [(0, 1, fast), (2, 3, slow), (0, 2, fast), (1, 3, slow), (0, 3, slow), (1, 2, fast)]
    results = list(burn.ranked(names, pairs))
    assert [result.outcome for result in results] == [WARN, PASS, PASS, PASS]
    assert results[0].text == (
        "d: 0.2 GB/s with its best peer, 20% of the median, place 1 of 4 from below"
    )
    two = list(burn.ranked(["a", "b"], [(0, 1, slow)]))
    assert [result.outcome for result in two] == [PASS, PASS], "which of two is slow is not known"


def _pairs_only(name: str, words: list[str], seconds: float) -> list[dict[str, Any]]:
    return [] if name == "selftest" else answers(name, words, seconds)


def test_nodes_that_do_not_come_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="nodes meet by torch.distributed")
    monkeypatch.setattr(burn, "MEET_SECONDS", 0.0)
    monkeypatch.setattr(burn, "START_SECONDS", 10.0)
    # The first test of this file runs the self-test; here only the pairs are real.
    monkeypatch.setattr(burn, "answers", _pairs_only)
    meeting = Meeting("127.0.0.1", free_port(), 2, 1, "node-1")
    (result,) = burn.check(0.1, meeting)
    assert result.outcome is UNKNOWN and "no test between 2 nodes at 127.0.0.1" in result.text
    assert result.remedy
