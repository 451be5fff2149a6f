"""One SLO in full: since when it asks for what, and what turned its figure afterwards."""

from __future__ import annotations

import math
import sqlite3
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.cli.slos.in_full import gone_in, in_full
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.openslo import default_slos
from stepwatch.collector.slo.asked.rates import Rate, RateCard
from stepwatch.collector.slo.asked.site import Objectives, Planned, read_objectives
from stepwatch.collector.slo.asked.windows import RollingWindow
from stepwatch.collector.slo.objectives import Slo
from stepwatch.collector.slo.waste import CAUSES
from stepwatch.collector.store import Store
from stepwatch.collector.web.schema.slo import SloDetail
from stepwatch.collector.web.slo_view import job_slos
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.made import (
    EPOCH,
    JOB,
    HandClock,
    body,
    lifecycle_rows,
    run_segments,
    segment,
    step_rows,
)
from tests.collector.slo.test_run_slis import KILLED

GOODPUT = Slo("goodput", "Goodput", "goodput", Decimal("0.9"), RollingWindow(3600))
RATES = RateCard("USD", (Rate(date(2020, 1, 1), 3600.0),))


def objectives_of(*slos: Slo, planned: tuple[Planned, ...] = ()) -> Objectives:
    """These SLOs, for jobs of every class."""
    return Objectives({slo.name: slo for slo in slos}, planned=planned, rates=RATES)


def test_a_kill_at_step_30_with_a_save_at_20_turns_steps_bad_backwards(tmp_path: Path) -> None:
    """All of it through one collector: the first attempt is good until the second resumes."""
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(7.6)
    service = Service(store, clock, objectives=objectives_of(GOODPUT))
    service.receive(body(KILLED[:33]))
    service.evaluate()

    def shown_slo() -> SloDetail:
        answer = service.job(JOB)
        assert answer is not None
        return job_slos(*answer, service.now())["slos"][0]

    earlier, account = shown_slo(), store.account_days(0, 1 << 40, JOB)[0].document
    assert earlier["audit"] == [] and "redone-after-restart" not in account
    clock.advance(21.4 - 7.6)
    service.receive(body(KILLED[33:]))
    service.evaluate()
    later, account = shown_slo(), store.account_days(0, 1 << 40, JOB)[0].document
    (amended,) = later["audit"]
    assert amended["what"] == "amended" and "steps 20 to 30 of run 0" in amended["text"]
    # Steps 20 to 30 of 0.2 s ended at 5.2 to 7.2 s of the run.
    assert amended["from"] - EPOCH == pytest.approx(5.0, abs=0.01)
    assert amended["until"] - EPOCH == pytest.approx(7.2, abs=0.01)
    assert account["redone-after-restart"] == pytest.approx(4 * 11 * 0.2 * 1e6, rel=0.01)
    # By hand: start-up of a second, steps 0 to 19 kept, 20 to 30 not, then 41 steps after another
    # second of start-up; for 4.8 s between the attempts the devices were held for nothing.
    assert later["ratio"] == pytest.approx((20 + 41) * 0.2 / (7.2 + 4.8 + 9.2), abs=0.01)
    assert earlier["ratio"] == pytest.approx(31 * 0.2 / 7.2, abs=0.01)
    lost = later["lost_device_seconds"]
    assert lost == pytest.approx(4 * (21.2 - 61 * 0.2), abs=0.2)
    allocated = sum(value for name, value in account.items() if name in CAUSES) / 1e6
    assert later["allowed_device_seconds"] is not None
    assert allocated == pytest.approx(later["allowed_device_seconds"] / 0.1, abs=0.01)
    store.close()


