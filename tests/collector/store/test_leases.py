"""Leases against a pure model: however clocks and holders behave, one epoch may write."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sqlalchemy.pool import StaticPool

from stepwatch.collector.runtime.tenancy import Tenancy
from stepwatch.collector.store import Store, schema
from stepwatch.collector.store.holders import is_gone, new_holder
from stepwatch.collector.store.leases import (
    LEASE_SECONDS,
    Lease,
    Leases,
    database_ns,
    fenced,
    still_held,
)
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import LeaseLostError
from tests.postgresql import PostgresqlServer

JOBS = ("one", "two", "three")
SLOTS = st.integers(0, 2)
LEASE_NS = int(LEASE_SECONDS * NANOSECONDS)
NOON = 1_800_000_000 * NANOSECONDS


class Row(NamedTuple):
    holder: str
    epoch: int
    expires: int


class Replica:
    """A collector: its leases, and what it believes that it holds."""

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self.believes: dict[str, int] = {}


class LeaseMachine(RuleBasedStateMachine):
    """Three collectors, of which each may be killed, stopped for long, or given a wrong time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.engine = sa.create_engine("sqlite://", poolclass=StaticPool)
        schema.metadata.create_all(self.engine)
        with self.engine.begin() as connection:
            for name in JOBS:
                row = {"position": 1, "first_received_ns": 0, "last_received_ns": 2 * NOON}
                connection.execute(sa.insert(schema.job).values(name=name, **row))
        self.numbers = itertools.count()
        self.replicas = [self.new_replica() for _ in range(3)]
        self.model = {name: Row("", 0, 0) for name in JOBS}
        self.stale: list[Lease] = []

    def new_replica(self) -> Replica:
        return Replica(Leases(self.engine, f"r{next(self.numbers)}", lambda _: self.now))

    def is_live(self, row: Row) -> bool:
        return self.now < row.expires <= self.now + LEASE_NS

    def expected_claims(self, holder: str, names: list[str]) -> dict[str, int]:
        """What the model says a claim gets."""
        got = {}
        for name in names:
            row = self.model[name]
            if not self.is_live(row):
                self.model[name] = Row(holder, row.epoch + 1, self.now + LEASE_NS)
                got[name] = row.epoch + 1
        return got

    @rule(seconds=st.sampled_from([0.5, 3.0, LEASE_SECONDS, 60.0, 3600.0, -3600.0]))
    def time_passes_or_the_clock_is_set(self, seconds: float) -> None:
        self.now += int(seconds * NANOSECONDS)

    @rule(slot=SLOTS, names=st.lists(st.sampled_from(JOBS), unique=True))
    def claims(self, slot: int, names: list[str]) -> None:
        replica = self.replicas[slot]
        expected = self.expected_claims(replica.leases.holder, names)
        assert replica.leases.claim(names) == expected
        self.believe(replica, expected)

    @rule(slot=SLOTS)
    def takes_up_what_nobody_holds(self, slot: int) -> None:
        replica = self.replicas[slot]
        held_names = sorted(name for name in JOBS if self.model[name].holder)
        expected = self.expected_claims(replica.leases.holder, held_names)
        assert replica.leases.claim_free(10) == expected
        self.believe(replica, expected)

    @rule(slot=SLOTS)
    def renews(self, slot: int) -> None:
        """Whoever was stopped or cut off learns from it what is still its own."""
        replica = self.replicas[slot]
        own_leases = {
            name: row._replace(expires=self.now + LEASE_NS)
            for name, row in self.model.items()
            if row.holder == replica.leases.holder and row.expires > 0
        }
        self.model |= own_leases
        assert replica.leases.renew() == {name: row.epoch for name, row in own_leases.items()}
        replica.believes = {name: row.epoch for name, row in own_leases.items()}

    @rule(slot=SLOTS)
    def stops(self, slot: int) -> None:
        replica = self.replicas[slot]
        replica.leases.leave()
        for name, row in self.model.items():
            if row.holder == replica.leases.holder:
                self.model[name] = row._replace(expires=0)
        self.replicas[slot] = self.new_replica()

    @rule(slot=SLOTS)
    def is_killed_and_something_of_it_still_writes(self, slot: int) -> None:
        replica = self.replicas[slot]
        holder = replica.leases.holder
        self.stale += [Lease(name, holder, epoch) for name, epoch in replica.believes.items()]
        self.replicas[slot] = self.new_replica()

    @rule(slot=SLOTS, name=st.sampled_from(JOBS))
    def gives_up(self, slot: int, name: str) -> None:
        replica = self.replicas[slot]
        replica.leases.release([name], wanted=False)
        if self.model[name].holder == replica.leases.holder:
            self.model[name] = Row("", self.model[name].epoch, 0)

    def believe(self, replica: Replica, claimed: dict[str, int]) -> None:
        replica.believes |= claimed

    def may_write(self, lease: Lease) -> bool:
        try:
            with fenced(self.engine, lease):
                return True
        except LeaseLostError:
            return False

    @invariant()
    def only_the_present_epoch_may_write(self) -> None:
        beliefs = [
            Lease(name, replica.leases.holder, epoch)
            for replica in self.replicas
            for name, epoch in replica.believes.items()
        ]
        for lease in {*beliefs, *self.stale}:
            row = self.model[lease.job]
            assert self.may_write(lease) == ((row.holder, row.epoch) == lease[1:])
        writers = [lease.job for lease in {*beliefs, *self.stale} if self.may_write(lease)]
        assert len(writers) == len(set(writers))

    def teardown(self) -> None:
        self.engine.dispose()


