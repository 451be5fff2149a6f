"""Slices read the same before and after they are packed, whatever is written between."""

from __future__ import annotations

import logging
import random
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from stepwatch.collector.store import Store, schema
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.collector.store.migrations import moving
from stepwatch.collector.store.slices import SLICE, Slice, packing
from stepwatch.collector.store.slices.blocks import packed, unpacked
from stepwatch.collector.store.upkeep.checks import problems
from stepwatch.collector.store.upkeep.compaction import Compactor
from stepwatch.collector.store.upkeep.removal import Keep
from stepwatch.collector.store.upkeep.retention import Retention
from stepwatch.signals.errors import StoreDamagedError
from tests.collector.made import JOB
from tests.collector.store.filled import DAY_NS, RECEIVED, fill
from tests.postgresql import PostgresqlServer

DAY_S = 86_400
SPAN_S = 3 * DAY_S
LINES = [(JOB, "goodput"), (JOB, "step-time"), ("other", "goodput")]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows stay unpacked, and few move at once."""
    monkeypatch.setattr(packing, "MOST_ROWS", 5)
    monkeypatch.setattr(packing, "_OLDEST", packing._OLDEST.limit(7))
    monkeypatch.setattr(packing, "AT_ONCE", 7)


def pack(store: Store) -> int:
    return Compactor(store.engine, lambda _: False).pack_slices()


def counts(store: Store) -> tuple[int, int]:
    """Numbers of rows and of blocks."""
    with store.engine.connect() as connection:
        rows, blocks = (
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (schema.sli_slice, schema.slice_block)
        )
    return rows, blocks


def slice_at(start: int, seconds: int = 10, version: int = 1) -> Slice:
    """A slice whose numbers tell it from others."""
    good, total = start / 7 + version, start / 3 + version
    return Slice(start, version, good / 10, total / 10, 4, 5, good, total, seconds)


def some_slices(count: int, start: int = 0) -> list[Slice]:
    return [slice_at(start + 10 * number) for number in range(count)]


def save(store: Store, slices: list[Slice], job: str = JOB, sli: str = "goodput") -> None:
    store.save_evaluation(job, [(sli, part) for part in slices], [])


class Line:
    """Slices of one SLI of a job as they should be stored."""

    def __init__(self) -> None:
        self.slices: dict[int, Slice] = {}

    def random_change(self, draw: random.Random) -> list[Slice]:
        """Slices that are new, amended, or coarse."""
        version = draw.randrange(1, 1000)
        if draw.random() < 0.3:
            start = draw.randrange(0, SPAN_S, 300)
            coarse = [slice_at(start + 300 * n, 300, version) for n in range(draw.randrange(1, 4))]
            return [part for part in coarse if part.start_s < SPAN_S]
        first = draw.choice([0, DAY_S - 200, DAY_S, draw.randrange(0, SPAN_S, 10)])
        starts = range(first, min(first + 10 * draw.randrange(1, 60), SPAN_S), 10)
        slices = [self._same_place(start, version) for start in starts if draw.random() < 0.7]
        return list({part.start_s: part for part in slices}.values())

    def _same_place(self, start: int, version: int) -> Slice:
        """A slice with the boundaries of the one that is there."""
        coarse = start // 300 * 300
        is_coarse = coarse in self.slices and self.slices[coarse].seconds == 300
        return slice_at(coarse, 300, version) if is_coarse else slice_at(start, 10, version)

    def put(self, slices: list[Slice]) -> None:
        for part in slices:
            inside = range(part.start_s, part.start_s + part.seconds, 10)
            self.slices = {s: old for s, old in self.slices.items() if s not in inside}
            self.slices[part.start_s] = part

    def in_order(self) -> list[Slice]:
        return [self.slices[start] for start in sorted(self.slices)]

    def sums_before(self, moment: int) -> list[float]:
        before = [part for part in self.in_order() if part.start_s < moment]
        return [before[-1].cumulative_good, before[-1].cumulative_total] if before else [0.0, 0.0]


@pytest.mark.parametrize("seed", range(4))
def test_slices_and_sums_are_the_same_however_much_is_packed(opened: Store, seed: int) -> None:
    draw = random.Random(seed)
    lines = {subject: Line() for subject in LINES}
    days = [AccountDay(job, 0, "a", {}) for job in (JOB, "other")]
    for day in days:
        opened.save_evaluation(day.job, [], [], days=[day])
    for _ in range(25):
        for (job, sli), line in lines.items():
            changed = line.random_change(draw)
            save(opened, changed, job, sli)
            line.put(changed)
        if draw.random() < 0.4:
            pack(opened)
        moments = [0, DAY_S, SPAN_S, *(draw.randrange(SPAN_S) for _ in range(6))]
        for (job, sli), line in lines.items():
            assert opened.slices(job, sli) == line.in_order()
            expected = [line.sums_before(moment) for moment in moments]
            assert opened.slice_sums(sli, moments, 0, job)[job].tolist() == expected
    assert counts(opened)[1] >= 3
    assert list(problems(opened.engine)) == []


def test_few_rows_stay_and_many_move(opened: Store) -> None:
    save(opened, some_slices(5))
    assert pack(opened) == 0 and counts(opened) == (5, 0)
    save(opened, some_slices(30, DAY_S - 100))
    assert pack(opened) == 35 and counts(opened) == (0, 2)
    assert opened.slices(JOB, "goodput") == some_slices(5) + some_slices(30, DAY_S - 100)


def test_rows_move_later_while_an_evaluation_writes_them(postgresql: PostgresqlServer) -> None:
    store = Store(postgresql.new_database())
    save(store, some_slices(9))
    with store.engine.begin() as connection:
        connection.execute(sa.update(schema.sli_slice).values(version=2))
        assert pack(store) == 0
    assert pack(store) == 9
    assert {part.version for part in store.slices(JOB, "goodput")} == {2}
    store.close()


def test_a_damaged_block_loses_nothing_and_concerns_its_job_alone(
    opened: Store, caplog: Any
) -> None:
    for job in (JOB, "other"):
        save(opened, some_slices(20), job)
    pack(opened)
    table = schema.slice_block
    with opened.engine.begin() as connection:
        change = sa.update(table).where(table.c.job == JOB)
        connection.execute(change.values(payload=packed(np.zeros(3, SLICE))[:-1] + b"x"))
    save(opened, some_slices(20, 500))
    save(opened, some_slices(20, 500), "other")
    with caplog.at_level(logging.ERROR):
        assert pack(opened) == 20 and counts(opened)[0] == 20
    assert f"goodput slices of {JOB} stay unpacked" in caplog.text
    with pytest.raises(StoreDamagedError, match=f"goodput slices of {JOB}.*checksum"):
        opened.slices(JOB, "goodput")
    assert len(opened.slices("other", "goodput")) == 40
    (problem,) = problems(opened.engine)
    assert problem.startswith(f"the goodput slices of job {JOB} on the day from 0 are damaged")


@pytest.mark.parametrize("cut", [0, 10, 15, 40])
def test_a_cut_block_is_refused(cut: int) -> None:
    data = packed(np.ones(50, SLICE))
    with pytest.raises(ValueError, match="block of slices"):
        unpacked(data[:cut])
    with pytest.raises(ValueError, match="has format"):
        unpacked(b"SWSL\2" + data[5:])


def test_retention_removes_blocks_with_the_rows(opened: Store) -> None:
    fill(opened)
    save(opened, some_slices(20))
    pack(opened)
    save(opened, some_slices(2, 500))
    Retention(opened.engine, lambda _: False).prune(Keep(slices=5), RECEIVED + 6 * DAY_NS)
    assert counts(opened) == (0, 0)


def test_slices_are_unpacked_for_an_earlier_schema(url: str) -> None:
    store = Store(url)
    save(store, some_slices(40))
    save(store, some_slices(40, DAY_S - 200), sli="step-time")
    pack(store)
    coarse = [slice_at(0, 300, 9), slice_at(390, 10, 7)]
    save(store, coarse)
    slices = [store.slices(JOB, sli) for sli in ("goodput", "step-time")]
    store.close()
    moving.move(url, "2")
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        query = sa.select(sa.func.count()).select_from(schema.sli_slice)
        assert connection.execute(query).scalar_one() == 11 + 40
    engine.dispose()
    store = Store(url)
    assert [store.slices(JOB, sli) for sli in ("goodput", "step-time")] == slices
    store.close()