def test_a_document_that_changes_begins_a_generation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(13.0)
    service = Service(store, clock, objectives=objectives_of(GOODPUT))
    service.receive(body(run_segments(60)))
    for target in ("0.9", "0.9", "0.95", "0.9"):
        service.site_objectives.replace(objectives_of(GOODPUT._replace(target=Decimal(target))))
        clock.advance(1.0)
        service.evaluate()
    numbers = [
        (generation.number, generation.document["asked"])
        for generation in store.generations("goodput")
    ]
    assert numbers == [
        (1, "at least 90% good"),
        (2, "at least 95% good"),
        (3, "at least 90% good"),
    ]
    moments = [generation.since_s for generation in store.generations("goodput")]
    assert moments == sorted(moments)
    restarted = Service(store, clock, objectives=objectives_of(GOODPUT))
    restarted.evaluate()
    assert len(store.generations("goodput")) == 3, "a restart changes nothing"
    answer = restarted.job(JOB)
    assert answer is not None
    (status,) = answer[1].slo_statuses
    assert (status.slo.generation, status.slo.since_s) == (3, moments[-1])
    store.close()
    words = ["slo", JOB, "goodput", "--store", str(tmp_path / "store.db")]
    assert main(words) in (OK, PROBLEM)
    assert "audit" in capsys.readouterr().out


def test_two_that_begin_a_generation_at_once_begin_one(tmp_path: Path) -> None:
    stores = [Store.sqlite(tmp_path / "store.db") for _ in range(2)]
    words = {"goodput": ("aaaa", {"sli": "goodput"})}
    generations = [
        store.note_generations(words, 5.0 + offset_s) for offset_s, store in enumerate(stores)
    ]
    assert generations[0] == generations[1] and generations[1]["goodput"].since_s == 5.0
    for store in stores:
        store.close()


def test_a_store_that_does_not_answer_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.sqlite(tmp_path / "store.db")
    service = Service(store, HandClock(13.0), objectives=objectives_of(GOODPUT))
    original = store.note_generations

    def unavailable(*_: object) -> None:
        raise sa.exc.OperationalError("insert", {}, OSError("gone"))

    monkeypatch.setattr(store, "note_generations", unavailable)
    service.evaluate()
    assert service.evaluation_failures == 1 and store.generations("goodput") == []
    monkeypatch.setattr(store, "note_generations", original)
    service.evaluate()
    assert [generation.number for generation in store.generations("goodput")] == [1]
    store.close()


def test_planned_time_is_in_the_audit(tmp_path: Path) -> None:
    store = Store.sqlite(tmp_path / "store.db")
    planned = Planned(EPOCH + 4.0, EPOCH + 8.0, "new firmware")
    later = Planned(EPOCH + 9e5, EPOCH + 9e6, "next month")
    service = Service(
        store, HandClock(13.0), objectives=objectives_of(GOODPUT, planned=(planned, later))
    )
    service.receive(body(run_segments(60)))
    service.evaluate()
    answer = service.job(JOB)
    assert answer is not None
    (slo,) = job_slos(*answer, service.now())["slos"]
    (line,) = slo["audit"]
    assert line["what"] == "planned" and line["text"].endswith("new firmware")
    store.close()


def test_one_slo_is_shown_with_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(17.0)
    service = Service(store, clock, objectives=read_objectives()._replace(rates=RATES))
    slow = {(2, "forward"): 0.5}
    service.receive(body(run_segments(80, excess=slow, slow_from=40)))
    service.evaluate()
    answer = service.job(JOB)
    assert answer is not None
    full = {slo["name"]: slo for slo in job_slos(*answer, service.now())["slos"]}
    assert full["goodput"]["price"] == {"money": 1.0, "currency": "USD"}
    shown = in_full({"job": JOB, "device_seconds": {}}, {**full["goodput"], "generations": []})
    assert "USD of " in shown
    names = [status.name for status in answer[1].slo_statuses]
    store.close()
    path = ["--store", str(tmp_path / "store.db")]
    for name in names:
        assert main(["slo", JOB, name, *path]) in (OK, PROBLEM)
        shown = capsys.readouterr().out
        assert f"{JOB}, SLO {name}: " in shown and "generation 1: " in shown
        assert max(map(len, shown.splitlines())) <= 80
    assert main(["slo", JOB, "goodputt", *path]) == USAGE
    assert "goodput" in capsys.readouterr().err
    assert main(["slo", "no-such-job", "goodput", *path]) != OK