TestLeases = LeaseMachine.TestCase
TestLeases.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


def test_both_databases_keep_leases_alike(opened: Store) -> None:
    first, second = (Leases(opened.engine, name) for name in ("first", "second"))
    assert first.claim(["a", "b"]) == {"a": 1, "b": 1}
    assert second.claim(["b", "c"]) == {"c": 1}
    assert (first.beat(), second.beat(), first.beat()) == ([], ["first"], ["second"])
    assert first.renew() == {"a": 1, "b": 1} and first.share(2) == 2
    first.leave()
    assert second.claim(["a", "b"]) == {"a": 2, "b": 2} and second.beat() == []
    opened.save_evaluation("a", [], [], Lease("a", "first", 1))
    incident = {"id": "x", "job": "a", "kind": "hang", "state": "open", "opened_at": 1.0}
    with pytest.raises(LeaseLostError):
        opened.save_evaluation("a", [], [incident], Lease("a", "first", 1))
    assert opened.incidents.newest() == []
    opened.save_evaluation("a", [], [incident], Lease("a", "second", 2))
    assert opened.incidents.newest() == [incident]


def test_a_lease_that_a_write_is_checked_against_is_not_claimed(opened: Store) -> None:
    """A claim neither waits for the write nor gets in between."""
    if opened.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    delay = [0]
    first = Leases(opened.engine, "first", lambda _: NOON)
    second = Leases(opened.engine, "second", lambda _: NOON + delay[0])
    first.claim(["a", "b"])
    delay[0] = 2 * LEASE_NS
    with fenced(opened.engine, Lease("a", "first", 1)):
        assert second.claim(["a", "b"]) == {"b": 2}
    assert second.claim(["a", "b"]) == {"a": 2}


@pytest.fixture
def impatient(postgresql: PostgresqlServer) -> Iterator[sa.Engine]:
    """A PostgreSQL store whose server refuses a statement that waits for a row."""
    store = Store(postgresql.new_database())
    name = store.engine.url.database
    postgresql.execute(f"ALTER DATABASE {name} SET lock_timeout = '300ms'")
    store.engine.dispose()
    yield store.engine
    store.close()


