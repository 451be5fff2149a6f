"""Who wrote evaluations under which epoch: triggers in PostgreSQL note it, whatever collectors say.

A replica is known by the name that its connections carry. The note is written in the transaction of
the write itself.
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

    at: float
    written: str
    replica: str
    epoch: int | None


class Disturbance(NamedTuple):
    """What was done to which replica, and when (Unix seconds)."""

    what: str
    replica: str
    at: float


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
    """Everything noted, in order."""
    with engine.connect() as connection:
        query = sa.text("SELECT at, written, replica, epoch FROM soak_note ORDER BY id")
        return [Write(*row) for row in connection.execute(query)]


def one_writer_an_epoch(found: Sequence[Write]) -> Check:
    """In each epoch one replica wrote, and none after a later epoch had begun."""
    writers: dict[int | None, set[str]] = {}
    for write in found:
        writers.setdefault(write.epoch, set()).add(write.replica)
    split = [epoch for epoch, names in writers.items() if len(names) > 1 or epoch is None]
    names = {write.replica for write in found}
    words = f"{len(found):,} writes of {len(names)} replicas in {len(writers)} epochs"
    words += f", {len(split)} with more than one" if split else ", each with one"
    return Check("no split verdict: one writer an epoch", words, not split and len(found) > 0)


def taken_over(found: Sequence[Write], disturbed: Sequence[Disturbance]) -> Check:
    """After the holder was disturbed the other replica writes soon."""
    waits = []
    for what, replica, at in disturbed:
        before = [write for write in found if write.at < at]
        if not before or before[-1].replica != replica:
            continue
        later = next((w.at - at for w in found if w.at > at and w.replica != replica), None)
        back = next((w.at - at for w in found if w.at > at and w.replica == replica), None)
        # A killed one that is back before its lease ran out goes on.
        seconds = min((each for each in (later, back) if each is not None), default=float("inf"))
        waits.append((what, seconds if what == "killed" else later or float("inf")))
    slowest = max((seconds for _, seconds in waits), default=0.0)
    words = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in waits) or "never the holder"
    limit = f" (limit {TAKEOVER_SECONDS:.0f} s)"
    return Check(
        "verdicts went on after the holder was", words + limit, slowest <= TAKEOVER_SECONDS
    )
