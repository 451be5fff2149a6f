"""The writers of evaluations by epoch, recorded by triggers in PostgreSQL, whatever collectors
claim.

A replica's connections carry its name. The record is written in the transaction of the write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from .comparison import Check
from .plan import JOB

TABLES = ("sli_slice", "incident", "snapshot")
TAKEOVER_SECONDS = 15.0
_NOTE = f"""
CREATE TABLE soak_note (
    id bigserial PRIMARY KEY, at double precision, written text, replica text, epoch bigint);
CREATE FUNCTION soak_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO soak_note (at, written, replica, epoch) VALUES (
        extract(epoch FROM clock_timestamp()), TG_TABLE_NAME,
        current_setting('application_name'), (SELECT epoch FROM lease WHERE job = '{JOB}'));
    RETURN NULL;
END $$;
"""


class Write(NamedTuple):
    """One statement that wrote part of an evaluation."""

    time_s: float
    written: str
    replica: str
    epoch: int | None


class Disturbance(NamedTuple):
    """A disturbance: its kind, its replica, and its time in Unix seconds."""

    action: str
    replica: str
    time_s: float


def install(engine: sa.Engine) -> None:
    """Note every write from now on; the collectors' tables must be there."""
    with engine.begin() as connection:
        connection.exec_driver_sql(_NOTE)
        for table in TABLES:
            connection.exec_driver_sql(
                f"CREATE TRIGGER soak_note AFTER INSERT OR UPDATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION soak_note()"
            )


def writes(engine: sa.Engine) -> list[Write]:
    """Return all recorded writes in order."""
    with engine.connect() as connection:
        query = sa.text("SELECT at, written, replica, epoch FROM soak_note ORDER BY id")
        return [Write(*row) for row in connection.execute(query)]


def one_writer_an_epoch(writes: Sequence[Write]) -> Check:
    """Check that in each epoch one replica wrote, and none after a later epoch had begun."""
    writers: dict[int | None, set[str]] = {}
    for write in writes:
        writers.setdefault(write.epoch, set()).add(write.replica)
    split = [epoch for epoch, names in writers.items() if len(names) > 1 or epoch is None]
    names = {write.replica for write in writes}
    words = f"{len(writes):,} writes of {len(names)} replicas in {len(writers)} epochs"
    words += f", {len(split)} with more than one" if split else ", each with one"
    return Check("no split verdict: one writer an epoch", words, not split and len(writes) > 0)


def takeovers(writes: Sequence[Write], disturbed: Sequence[Disturbance]) -> Check:
    """Check that the other replica writes soon after a disturbance of the holder."""
    waits = []
    for action, replica, moment_s in disturbed:
        earlier = [write for write in writes if write.time_s < moment_s]
        if not earlier or earlier[-1].replica != replica:
            continue
        later = next(
            (w.time_s - moment_s for w in writes if w.time_s > moment_s and w.replica != replica),
            None,
        )
        back = next(
            (w.time_s - moment_s for w in writes if w.time_s > moment_s and w.replica == replica),
            None,
        )
        # A killed replica that restarts before its lease ends keeps the lease.
        seconds = min((delay for delay in (later, back) if delay is not None), default=float("inf"))
        waits.append((action, seconds if action == "killed" else later or float("inf")))
    slowest = max((seconds for _, seconds in waits), default=0.0)
    words = (
        ", ".join(f"{action} {seconds:.1f} s" for action, seconds in waits) or "never the holder"
    )
    limit = f" (limit {TAKEOVER_SECONDS:.0f} s)"
    return Check(
        "verdicts went on after the holder was", words + limit, slowest <= TAKEOVER_SECONDS
    )