def test_a_lease_is_renewed_while_its_own_write_takes_long(impatient: sa.Engine) -> None:
    """It neither waits for the write, nor is the lease free when the write is over."""
    delay = [0]
    first, second = (Leases(impatient, name, lambda _: NOON + delay[0]) for name in ("a", "b"))
    lease = Lease("job", "a", 1)
    first.claim(["job", "other"])
    with fenced(impatient, lease), impatient.begin() as views:
        assert still_held(views, [lease, Lease("other", "a", 1)]) == {"job", "other"}
        delay[0] = 2 * LEASE_NS
        assert first.renew() == {"job": 1, "other": 1}
    assert second.claim(["job", "other"]) == {}


def test_a_lease_whose_row_is_in_use_is_kept_and_renewed_the_next_time(
    impatient: sa.Engine,
) -> None:
    delay = [0]
    leases = Leases(impatient, "a", lambda _: NOON + delay[0])
    tenancy = Tenancy(leases)
    tenancy.want(["one", "two"])
    tenancy.claim_wanted()
    row = sa.select(schema.lease).where(schema.lease.c.job == "one").with_for_update()
    delay[0] = LEASE_NS
    with impatient.begin() as somebody:
        somebody.execute(row)
        tenancy.tick()
        assert tenancy.epochs() == {"one": 1, "two": 1}
    assert Leases(impatient, "b", lambda _: NOON + delay[0]).claim(["two"]) == {}
    tenancy.tick()
    assert Leases(impatient, "b", lambda _: NOON + delay[0]).claim(["one"]) == {}


def test_the_clock_is_read_when_the_row_is_held(impatient: sa.Engine) -> None:
    """Read before, it would be old by the time that the row was waited for."""
    row = sa.select(schema.lease.c.job).with_for_update(key_share=True, skip_locked=True)
    free: list[int] = []

    def now(_: sa.Connection) -> int:
        with impatient.begin() as somebody:
            free.append(len(somebody.execute(row).all()))
        return NOON

    leases = Leases(impatient, "a", now)
    leases.claim(["job"])
    free.clear()
    leases.renew()
    assert free == [0]


def test_a_holder_that_comes_back_waits_for_no_other_that_does(impatient: sa.Engine) -> None:
    delay = [0]
    first, second = (Leases(impatient, name, lambda _: NOON + delay[0]) for name in ("a", "b"))
    first.beat()
    second.beat()
    delay[0] = 2 * LEASE_NS
    with impatient.begin() as coming:
        row = sa.select(schema.replica).where(schema.replica.c.holder == "b").with_for_update()
        coming.execute(row)
        assert first.beat() == ["b"]
    assert first.beat() == []


def test_more_leases_than_one_transaction_renews(opened: Store) -> None:
    delay = [0]
    leases = Leases(opened.engine, "a", lambda _: NOON + delay[0])
    names = [f"job-{number:03}" for number in range(201)]
    leases.claim(names)
    delay[0] = 2 * LEASE_NS
    assert leases.renew() == dict.fromkeys(names, 1)
    assert Leases(opened.engine, "b", lambda _: NOON + delay[0]).claim(names) == {}


def test_the_clock_is_that_of_the_database(opened: Store) -> None:
    with opened.engine.connect() as connection:
        first, second = database_ns(connection), database_ns(connection)
    assert 1_700_000_000 * NANOSECONDS < first <= second


def test_a_process_of_this_machine_that_ended_is_known_to_be_gone() -> None:
    host, process_id, space, _ = new_holder().split("/")
    assert (host, process_id) == (socket.gethostname(), str(os.getpid()))
    assert is_gone(f"{host}/{2**22 + 1}/{space}/x"), "no process has this number"
    assert not is_gone(f"{host}/{os.getppid()}/{space}/x")
    for unknown in (new_holder(), f"elsewhere/{2**22 + 1}/{space}/x", f"{host}/{2**22 + 1}/0/x"):
        assert not is_gone(unknown)
