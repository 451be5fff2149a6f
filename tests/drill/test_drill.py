"""Two drills with every run of the tests: one that is a ticket and one that wakes somebody."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.drill.chain import Chain, Row
from tests.drill.faults import PAIRS, SHORT, SINGLE, Drill
from tests.drill.scoreboard import document, table

pytest.importorskip("torch", reason="the ranks need torch")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    if os.geteuid() != 0 or not shutil.which("prometheus-alertmanager"):
        pytest.skip("two nodes need root, the pages prometheus-alertmanager")
    try:
        made = Chain(tmp_path_factory.mktemp("drill"))
    except OSError as error:
        pytest.skip(f"no network namespaces can be made here: {error}")
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.matrix  # until its two minutes have been seen on a busy machine
@pytest.mark.parametrize("drill", SHORT, ids=lambda each: each.name)
def test_a_fault_reaches_the_pager_once_and_so_does_its_end(chain: Chain, drill: Drill) -> None:
    row = chain.run(drill)
    assert row.problems == (), row
    assert row.pages == 1


def test_every_drill_has_a_name_of_its_own() -> None:
    names = [each.name for each in (*SINGLE, *PAIRS)]
    assert len(set(names)) == len(names) and len(PAIRS) == 10


def test_what_never_came_is_said() -> None:
    never = float("nan")
    row = Row("hang", "none", "", -1, "", never, never, never, 0, ("no such incident",))
    shown = table([row], 600.0, 2)
    assert "never" in shown and "0 of 1 as they should be" in shown
    assert "2 notifications in 10 healthy minutes" in shown
    assert document([row], 0.0, 0)["drills"][0]["paged_seconds"] is None
