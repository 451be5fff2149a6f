"""Real collectors on a real PostgreSQL that page a real receiver, and what is killed of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa

from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.made import body, lifecycle_rows, run_segments, segment
from tests.collector.process import Process
from tests.collector.store.paging.pager import Pager
from tests.postgresql import PostgresqlServer
from tests.waiting import until

SHORT = """
import sys
from stepwatch.collector.runtime import notifier, tenancy
from stepwatch.collector.runtime.paging import forgetting
from stepwatch.collector.store import leases
from stepwatch.collector.store.incidents import outbox
leases._LEASE_NS, tenancy.LEASE_SECONDS, tenancy.RENEW_SECONDS = 3_000_000_000, 3.0, 0.2
outbox.CLAIMED_SECONDS, notifier.SENDING_SECONDS = 4.0, 1.0
outbox.LAST_RETRY_SECONDS, notifier.STORM_AT = 1.0, 1000
forgetting.EVERY_SECONDS, notifier.BEFORE_THE_END_SECONDS = 0.5, 3.0
from stepwatch.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command with shorter leases and claims, and no storms: many incidents have a page each."""
_HOLD = """
CREATE FUNCTION hold() RETURNS trigger AS $$ BEGIN
  IF {when} THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER hold BEFORE {what} ON outbox FOR EACH ROW EXECUTE FUNCTION hold()
"""
CLAIM = ("UPDATE", "NEW.state = 'pending' AND NEW.tries > OLD.tries")
NOTING = ("UPDATE", "NEW.state = 'delivered'")
WRITING = ("INSERT", "TRUE")
"""Moments of a page: before it is sent, after it was taken, as the evaluation writes it."""


class Chain:
    """Collectors at `url`, a store, and the pager that they page."""

    def __init__(
        self, folder: Path, server: PostgresqlServer, pager: Pager, receivers: str, count: int = 1
    ) -> None:
        self.server, self.pager = server, pager
        self.url = server.new_database()
        self._folder = folder
        (folder / "receivers.toml").write_text(receivers)
        (folder / "key").write_text("k")
        self.collectors = [self._collector(f"collector-{number}") for number in range(count)]

    def _collector(self, name: str) -> Process:
        place = self._folder / name
        place.mkdir()
        options = ("--receivers", str(self._folder / "receivers.toml"))
        return Process(place, url=self.url, program=("-c", SHORT), options=options)

    def start(self) -> None:
        """Start all that do not run, and wait until they answer."""
        for collector in self.collectors:
            if not collector.runs:
                collector.start()
        for collector in self.collectors:
            collector.wait_ready()

    def breaks(self, job: str) -> None:
        """A rank of a job becomes slow: an incident that pages."""
        run = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30, job=job)
        self.send(body(run))

    def ends(self, job: str) -> None:
        """The job finishes, and with it its incidents."""
        rows = lifecycle_rows(LifecycleEvent.FINISH, range(4), time_s=12.1)
        self.send(body([segment(99, {Kind.LIFECYCLE: rows}, job)]))

    def send(self, data: bytes) -> None:
        """As an agent does: until a collector takes it."""
        until("a collector to take segments", lambda: self._is_accepted(data))

    def _is_accepted(self, data: bytes) -> bool:
        for collector in self.collectors:
            try:
                if collector.send(data).status_code == 200:
                    return True
            except httpx.HTTPError:
                continue
        return False

    def incidents(self) -> dict[str, str]:
        """State of each incident of slow ranks, by its id; nothing while nobody can tell."""
        query = "SELECT id, state FROM incident WHERE kind = 'straggler'"
        engine = sa.create_engine(self.url)
        try:
            with engine.connect() as connection:
                return {row[0]: row[1] for row in connection.exec_driver_sql(query)}
        except sa.exc.OperationalError:
            return {}
        finally:
            engine.dispose()

    @contextmanager
    def hold(self, moment: tuple[str, str]) -> Iterator[Callable[[], bool]]:
        """Collectors stop for as long at a moment; yields whether one stopped there."""
        operation, when = moment
        database = str(sa.make_url(self.url).database)
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT")
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT pg_advisory_lock(1)")
            connection.exec_driver_sql(_HOLD.format(what=operation, when=when))
            try:
                yield lambda: connection.exec_driver_sql(waiting).scalar_one() > 0
            finally:
                connection.invalidate()
                engine.dispose()
                self.server.execute("DROP FUNCTION IF EXISTS hold CASCADE", database)

    def close(self) -> None:
        """Kill all."""
        for collector in self.collectors:
            collector.end()


def actions(pager: Pager) -> dict[str, list[str]]:
    """What PagerDuty keeps of events by their keys: the same one again changes nothing."""
    actions_by_key: dict[str, list[str]] = {}
    for event in list(pager.taken):
        incident_actions = actions_by_key.setdefault(
            event["dedup_key"].removeprefix("stepwatch/"), []
        )
        if incident_actions[-1:] != [event["event_action"]]:
            incident_actions.append(event["event_action"])
    return actions_by_key


def settled(
    chain: Chain, read_actions: Callable[[], dict[str, list[str]]], count: int, seconds: float = 3.0
) -> None:
    """Wait until `count` incidents were paged and resolved, and a little longer: each once."""
    once = ["trigger", "resolve"]

    def holds() -> bool:
        incidents, sent = chain.incidents(), read_actions()
        return len(incidents) == count and all(
            sent.get(incident_id, [])[-1:] == ["resolve"] for incident_id in incidents
        )

    until("a page and a resolve of each incident", holds, 120.0)
    time.sleep(seconds)  # what would come twice
    incidents, sent = chain.incidents(), read_actions()
    assert len(incidents) == count and "open" not in incidents.values(), incidents
    assert {incident_id: sent[incident_id] for incident_id in incidents} == dict.fromkeys(
        incidents, once
    )


def reported(collector: Process) -> dict[str, Any]:
    """Lines of /metrics about notices."""
    text = httpx.get(f"{collector.url}/metrics", timeout=10.0).text
    lines = [line for line in text.splitlines() if line.startswith("stepwatch_collector_notices")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
