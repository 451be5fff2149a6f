"""A soak with several collectors on one PostgreSQL: killed, stopped, or cut off from it in turn."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import sqlalchemy as sa

from tests.ports import free_port
from tests.postgresql import PostgresqlServer

from . import audit
from .audit import Disturbance
from .comparison import Check
from .plan import Plan
from .processes import PYTHON, Collector, end, spawn
from .run import Note, Soak
from .webhook import Receiver

TURNS = ("killed", "stopped", "cut off")


class ReplicaSoak(Soak):
    """As `Soak`; each replica reaches the database through a relay of its own."""

    def __init__(self, plan: Plan, note: Note) -> None:
        super().__init__(plan, note)
        self._server = PostgresqlServer()
        self._receiver = Receiver()
        self._relays: dict[str, subprocess.Popen[bytes]] = {}
        self._disturbances: list[Disturbance] = []

    def close(self) -> None:
        """End all processes, the database last."""
        super().close()
        for relay in self._relays.values():
            end(relay, signal.SIGKILL)
        self._receiver.close()
        self._server.remove()

    def _start(self) -> None:
        self._server.start()
        self._store = self._server.new_database()
        self._collectors = [self._replica(number) for number in range(self.plan.replicas)]
        for collector in self._collectors:
            collector.start()
        engine = sa.create_engine(self._store)
        audit.install(engine)
        engine.dispose()

    def _replica(self, number: int) -> Collector:
        """Return a collector behind a relay of its own, whose connections carry its name."""
        name, port, folder = f"replica-{number}", free_port(), self.plan.folder
        words = [PYTHON, "-m", "tests.soak.relay", str(port), str(self._server.port)]
        self._relays[name] = spawn(folder / f"{name}-relay.log", *words)
        place = sa.make_url(self._store).set(port=port, query={"application_name": name})
        shown = place.render_as_string(hide_password=False)
        return Collector(folder, name, shown, "--receivers", str(self._receivers_file()))

    def _receivers_file(self) -> Path:
        file = self.plan.folder / "receivers.toml"
        file.write_text(f'[receiver.soak]\nkind = "webhook"\nurl = "{self._receiver.url}"\n')
        return file

    def _disturb_once(self, sender: subprocess.Popen[bytes]) -> None:
        """The next kind of disturbance, to a replica at random."""
        action = TURNS[len(self._disturbances) % len(TURNS)]
        collector = self._random.choice(self._collectors)
        self._disturbances.append(Disturbance(action, collector.name, time.time()))
        if action == "killed":
            self._kill(collector, sender)
            return
        self.disturbances.counts[action] += 1
        process = self._relays[collector.name] if action == "cut off" else collector
        process.send_signal(signal.SIGSTOP)
        try:
            self._wait(self.plan.stop_seconds, sender)
        finally:
            process.send_signal(signal.SIGCONT)

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        engine = sa.create_engine(self._store)
        writes = audit.writes(engine)
        yield audit.one_writer_an_epoch(writes)
        yield audit.takeovers(writes, self._disturbances)
        with engine.connect() as connection:
            sent = sa.text("SELECT key FROM outbox WHERE receiver = 'soak'")
            keys = connection.execute(sent).scalars().all()
            summarised = sa.text("SELECT DISTINCT incident FROM outbox WHERE storm <> ''")
            in_storms = connection.execute(summarised).scalars().all()
            paged = sa.text(
                "SELECT id FROM incident WHERE state <> 'merged' "
                "AND document ->> 'severity' = 'alert'"
            )
            incidents = connection.execute(paged).scalars().all()
        engine.dispose()
        yield delivered_once(keys, self._receiver, in_storms)
        unsaid = [incident for incident in incidents if not any(incident in key for key in keys)]
        yield Check(
            "each incident was notified of",
            f"{len(incidents)} incidents, {len(unsaid)} without a row",
            not unsaid,
        )

    def _settle(self, deadline: float) -> None:
        """Wait until the outbox is empty; the claims of a dead replica expire after a minute."""
        engine = sa.create_engine(self._store)
        pending = sa.text("SELECT count(*) FROM outbox WHERE state = 'pending'")
        while time.monotonic() < deadline:
            with engine.connect() as connection:
                if not connection.execute(pending).scalar_one():
                    break
            time.sleep(1.0)
        engine.dispose()


def delivered_once(
    keys: Sequence[str], receiver: Receiver, in_storms: Collection[str] = ()
) -> Check:
    """Every row of the outbox arrived under its key, always with the same content.

    Rows of incidents `in_storms` may be in the storm's message instead.
    """
    single = {key for key in keys if key.partition(":")[0] not in in_storms}
    missing = len(single - receiver.deliveries.keys())
    more = len(receiver.deliveries.keys() - set(keys))
    repeats = receiver.deliveries.total() - len(receiver.deliveries)
    differing = sum(len(bodies) > 1 for bodies in receiver.bodies.values())
    words = (
        f"{len(keys)} rows, {missing} not delivered, {more} of no row, {differing} with two "
        f"contents; {len(receiver.refusals)} refused at first, {repeats} repeated under their key"
    )
    fine = not (missing or more or differing or receiver.without_key) and len(keys) > 0
    return Check("each outbox row was delivered once by its key", words, fine)
