"""What incidents, tokens and jobs cost, where somebody said what a device-hour does."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from stepwatch.cli.main import main
from stepwatch.collector.runtime.evaluation.verdicts import job_facts
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.rates import Rate, RateCard
from stepwatch.collector.slo.asked.site import Objectives, read_objectives
from stepwatch.collector.slo.over_run.registry import readings
from stepwatch.collector.slo.over_run.sli import Reading
from stepwatch.collector.store import Store
from tests.collector.made import JOB, HandClock, body, run_segments

LONG_AGO = date(2020, 1, 1)
ONE_A_SECOND = RateCard("USD", (Rate(LONG_AGO, 3600.0),))
SLOW = {(2, "forward"): 0.2}


def with_rates(rates: RateCard | None) -> Objectives:
    """The shipped objectives with a rate card."""
    return read_objectives()._replace(rates=rates)


class Run:
    """Sixty steps of four ranks; rank 2 is slow from step 40 on."""

    def __init__(self, folder: Path, rates: RateCard | None) -> None:
        self.store = Store.sqlite(folder / "store.db")
        self.clock = HandClock(13.0)
        self.service = Service(self.store, self.clock, objectives=with_rates(rates))
        self.segments = run_segments(80, excess=SLOW, slow_from=40)
        self.service.receive(body(self.segments[:12]))
        self.service.evaluate()

    def goes_on(self) -> None:
        self.clock.advance(5.0)
        self.service.receive(body(self.segments[12:]))
        self.service.evaluate()

    @property
    def incident(self) -> dict[str, float | str | None]:
        (incident,) = self.store.incidents.newest(JOB)
        return incident

    def cost_by_tokens(self) -> Reading:
        job_state = self.service.job(JOB)
        assert job_state is not None
        return readings(job_facts(*job_state, self.service.now()))["cost-per-million-tokens"]


def test_an_incident_costs_the_device_time_that_it_lost(tmp_path: Path) -> None:
    run = Run(tmp_path, ONE_A_SECOND)
    first = run.incident
    assert first["currency"] == "USD" and float(first["cost"] or 0) > 0
    assert first["cost"] == pytest.approx(first["device_seconds_lost"])
    run.goes_on()
    assert float(run.incident["cost"] or 0) > float(first["cost"] or 0)
    assert run.incident["cost"] == pytest.approx(run.incident["device_seconds_lost"])
    run.store.close()


def test_each_second_counts_at_the_rate_of_its_moment(tmp_path: Path) -> None:
    run = Run(tmp_path, ONE_A_SECOND)
    first = run.incident
    dearer = RateCard("USD", (Rate(LONG_AGO, 7200.0),))
    run.service.site_objectives.replace(with_rates(dearer))
    run.goes_on()
    more = float(run.incident["device_seconds_lost"] or 0) - float(first["device_seconds_lost"])  # type: ignore[arg-type]
    assert more > 0
    assert run.incident["cost"] == pytest.approx(float(first["cost"] or 0) + 2 * more)
    run.store.close()


@pytest.mark.parametrize(
    "later", [None, RateCard("EUR", (Rate(LONG_AGO, 1.0),)), RateCard("USD", ())]
)
def test_a_part_without_a_price_or_in_other_money_makes_the_sum_unknown(
    tmp_path: Path, later: RateCard | None
) -> None:
    run = Run(tmp_path, ONE_A_SECOND)
    run.service.site_objectives.replace(with_rates(later))
    run.goes_on()
    assert run.incident["cost"] is None and run.incident["currency"] == ""
    run.service.site_objectives.replace(with_rates(ONE_A_SECOND))
    run.clock.advance(1.0)
    run.service.evaluate()
    assert run.incident["cost"] is None, "what is missing stays missing"
    run.store.close()


def test_tokens_cost_what_their_devices_did(tmp_path: Path) -> None:
    run = Run(tmp_path, ONE_A_SECOND)
    run.clock.advance(61.0)
    run.service.receive(body(run.segments[12:]))
    run.service.evaluate()
    reading = run.cost_by_tokens()
    days = run.store.account_days(0, 1 << 40, JOB)
    spent = sum(
        value
        for day in days
        for name, value in day.document.items()
        if name not in ("tokens", "steps")
    )
    tokens = sum(day.document["tokens"] for day in days)
    # A device-second costs 1 USD, and there are a million microseconds in it.
    assert reading.value == pytest.approx(spent / 1e6 / tokens * 1e6) and "USD" in reading.detail
    run.store.close()


def test_without_a_rate_it_is_unknown_and_says_why(tmp_path: Path) -> None:
    run = Run(tmp_path, None)
    assert run.cost_by_tokens().unknown == "no rate card: start the collector with --rates FILE"
    assert run.incident["cost"] is None
    run.service.site_objectives.replace(with_rates(RateCard("USD", (Rate(date(2999, 1, 1), 1.0),))))
    run.goes_on()
    assert "no rate for" in run.cost_by_tokens().unknown
    run.store.close()


def test_status_and_incidents_show_money(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, ONE_A_SECOND)
    run.goes_on()
    answer = run.service.job(JOB)
    assert answer is not None
    run.store.close()
    store = str(tmp_path / "store.db")
    main(["incidents", "--store", store, "--json"])
    (incident,) = json.loads(capsys.readouterr().out)
    main(["incidents", "--store", store, "--id", incident["id"]])
    assert f"{incident['cost']:,.2f} USD" in capsys.readouterr().out