@pytest.mark.parametrize(
    ("mean", "rate", "base", "hours"),
    [
        (0.5, 2.0, 1.0, 5.0),  # the worked example
        (0.5, 0.5, 1.0, math.inf),  # as much is allowed as time passes
        (0.5, 1.5, 0.5, 5.0),  # a full window: half a time's worth leaves it
        (0.5, 0.5, 0.5, math.inf),
    ],
)
def test_when_a_budget_is_gone(mean: float, rate: float, base: float, hours: float) -> None:
    assert gone_in(36_000.0, mean, rate, base) == hours * 3600
    if base != 1.0 or hours == math.inf:
        return
    # The same by the second: what is lost reaches what is allowed, and not before.
    seconds, lost = 36_000, mean * 36_000
    while lost < seconds:
        seconds, lost = seconds + 1, lost + rate
    assert seconds - 36_000 == pytest.approx(hours * 3600, abs=2)


def test_a_generation_that_is_damaged_ends_nobody(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store.sqlite(path)
    store.note_generations({"goodput": ("aaaa", {"sli": "goodput"})}, 5.0)
    with sqlite3.connect(path) as database:
        database.execute("update generation set document = '{not JSON'")
    assert store.newest_generations()["goodput"].revision == "aaaa"
    (generation,) = store.generations("goodput")
    assert generation.document["asked"] == "unknown"
    Service(store, HandClock(1.0)).evaluate()
    store.close()


def test_a_store_of_a_collector_with_other_documents_is_shown_with_a_word_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(13.0)
    step_time = next(slo for slo in default_slos() if slo.name == "step-time")
    service = Service(
        store, clock, objectives=objectives_of(step_time._replace(target=Decimal("0.9")))
    )
    service.receive(body(run_segments(60)))
    service.evaluate()
    store.close()
    main(["slo", JOB, "--store", str(tmp_path / "store.db")])
    assert "SLO step-time: the collector of this store was given other" in capsys.readouterr().err
    main(["incidents", "--store", str(tmp_path / "store.db")])
    assert capsys.readouterr().err == ""


def test_an_average_of_ratios_says_fine_where_the_budget_is_spent(tmp_path: Path) -> None:
    """A minute on 32 devices of which half is done again, half an hour of nothing, then a good hour
    on one device: the mean of the minutes' ratios is 97 %, what devices did is 83 %."""
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(5500.0)
    window = RollingWindow(28 * 86_400)
    asked_for = objectives_of(GOODPUT._replace(target=Decimal("0.95"), window=window))
    service = Service(store, clock, objectives=asked_for)
    failed = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, range(32), time_s=60.5)}
    service.receive(body([*run_segments(60, 32, 1.0), segment(500, failed)]))
    for number, first in enumerate(range(30, 3630, 100)):
        steps = range(first, first + 100)
        tables = {Kind.STEP: step_rows(steps, [0], 1.0, began=1830.0)}
        if first == 30:
            begins = lifecycle_rows(LifecycleEvent.START, [0], 1, 1860.0)
            resumes = lifecycle_rows(LifecycleEvent.RESUME, [0], 30, 1860.0)
            tables[Kind.LIFECYCLE] = np.concatenate([begins, resumes])
        service.receive(body([segment(600 + number, tables, attempt=1)]))
    service.evaluate()
    answer = service.job(JOB)
    assert answer is not None
    _, verdicts = answer
    minutes: dict[int, list[float]] = {}
    for part in verdicts.slices["goodput"].line:
        sums = minutes.setdefault(part.start_s // 60, [0.0, 0.0])
        sums[0], sums[1] = sums[0] + part.good, sums[1] + part.total
    ratios = [good / total for good, total in minutes.values() if total]
    assert sum(ratios) / len(ratios) > 0.97, "an average of ratios says: fine"
    (slo,) = job_slos(*answer, service.now())["slos"]
    assert slo["ratio"] == pytest.approx((32 * 30 + 3600) / (32 * 60 + 3600), abs=0.002)
    assert slo["state"] == "exhausted"
    assert slo["lost_device_seconds"] == pytest.approx(960.0, abs=1)
    store.close()
