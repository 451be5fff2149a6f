"""Stacks of real ranks from outside: the function that holds the slow rank, and every failure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepwatch.agent.profiles import sample_ranks
from stepwatch.agent.stalls.stack import FOREIGN, MISSING, REFUSED, find_py_spy
from tests.agent.stalls.workers import needs_py_spy

from .test_asking import server_at
from .test_causes import profiled, running


def test_why_a_rank_has_no_stack_is_said_in_words(tmp_path: Path) -> None:
    here, ended = server_at(tmp_path / "0.sock"), server_at(tmp_path / "1.sock", 1, 4_000_000)
    refuse = tmp_path / "refuse"
    refuse.write_text("#!/bin/sh\necho 'Permission Denied: Try running again' >&2; exit 1\n")
    refuse.chmod(0o700)
    for program, reasons in (
        (None, [MISSING, MISSING]),
        (str(refuse), [REFUSED, FOREIGN]),
        (str(tmp_path / "missing"), ["cannot run py-spy: No such file or directory", FOREIGN]),
    ):
        samples = sample_ranks([here, ended], program, 1.0)
        assert [item.reason for item in samples] == reasons
        assert [item.text for item in samples] == ["", ""]
    assert find_py_spy() is None or sample_ranks([], find_py_spy(), 1.0) == []


@pytest.mark.long(
    "tests/agent/profiles/test_stacks.py::test_why_a_rank_has_no_stack_is_said_in_words",
    "tests/collector/analysis/profiles/test_stacks.py::test_the_function_that_takes_more_is_named_by_its_share",
)
@needs_py_spy
@pytest.mark.parametrize(
    ("cause", "pattern"),
    [("lock", r"read_shared_state \(slow_rank.py:\d+\) holds \d+% of rank 1's time \(peer .*")],
    ids=["lock"],
)
def test_the_function_that_waits_is_named(cause: str, pattern: str, tmp_path: Path) -> None:
    with running(cause, tmp_path) as (rings, _):
        code, document = profiled(rings, "--rank", "1", "--stacks")
        assert code == 0, document
        assert re.fullmatch(pattern, document["sentence"]), document
        assert (document["rank"], document["peer"]) == (1, 0)
