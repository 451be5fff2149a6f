"""`stepwatch metrics` shows what a trainer recorded, from its rings to the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.cli.main import OK, USAGE, main
from stepwatch.cli.metrics.metrics_text import all_points, small_curve
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.signals.records import Better, Kind, LifecycleEvent
from tests.collector.client import Client
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    lifecycle_rows,
    segment,
    state_rows,
    step_rows,
)
from tests.collector.state.trackers.metrics.test_metrics import metric_rows, name_rows

STEPS = 60
WORLD = 4


def tables(steps: range) -> dict[Kind, Any]:
    """Steps of four ranks with a falling accuracy, and an evaluation after each tenth."""
    accuracy = [metric_rows(s, [0.5 - s / 1000 + r / 100 for r in range(WORLD)]) for s in steps]
    evaluated = [metric_rows(s, [3.0 - s / 100], 2, evaluated=True) for s in steps if s % 10 == 9]
    return {
        Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, range(WORLD), WORLD),
        Kind.RANK_STATE: state_rows(range(WORLD), WORLD, steps[-1] * 0.2, steps[-1]),
        Kind.STEP: step_rows(steps, range(WORLD)),
        Kind.METRIC_NAME: np.concatenate(
            [
                name_rows({1: "accuracy"}, unit="1", better=Better.HIGHER),
                name_rows({2: "val_loss"}, evaluation="validation"),
            ]
        ),
        Kind.METRIC: np.concatenate([*accuracy, *evaluated]),
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The store of a run that recorded metrics."""
    path = tmp_path / "store.db"
    opened = Store.sqlite(path)
    service = Service(opened, HandClock(30.0))
    service.receive(body([segment(1, tables(range(STEPS)))]))
    service.evaluate()
    opened.close()
    return path


def test_the_table_has_each_metric_with_its_curve(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", JOB, "--store", str(store)]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"{JOB}: ")
    words = {line.split()[0]: line.split() for line in lines[3:]}
    assert set(words) == {"loss", "grad_norm", "accuracy", "validation/val_loss"}
    assert words["accuracy"][1:6] == ["0.456", "1", "0.441", "to", "0.471"]
    assert words["accuracy"][-1] == "█▇▇▇▆▆▅▅▄▄▃▃▂▂▁▁"
    assert words["validation/val_loss"][1] == "2.41"


def test_one_metric_is_drawn(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", JOB, "validation/val_loss", "--store", str(store)]) == OK
    out = capsys.readouterr().out
    assert "validation/val_loss: 2.41 at step 59" in out
    drawn = [line for line in out.splitlines() if "|" in line]
    assert len(drawn) == 10 and drawn[0].split("|")[0].strip() == "2.91"
    assert "".join(drawn).count("*") == STEPS - 9, "from the first evaluation to the last"
    assert main(["metrics", JOB, "accuracy", "--store", str(store)]) == OK
    assert "higher is better" in capsys.readouterr().out


def test_json_is_the_answer_of_the_collector(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", JOB, "accuracy", "--json", "--store", str(store)]) == OK
    (metric,) = json.loads(capsys.readouterr().out)["metrics"]
    assert (metric["unit"], metric["better"], metric["note"]) == ("1", "higher", "")
    assert metric["newest"]["values"] == WORLD and metric["newest"]["step"] == STEPS - 1
    assert metric["curves"]["steps"]["step"] == list(range(STEPS))
    assert sum(metric["curves"]["1h"]["values"]) == STEPS * WORLD
    opened = Store.sqlite(store)
    client = Client(make_api(Service(opened, HandClock(30.0))))
    answer = client.get(f"/v1/jobs/{JOB}/metrics?name=accuracy&name=lr").json()
    opened.close()
    assert answer["metrics"] == [metric]


def test_an_unknown_metric_is_wrong_usage(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", JOB, "acuracy", "--store", str(store)]) == USAGE
    assert "did you mean 'accuracy'?" in capsys.readouterr().err


def test_values_that_are_not_finite_stay_words(tmp_path: Path) -> None:
    opened = Store.sqlite(tmp_path / "store.db")
    service = Service(opened, HandClock(30.0))
    made = tables(range(STEPS))
    made[Kind.METRIC]["value_0"][made[Kind.METRIC]["step"] == STEPS - 1] = np.nan
    service.receive(body([segment(1, made)]))
    service.evaluate()
    metrics = Client(make_api(service)).get(f"/v1/jobs/{JOB}/metrics").json()["metrics"]
    opened.close()
    newest = next(metric["newest"] for metric in metrics if metric["name"] == "accuracy")
    assert (newest["last"], newest["mean"], newest["non_finite"]) == ("NaN", None, WORLD)


def test_a_later_attempt_replaces_the_steps_that_it_redoes(tmp_path: Path) -> None:
    opened = Store.sqlite(tmp_path / "store.db")
    service = Service(opened, HandClock(60.0))
    service.receive(body([segment(1, tables(range(40)))]))
    service.receive(body([segment(2, tables(range(30, 50)), attempt=1)]))
    service.evaluate()
    document = Client(make_api(service)).get(f"/v1/jobs/{JOB}/metrics").json()
    opened.close()
    curve = next(m for m in document["metrics"] if m["name"] == "accuracy")["curves"]["steps"]
    assert document["attempt"] == 1
    assert curve["step"] == list(range(50)) and set(curve["values"]) == {WORLD}


def columns(*spans: tuple[int, int]) -> dict[str, list[Any]]:
    """A curve whose buckets have these first and newest steps; the means are the newest steps."""
    names = ("at", "mean", "min", "max", "last", "values", "non_finite")
    newest = [float(step) for _, step in spans]
    steps = {"first_step": [first for first, _ in spans], "step": [step for _, step in spans]}
    return {**steps, **{name: newest for name in names}}


def test_a_curve_takes_each_part_at_its_finest() -> None:
    seconds, hours = columns((20, 50), (51, 89), (90, 91)), columns((0, 40), (41, 91))
    metric = {"curves": {"steps": columns((85, 85), (91, 91)), "10s": seconds, "1h": hours}}
    assert all_points(metric)["step"] == [19, 50, 84, 85, 91]
    assert small_curve({"curves": {"steps": columns(), "1h": columns((0, 1), (2, 2))}}) == "▁▁█"
