"""PostgreSQL is killed at each moment of a page: one page and one resolve come of an incident."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from tests.collector.made import HandClock, body, run_segments
from tests.collector.store.paging.kills.chain import (
    NOTING,
    WRITING,
    Chain,
    actions,
    reported,
    settled,
)
from tests.collector.store.paging.kills.cut import CutAfterCommit
from tests.collector.store.paging.kills.test_collector import OLDEST, pagerduty
from tests.collector.store.paging.pager import listening
from tests.collector.store.test_outbox import Receiver, notifying
from tests.postgresql import PostgresqlServer
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """One of its own: those of other tests go on."""
    server = PostgresqlServer()
    server.start()
    yield server
    server.remove()


@pytest.mark.long(
    "tests/collector/store/paging/kills/test_collector.py::test_killed_at_each_moment_of_a_page_and_of_its_resolve",
    "tests/collector/store/paging/kills/test_postgresql.py::test_a_commit_whose_answer_is_lost_is_not_done_again",
)
def test_killed_as_a_page_is_written_taken_and_committed(
    server: PostgresqlServer, tmp_path: Path
) -> None:
    """While the evaluation writes; while it is noted that the page was taken; after the commit."""
    cut = CutAfterCommit(server.port)
    with listening() as pager:
        chain = Chain(tmp_path, server, pager, pagerduty(tmp_path, pager))
        (collector,) = chain.collectors
        collector.place = collector.place.replace(f":{server.port}/", f":{cut.port}/")
        try:
            chain.start()
            with chain.hold(WRITING) as is_held:
                chain.breaks("unwritten")
                until("an evaluation that writes", is_held)
                server.kill()
                until("an outage", lambda: "cannot" in collector.log.read_text())
                assert OLDEST not in reported(collector), "it is unknown, not nothing"
                server.start()
            until("the page", lambda: len(actions(pager)) == 1)

            with chain.hold(NOTING) as is_held:
                chain.breaks("not-noted")
                until("a page that was taken", is_held)
                server.kill()
                server.start()

            cut.arm(b"INSERT INTO outbox", server.kill)
            chain.breaks("committed")
            until("a commit without an answer", cut.was_cut.is_set)
            server.start()
            for job in ("unwritten", "not-noted", "committed"):
                until(f"the page of {job}", lambda: len(actions(pager)) == 3)
                chain.ends(job)
            settled(chain, lambda: actions(pager), 3)
            assert "Traceback" not in collector.log.read_text()
        finally:
            chain.close()
            cut.close()


def test_a_commit_whose_answer_is_lost_is_not_done_again(
    opened: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The incident and its notice are those that were written, also where its moment moved on."""
    receiver = Receiver()
    clock = HandClock(60.0)
    service = Service(opened, clock, notifier=notifying(opened.outbox, receiver))
    save = opened.save_evaluation

    def committed(*arguments: object, **named: object) -> None:
        save(*arguments, **named)  # type: ignore[arg-type]
        if opened.incidents.newest():
            monkeypatch.undo()
            raise sa.exc.OperationalError("commit", {}, OSError("the server closed the connection"))

    monkeypatch.setattr(opened, "save_evaluation", committed)
    service.receive(body(run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)))
    for _ in range(4):
        service.evaluate()
        clock.advance(1.5)
    assert service.evaluation_failures == 1
    assert len(opened.incidents.newest()) == 1
    assert opened.outbox.counts()["pending"] == 1


def test_metrics_answer_while_the_database_does_not(opened: Store) -> None:
    """How long notices wait is unknown then."""
    notifiers = notifying(opened.outbox, Receiver())
    notifiers.advance()
    assert notifiers.oldest_seconds == {"bridge": 0.0}
    sa.event.listen(opened.engine, "before_cursor_execute", _refuse)
    try:
        notifiers.advance()
    finally:
        sa.event.remove(opened.engine, "before_cursor_execute", _refuse)
    assert notifiers.oldest_seconds == notifiers.counts == notifiers.given_up == {}


def _refuse(*_: object) -> None:
    raise sa.exc.OperationalError("select", {}, OSError("nobody answers"))
