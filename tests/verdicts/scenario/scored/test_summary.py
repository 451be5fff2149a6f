from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

from tests.verdicts.scenario.scored.alarms import tables
from tests.verdicts.scenario.scored.picture import picture
from tests.verdicts.scenario.scored.power import curve, limits, power
from tests.verdicts.scenario.scored.summary import figures, line, table


def answer(**more: Any) -> dict[str, Any]:
    """Return a right verdict on a slow device."""
    right = dict.fromkeys(("found", "required", "rank", "phase", "cause"), True)
    usual = {"fault": "slow-compute", "stops": False, "cost": 0.3, "effect": 1.5, "period": 1}
    return {**usual, **right, "node": None, "seconds": 7.0, "named": "straggler rank 2", **more}


def scenario(*answers: dict[str, Any], false: int = 0, healthy: bool = False) -> dict[str, Any]:
    """Return the result of one scenario that lasts half a day."""
    job = {"seed": 2, "shape": "ddp", "ranks": 4, "nodes": 2, "pace": "constant"}
    kinds = ["straggler"] * false
    return {
        **job,
        "step_seconds": 1.0,
        "seconds": 43_200.0,
        "healthy": healthy,
        "cpu_seconds": 1.0,
        "answers": list(answers),
        "false": kinds,
        "false_kinds": kinds,
        "pages": 0,
    }


def test_what_need_not_be_found_is_no_miss_and_no_false_incident() -> None:
    documents = [scenario(answer()), scenario(answer(required=False, found=False, cost=0.01))]
    report = figures(documents)
    assert report["recall"][:2] == [1, 1]
    assert report["precision"][:2] == [1, 1]


def test_what_stops_and_is_named_late_is_found_and_not_soon() -> None:
    soon, late_answer = answer(stops=True), answer(stops=True, seconds=301.0)
    missed = answer(stops=True, found=False, seconds=float("nan"))
    report = figures([scenario(soon), scenario(late_answer), scenario(missed)])
    assert report["recall of what stops or kills"][:2] == [2, 3]
    assert report["of these, within five minutes"][:2] == [1, 3]


def test_false_incidents_count_against_precision_and_by_healthy_day() -> None:
    report = figures([scenario(answer(), false=1), scenario(false=3, healthy=True)])
    assert report["precision"][:2] == [1, 5]
    assert report["healthy job-days"] == 0.5
    assert report["false incidents per healthy job-day"][0] == 6.0
    assert report["healthy jobs with a false incident"][:2] == [1, 1]


def test_seconds_to_a_verdict_stand_beside_the_end_of_the_first_slow_step() -> None:
    """The effect of a late save is in seconds, and older results do not say when a fault shows."""
    slow = answer(effect=3.0, seconds=9.0, shows=4.0)
    late_save = answer(fault="checkpoint-stall", effect=3.0, seconds=200.0, shows=60.0)
    documents = [scenario(slow), scenario(late_save), scenario(answer(effect=2.0, seconds=5.0))]
    report = figures(documents)
    assert report["seconds where every step is twice as long"] == [9.0, 200.0]
    assert report["the same without late saves"] == [5.0, 9.0]
    assert report["of these, until the first slow step was over"] == [4.0, 4.0]
    assert report["of these, after it"] == [5.0, 5.0]
    rows = {row.split()[0]: row.split() for row in table(documents).splitlines() if row.strip()}
    assert rows["checkpoint-stall"][-4:] == ["60.0", "s", "60.0", "s"]


def test_power_is_by_effect_period_and_cost() -> None:
    documents = [scenario(answer()), scenario(answer(found=False, cost=0.03, period=10))]
    assert next(row for row in power(documents).splitlines() if "1.5 to 2" in row).split()[-2:] == [
        "1/1",
        "0/1",
    ]
    picture = {row.split("  ")[0].strip(): row for row in curve(documents).splitlines()}
    assert "#" * 30 in picture["20% to 40%"]
    assert "#" not in picture["2% to 5%"]


def test_false_incidents_of_long_healthy_jobs_are_no_matter_of_precision() -> None:
    long = {**scenario(false=3, healthy=True), "wanted": {"long": True}}
    report = figures([scenario(answer()), long])
    assert report["precision"][:2] == [1, 1]
    assert report["false incidents in healthy jobs"] == 3


def test_the_best_test_stands_beside_ours() -> None:
    documents = [scenario(answer(limit=0.8)), scenario(answer(limit=0.4, found=False))]
    row = next(row for row in limits(documents).splitlines() if "1.5 to 2" in row)
    assert row.split()[-1] == "0.60"
    assert next(row for row in curve(documents).splitlines() if "20% to 40%" in row).endswith(
        "0.60"
    )


def test_false_incidents_a_day_are_said_by_kind_and_by_job() -> None:
    text = tables([scenario(false=3, healthy=True), scenario(answer(), false=1)])
    rows = [row.split() for row in text.splitlines()]
    assert ["healthy", "straggler", "3", "6", "1.24", "to", "17.5"] in rows
    assert ["constant", "0.50", "3", "6", "1.24", "to", "17.5"] in rows


def test_the_picture_shows_what_was_found_and_what_can_be() -> None:
    drawn = picture([scenario(answer(limit=0.8)), scenario(answer(found=False, period=10))])
    root = ElementTree.fromstring(drawn)
    names = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert names == ["1 of 1", "0 of 1"]
    assert "polyline" in drawn
    assert "polyline" not in picture([])


def test_a_report_of_nothing_and_lines_can_be_printed() -> None:
    assert "scenarios" in table([])
    assert json.dumps(figures([]))
    assert "MISSED" in line(scenario(answer(found=False)))
    assert "WRONG rank" in line(scenario(answer(rank=False)))
