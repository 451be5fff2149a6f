"""Two drills, a page and (in the matrix) a ticket; and the layout of scoreboards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.drill.chain.pager import FIRING
from tests.drill.chain.site import Site
from tests.drill.faults import PAIRS, SHORT, SINGLE, Drill
from tests.drill.outcome import Row, make_row
from tests.drill.scoreboard import Board, Check, Healthy, document, table
from tests.drill.trial import run_drill
from tests.waiting import until

pytest.importorskip("torch", reason="the ranks need torch")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if os.geteuid() != 0 or not shutil.which("prometheus-alertmanager"):
        pytest.skip("two nodes need root, the pages prometheus-alertmanager")
    try:
        chain = Site(tmp_path_factory.mktemp("drill"))
    except OSError as error:
        pytest.skip(f"no network namespaces can be made here: {error}")
    try:
        chain.start()
        yield chain
    finally:
        chain.close()


@pytest.mark.parametrize(
    "drill",
    [pytest.param(SHORT[0], marks=pytest.mark.matrix), *SHORT[1:]],
    ids=lambda drill: drill.name,
)
@pytest.mark.long(
    "tests/hangs/test_hangs.py::test_a_rank_that_sleeps_is_a_ticket_with_its_line",
    "tests/alerts/test_rules.py::test_the_cases_of_an_alert_need_no_other_rule",
    "tests/alerts/routes/test_alertmanager.py::test_a_page_arrives_once_with_all_it_must_say_and_resolves",
    "tests/collector/store/paging/kills/test_collector.py::test_killed_at_each_moment_of_a_page_and_of_its_resolve",
)
def test_a_fault_reaches_whoever_is_to_know_once(site: Site, drill: Drill) -> None:
    trial = run_drill(site, drill, print)
    until("it arrived", lambda: trial.notifications(site, FIRING))
    shown = make_row(site, trial, was_waited_for=False)
    assert shown.problems == (), shown
    assert shown.notifications == 1


def test_every_drill_has_a_name_and_a_job_of_its_own() -> None:
    drills = (*SINGLE, *PAIRS)
    assert len({drill.name for drill in drills}) == len(drills) and len(PAIRS) == 10
    assert len({drill.job_name for drill in drills}) == len(drills)


def test_what_never_came_is_said_and_fails() -> None:
    never = float("nan")
    missing = Row("hang", "none", "", -1, "page", *(never,) * 3, 0, never, ("no such incident",))
    board = Board(
        [missing], [Check("canary", "a page", 3.0, ())], Healthy(600.0, 3, 9, 12, 4, 15.2, ())
    )
    shown = table(board)
    assert board.fails
    assert "no such incident" in shown and "1 of 2 as they should be" in shown
    assert "0 notifications in 10 healthy minutes with 3 restarts, 9 checkpoints\n" in shown
    assert "and 12 evaluations, 4 of them unmarked and of up to 15 s" in shown
    assert document(board)["healthy"]["evaluations"] == 12
    assert document(board)["drills"][0]["sent_seconds"] is None


def test_a_healthy_hour_that_ended_early_is_no_evidence() -> None:
    board = Board([], [], Healthy(600.0, 3, 9, 12, 4, 15.2, (), "it did not reach step 1"))
    assert board.fails
    assert "it ended early: it did not reach step 1" in table(board)


def test_the_scoreboard_fits_a_terminal() -> None:
    long = Row(
        "memory-growth + slow-collective", "silent-corruption", "replica-mismatch", 2, "ticket",
        123.0, 123.0, 123.0, 1, 123.0, ("because " * 40,),
    )  # fmt: skip
    check = Check("alertmanager dies", "the heartbeat of every 30 s is overdue", 999.0, ())
    assert max(map(len, table(Board([long], [check])).splitlines())) <= 80
