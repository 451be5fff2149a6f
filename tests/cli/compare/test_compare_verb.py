"""`stepwatch compare`: jobs of a store, saved runs, money, and what changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.run_view import MOST_BLOCKS
from stepwatch.signals.records import Fact
from tests.collector.made import HandClock, body, run_segments, with_facts

RATES = """
currency = "USD"
[[rate]]
from = 1970-01-01
device_hour = 1.0
[[rate]]
from = 1970-01-01
class = "fast"
device_hour = 2.0
"""
Saved = dict[str, Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three jobs of 120 steps: two alike, one slower by a tenth, and one of 20 steps."""
    path = tmp_path_factory.mktemp("store") / "store.db"
    opened = Store.sqlite(path)
    service = Service(opened, HandClock(30.0))
    lr = Fact("config.lr", "0.1")
    runs = {
        "base": with_facts(run_segments(120, job="base"), lr, Fact("code.commit", "abc")),
        "same": with_facts(run_segments(120, job="same"), lr, Fact("code.commit", "abc")),
        "slow": with_facts(run_segments(120, seconds=0.22, job="slow"), lr, Fact("data.set", "b")),
        "short": run_segments(20, job="short"),
    }
    for segments in runs.values():
        service.receive(body(segments))
    service.evaluate()
    opened.close()
    return path


def compared(store: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Saved]:
    """The exit code, and the document."""
    code = main(["compare", *words, "--store", str(store), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_runs_that_are_alike_pass(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = compared(store, capsys, "base", "same")
    assert (code, found["verdict"]) == (OK, "no regression")
    assert found["ratio"]["value"] == pytest.approx(1.0) and found["changes"] == []
    assert found["quantity"] == "tokens/s per device"
    assert main(["compare", "base", "same", "--store", str(store)]) == OK
    assert "what changed: nothing that is recorded" in capsys.readouterr().out


def test_a_slower_run_is_a_regression_beyond_the_bound(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = compared(store, capsys, "base", "slow")
    assert (code, found["verdict"]) == (PROBLEM, "regression")
    assert found["ratio"]["value"] == pytest.approx(1 / 1.1)
    assert found["changes"] == [
        {"name": "code.commit", "before": "abc", "after": None},
        {"name": "data.set", "before": None, "after": "b"},
    ]
    assert found["phases"][0]["after"] > found["phases"][0]["before"]
    assert compared(store, capsys, "base", "slow", "--bound", "20%")[0] == OK
    assert compared(store, capsys, "slow", "base")[0] == OK, "faster is none"
    assert main(["compare", "base", "slow", "--store", str(store)]) == PROBLEM
    shown = capsys.readouterr().out
    assert "REGRESSION: -9.1% tokens/s per device" in shown and "code.commit   abc     -" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_too_few_steps_are_unclear_and_do_not_pass(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = compared(store, capsys, "base", "short")
    assert (code, found["verdict"]) == (PROBLEM, "unclear") and "too few steps" in found["why"]
    main(["compare", "base", "short", "--store", str(store)])
    assert "what changed: unknown" in capsys.readouterr().out


def test_a_saved_run_is_a_baseline(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "baseline.json"
    assert main(["compare", "base", "--save", str(saved), "--store", str(store)]) == OK
    assert 0 < len(json.loads(saved.read_text())["blocks"]) <= MOST_BLOCKS
    capsys.readouterr()
    assert compared(store, capsys, str(saved), "slow")[0] == PROBLEM
    assert compared(store, capsys, str(saved), "same")[0] == OK


def test_money_counts_where_there_is_a_rate_card(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates, dear = tmp_path / "rates.toml", tmp_path / "dear.json"
    rates.write_text(RATES)
    main(["compare", "same", "--save", str(dear), "--store", str(store)])
    dear.write_text(json.dumps(json.loads(dear.read_text()) | {"job_class": "fast"}))
    capsys.readouterr()
    code, found = compared(store, capsys, "base", str(dear), "--rates", str(rates))
    assert (code, found["quantity"]) == (PROBLEM, "tokens per USD")
    assert found["ratio"]["value"] == pytest.approx(0.5)
    before, after = found["runs"]
    assert before["tokens_per_money"] == pytest.approx(2 * after["tokens_per_money"])
    rates.write_text(RATES.replace("1970", "2999"))
    code, found = compared(store, capsys, "base", "same", "--rates", str(rates))
    assert (code, found["why"]) == (PROBLEM, "the rate card has no rate for one of the runs")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "No such file"),
        ("{", "no JSON"),
        ("[]", "holds no run"),
        ("{}", "job: missing or wrong"),
    ],
)
def test_a_file_that_is_no_run_is_one_line(
    store: Path,
    tmp_path: Path,
    text: str | None,
    problem: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "run.json"
    if text is not None:
        path.write_text(text)
    assert main(["compare", str(path), "base", "--store", str(store)]) == USAGE
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert problem in line and "--save" in line


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": [1]},
        {"blocks": [{"steps": 1, "tokens": 1, "seconds": 0.0}]},
        {"blocks": [{"steps": 1, "tokens": "x", "seconds": 1.0}]},
        {"world_size": "many"},
        {"facts": []},
        {"facts": {"a": 1}},
        {"slis": {"goodput": 1}},
        {"slis": {"goodput": {"value": "x", "unit": "ratio"}}},
        {"phase_shares": {"forward": None}},
    ],
)
def test_a_damaged_run_is_refused(
    store: Path, tmp_path: Path, change: Saved, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    main(["compare", "base", "--save", str(path), "--store", str(store)])
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    capsys.readouterr()
    assert main(["compare", str(path), "base", "--store", str(store)]) == USAGE
    assert next(iter(change)) in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["base"], ["base", "same", "--bound", "5x"], ["base", "no-such-job"], ["../x", "base"]],
)
def test_wrong_use_is_refused(
    store: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words, "--store", str(store)]) != OK
    assert len(capsys.readouterr().err.strip().splitlines()) <= 4
