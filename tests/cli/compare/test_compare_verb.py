"""`stepwatch compare`: jobs of a store, saved runs, money, and what changed."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.run_view import MOST_BLOCKS, job_run
from stepwatch.signals.records import Fact, Kind
from tests.collector.made import JOB, SHARES, HandClock, body, run_segments, with_facts

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
    code, document = compared(store, capsys, "base", "same")
    assert (code, document["verdict"]) == (OK, "no regression")
    assert document["ratio"]["value"] == pytest.approx(1.0) and document["changes"] == []
    assert document["quantity"] == "tokens/s per device"
    assert main(["compare", "base", "same", "--store", str(store)]) == OK
    assert "changes: none in the recorded facts" in capsys.readouterr().out


def test_a_slower_run_is_a_regression_beyond_the_bound(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = compared(store, capsys, "base", "slow")
    assert (code, document["verdict"]) == (PROBLEM, "regression")
    assert document["ratio"]["value"] == pytest.approx(1 / 1.1)
    assert document["changes"] == [
        {"name": "code.commit", "before": "abc", "after": None},
        {"name": "data.set", "before": None, "after": "b"},
    ]
    assert document["phases"][0]["after"] > document["phases"][0]["before"]
    assert compared(store, capsys, "base", "slow", "--bound", "20%")[0] == OK
    assert compared(store, capsys, "slow", "base")[0] == OK, "faster is none"
    assert main(["compare", "base", "slow", "--store", str(store)]) == PROBLEM
    shown = capsys.readouterr().out
    assert "REGRESSION: -9.1% tokens/s per device" in shown and "code.commit   abc     -" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_too_few_steps_are_unclear_and_do_not_pass(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = compared(store, capsys, "base", "short")
    assert (code, document["verdict"]) == (PROBLEM, "unclear") and "too few steps" in document[
        "why"
    ]
    main(["compare", "base", "short", "--store", str(store)])
    assert "changes: unknown" in capsys.readouterr().out


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
    code, document = compared(store, capsys, "base", str(dear), "--rates", str(rates))
    assert (code, document["quantity"]) == (PROBLEM, "tokens per USD")
    assert document["ratio"]["value"] == pytest.approx(0.5)
    base_run, new_run = document["runs"]
    assert base_run["tokens_per_money"] == pytest.approx(2 * new_run["tokens_per_money"])
    rates.write_text(RATES.replace("1970", "2999"))
    code, document = compared(store, capsys, "base", "same", "--rates", str(rates))
    assert (code, document["why"]) == (PROBLEM, "the rate card has no rate for one of the runs")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "no such file"),
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
        {"phase_seconds": {"steps": 5, "seconds": {"forward": None}}},
        {"phase_seconds": {"steps": -1, "seconds": {}}},
        {"began_at": math.nan},
        {"began_at": math.inf},
        {"began_at": 1e18},
        {"began_at": -1e14},
        {"world_size": -2},
        {"world_size": True},
        {"attempt": True},
        {"clock": 3},
        {"blocks": [{"steps": 5, "tokens": 10**400, "seconds": 1.0}]},
        {"blocks": [{"steps": 5, "tokens": 1, "seconds": 1e-320}]},
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


def saved(store: Path, folder: Path) -> Saved:
    path = folder / "saved.json"
    assert main(["compare", "base", "--save", str(path), "--store", str(store)]) == OK
    saved_run: Saved = json.loads(path.read_text())
    return saved_run


@pytest.fixture(scope="module")
def saved_run(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    saved(store, folder)
    return folder / "saved.json"


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 10**400, 1e-320, 1e308, math.nan, math.inf, "", "x" * 100, [], {}, [[]]]
)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_stands_in_a_run_is_compared_or_refused_in_a_line(
    saved_run: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    document = json.loads(saved_run.read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        place, key = document, data.draw(st.sampled_from(sorted(document)))
        while isinstance(place[key], dict) and place[key] and data.draw(st.booleans()):
            place = place[key]
            key = data.draw(st.sampled_from(sorted(place)))
        place[key] = data.draw(ODD)
    odd, rates = folder / "odd.json", folder / "rates.toml"
    odd.write_text(json.dumps(document))
    rates.write_text(RATES)
    words = ["compare", str(odd), str(saved_run), "--rates", str(rates)]
    assert main(words) in (OK, PROBLEM, USAGE)


def test_a_file_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    assert main(["compare", str(path), str(path)]) == USAGE


def test_steps_of_other_sizes_and_clocks_say_nothing(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other_file = saved(store, tmp_path), tmp_path / "other.json"
    for change, why in (
        (
            {"world_size": 8, "blocks": [{**block, "tokens": 0} for block in run["blocks"]]},
            "pass tok",
        ),
        ({"clock": "device"}, "different clocks: host and device"),
    ):
        other_file.write_text(json.dumps(run | change))
        capsys.readouterr()
        words = ["compare", str(tmp_path / "saved.json"), str(other_file), "--json"]
        assert main(words) == PROBLEM
        document = json.loads(capsys.readouterr().out)
        assert document["verdict"] == "unclear" and why in document["why"]


def test_a_baseline_is_replaced_whole_or_not_at_all(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(store, tmp_path)
    text_before = (tmp_path / "saved.json").read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    words = ["compare", "slow", "--save", str(tmp_path / "saved.json"), "--store", str(store)]
    assert main(words) == USAGE
    assert (tmp_path / "saved.json").read_text() == text_before
    assert [entry.name for entry in tmp_path.iterdir()] == ["saved.json"]


def test_phases_are_those_of_usual_steps_whatever_the_first_one_took(tmp_path: Path) -> None:
    """A run like another one, but that its first step compiles for 100 s."""
    runs = {"same": run_segments(120), "compiled": run_segments(120)}
    first = runs["compiled"][0].tables[Kind.STEP]
    rows = first["step"] == 0
    for name in ("duration_ns", "forward_ns"):
        first[name][rows] += np.uint64(100 * 10**9)
    phase_seconds = []
    for name, segments in runs.items():
        store = Store.sqlite(tmp_path / f"{name}.db")
        service = Service(store, HandClock(300.0))
        service.receive(body(segments))
        service.evaluate()
        answer = service.job(JOB)
        assert answer is not None
        phase_seconds.append(job_run(*answer, service.now())["phase_seconds"])
        store.close()
    assert phase_seconds[0] == phase_seconds[1] and phase_seconds[0]["steps"] == 64
    assert phase_seconds[0]["seconds"]["forward"] == pytest.approx(
        SHARES["forward"] * 0.2, rel=0.02
    )
