"""`stepwatch report`: from segments to Markdown, JSON and money."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from stepwatch.cli.main import OK, USAGE, main
from stepwatch.cli.report.sections import sections
from stepwatch.cli.verbs import report
from stepwatch.collector.runtime.evaluation.accounting import EVERY_SECONDS
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.site import read_objectives
from stepwatch.collector.slo.waste import CAUSES
from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    EPOCH,
    JOB,
    HandClock,
    body,
    lifecycle_rows,
    run_segments,
    segment,
    with_facts,
)
from tests.collector.nodes.sightings import DISK_SLOW
from tests.collector.nodes.sightings import report as node_report
from tests.collector.runtime.test_evaluation import Site

RATES = 'currency = "USD"\n[[rate]]\nfrom = 2020-01-01\ndevice_hour = 3600.0\n'


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a job of sixty steps on four ranks, of which rank 2 is slow from step 40 on."""
    monkeypatch.setattr(report, "_now_s", lambda: int(EPOCH) + 100)
    path = tmp_path / "store.db"
    store = Store.sqlite(path)
    clock = HandClock(30.0)
    service = Service(store, clock)
    service.receive(body(run_segments(60, excess={(2, "forward"): 0.2}, slow_from=40)))
    service.evaluate()
    store.close()
    return path


def test_all_of_the_allocation_is_in_the_report(
    worked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--store", str(worked), "--since", "30d", "--json"]) == OK
    document = json.loads(capsys.readouterr().out)
    total = document["total"]
    assert tuple(document["causes"]) == CAUSES
    assert sum(total["seconds"].values()) == pytest.approx(total["allocated_seconds"], abs=1e-5)
    assert (total["steps"], [job["job"] for job in document["jobs"]]) == (60, [JOB])
    share = total["seconds"]["productive"] / total["allocated_seconds"]
    assert total["productive_ratio"] == pytest.approx(share)
    assert [incident["kind"] for incident in document["incidents"]] == ["straggler"]
    assert document["jobs"][0]["cost"] is None, "nothing has a rate"


def test_slos_stand_in_the_report_by_class_with_their_trend(
    worked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slo", JOB, "--store", str(worked), "--json"]) == OK
    slos = {line["name"]: line for line in json.loads(capsys.readouterr().out)["slos"]}
    assert main(["report", "--store", str(worked), "--since", "14d", "--json"]) == OK
    lines = {line["slo"]: line for line in json.loads(capsys.readouterr().out)["slos"]}
    assert set(lines) == {name for name, line in slos.items() if line["target"]}
    for name, line in lines.items():
        assert line["good_ratio"] == pytest.approx(slos[name]["ratio"], abs=1e-6)
        assert line["lost_device_seconds"] == slos[name]["lost_device_seconds"]
        assert [part["good_ratio"] for part in line["trend"]].count(None) == 13
    assert main(["report", "--store", str(worked), "--since", "14d"]) == OK
    shown = capsys.readouterr().out
    assert "## SLOs\n" in shown and "figure for each day, - where nothing" in shown


def test_who_jobs_belong_to_comes_from_the_run_or_the_site_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "_now_s", lambda: int(EPOCH) + 100)
    site, rates = tmp_path / "site.yaml", tmp_path / "rates.toml"
    site.write_text(f"owners:\n  - jobs: {JOB[:2]}*\n    project: other\n    team: pretraining\n")
    rates.write_text(RATES)
    store = Store.sqlite(tmp_path / "store.db")
    service = Service(store, HandClock(30.0), objectives=read_objectives(None, site))
    facts = [("owner.project", "llama"), ("owner.cost_centre", "4711")]
    service.receive(body(with_facts(run_segments(60), *facts)))
    service.evaluate()
    store.close()
    words = ["report", "--store", str(tmp_path / "store.db"), "--rates", str(rates)]
    assert main([*words, "--json"]) == OK
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["owner"] == {"project": "llama", "team": "pretraining", "cost_centre": "4711"}
    assert main(words) == OK
    shown = capsys.readouterr().out
    for part in ("## Projects", "| llama ", "## Teams", "| pretraining ", "## Cost centres"):
        assert part in shown
    # What an earlier collector stored is taken up with its owner, and nothing is written again.
    restarted = Service(Store.sqlite(tmp_path / "store.db"), HandClock(30.0))
    restarted.evaluate()
    (day,) = restarted.store.account_days(0, 1 << 40, JOB)
    assert day.document["owner"]["project"] == "llama"
    restarted.store.close()


def test_an_attempt_that_has_not_said_whose_it_is_takes_nobodys_days(tmp_path: Path) -> None:
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(30.0)
    service = Service(store, clock)
    service.receive(body(with_facts(run_segments(60), ("owner.team", "vision"))))
    service.evaluate()
    for number in (1, 2):
        start = segment(500 + number, {Kind.LIFECYCLE: began_rows(20.0 + number)}, attempt=number)
        service.receive(body([start]))
        clock.advance(120.0)
        service.evaluate()
        service = Service(store, clock)
    (day,) = store.account_days(0, 1 << 40, JOB)
    assert day.document["owner"] == {"team": "vision"}
    store.close()


def began_rows(time_s: float) -> Rows:
    return lifecycle_rows(LifecycleEvent.START, range(4), 4, time_s)


def test_a_site_file_that_names_an_owner_counts_at_once(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(30.0)
    service = Service(store, clock)
    service.receive(body(run_segments(60)))
    service.evaluate()
    site.write_text(f"owners:\n  - {{jobs: {JOB}, team: vision}}\n")
    service.site_objectives.replace(read_objectives(None, site))
    clock.advance(120.0)
    service.evaluate()
    (day,) = store.account_days(0, 1 << 40, JOB)
    assert day.document["owner"] == {"team": "vision"}
    store.close()


def test_status_shows_what_device_time_went_to(
    worked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["status", JOB, "--store", str(worked)])
    (line,) = [
        output_line
        for output_line in capsys.readouterr().out.splitlines()
        if "device-time" in output_line
    ]
    assert "straggling" in line and "productive" in line and "%" in line
    main(["status", JOB, "--store", str(worked), "--json"])
    seconds = json.loads(capsys.readouterr().out)["device_seconds"]
    assert tuple(seconds) == CAUSES and sum(seconds.values()) > 0


@pytest.mark.parametrize("tokens", [None, 0])
def test_tokens_that_a_job_does_not_count_are_unknown(
    worked: Path, capsys: pytest.CaptureFixture[str], tokens: int | None
) -> None:
    assert main(["report", "--store", str(worked), "--since", "30d", "--json"]) == OK
    document = json.loads(capsys.readouterr().out)
    job = document["jobs"][0]
    assert (
        "those of 1 job unknown"
        in sections({**document, "jobs": [job, {**job, "tokens": tokens}]})[0].lines[0]
    )
    for part in (document["total"], *document["jobs"], *document["days"], *document["classes"]):
        part["tokens"] = tokens
    shown = sections(document)
    assert "60 steps kept, tokens unknown." in shown[0].lines[0]
    tables = {section.title: section.table for section in shown}
    for title in ("Jobs", "Days"):
        table = tables[title]
        assert table is not None and table.rows[0][table.head.index("tokens")] == "unknown"


def test_money_stands_beside_device_time(
    worked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = tmp_path / "rates.toml"
    rates.write_text(RATES)
    words = ["report", "--store", str(worked), "--since", "30d", "--rates", str(rates)]
    assert main([*words, "--json"]) == OK
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    # A device-second costs 1 USD.
    assert job["cost"] == pytest.approx(job["allocated_seconds"])
    assert main(words) == OK
    shown = capsys.readouterr().out
    assert shown.startswith("# Report on all jobs\n") and " per million tokens" in shown
    for part in ("| productive ", "| unknown ", "| straggling ", f"| {JOB} ", "straggler, slow-"):
        assert part in shown
    assert max(len(line) for line in shown.splitlines() if not line.startswith("|")) <= 140


def test_nothing_is_said_where_nothing_ran(
    worked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--store", str(worked), "--job", "no-such-job"]) == OK
    assert "no job used any device-time" in capsys.readouterr().out
    assert main(["report", "--store", str(worked), "--class", "none", "--month"]) == OK
    assert "# Report on jobs of class none" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--since", "yesterday"], ["--since", "0d"], ["--week", "--month"], ["--job", "../x"]]
)
def test_wrong_use_is_refused(
    worked: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--store", str(worked), *words]) == USAGE
    assert capsys.readouterr().err


def test_a_day_to_come_is_refused(worked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = time.strftime("%Y-%m-%d", time.gmtime(EPOCH + 3 * 86_400))
    assert main(["report", "--store", str(worked), "--since", later]) == USAGE
    assert "yet to come" in capsys.readouterr().err


def seconds_of(store: Store) -> dict[str, float]:
    """Device-seconds by cause of all days of the job."""
    totals: dict[str, float] = {}
    for day in store.account_days(0, 1 << 40, JOB):
        for name, value in day.document.items():
            totals[name] = totals.get(name, 0.0) + value / 1e6
    return totals


def test_a_hang_counts_while_it_lasts_and_once_however_often_the_collector_restarts(
    tmp_path: Path,
) -> None:
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(30.0)
    site = Site(store, clock)
    site.run(60)
    site.run(300, moved_ago=1.0)
    by_cause = seconds_of(store)
    # Four ranks stand; the last look was at most a minute ago.
    assert 4 * (300 - EVERY_SECONDS - 5) <= by_cause["stall"] <= 4 * 305
    restarted = Service(store, clock)
    restarted.evaluate()
    assert seconds_of(store)["stall"] == pytest.approx(by_cause["stall"], rel=0.3)
    assert seconds_of(store)["stall"] >= by_cause["stall"]
    store.close()


def test_a_restart_turns_redone_steps_into_waste_backwards(tmp_path: Path) -> None:
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(30.0)
    site = Site(store, clock)
    site.run(60)
    earlier = seconds_of(store)
    assert "redone-after-restart" not in earlier
    resume = lifecycle_rows(LifecycleEvent.RESUME, range(4), 40, clock.monotonic)
    site.send({Kind.LIFECYCLE: resume}, attempt=1)
    site.step = 40
    site.run(70, attempt=1)
    later = seconds_of(store)
    # Steps 40 to 59 of four ranks, a second each.
    assert later["redone-after-restart"] == pytest.approx(80.0, abs=1.0)
    store.close()


def test_what_a_log_no_longer_holds_stays_in_the_accounts(tmp_path: Path) -> None:
    store, clock = Store.sqlite(tmp_path / "store.db"), HandClock(30.0)
    site = Site(store, clock)
    site.run(130)
    earlier = seconds_of(store)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM segment WHERE position < 60")
        connection.exec_driver_sql("DELETE FROM snapshot")
    restarted = Service(store, clock)
    restarted.evaluate()
    assert seconds_of(store) == earlier
    store.close()


def test_nodes_at_fault_stand_in_the_report_with_their_history(
    worked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that no incident names is there only as a repeat offender, and only in the whole."""
    store = Store.sqlite(worked)
    service = Service(store, HandClock(1000.0))
    for spool, began_s in enumerate((10.0, 900.0)):
        fact = {**DISK_SLOW, "began": began_s}
        over = {**fact, "present": 0}
        sent = [node_report(began_s, fact, spool=spool, node="gpu-9")]
        sent += [node_report(began_s + 5, over, spool=spool, node="gpu-9")]
        assert {verdict.verdict for verdict in service.receive(body(sent))} == {"accepted"}
    service.receive(body([node_report(1000.0, node="node-0")]))
    store.close()
    assert main(["report", "--store", str(worked), "--since", "30d", "--json"]) == OK
    nodes = {node["node"]: node for node in json.loads(capsys.readouterr().out)["nodes"]}
    assert (nodes["gpu-9"]["incidents"], nodes["gpu-9"]["repeat_offender"]) == (0, True)
    assert nodes["node-0"]["incidents"] == 1 and nodes["node-0"]["faults_30d"] == 0
    assert main(["report", "--store", str(worked), "--since", "30d"]) == OK
    assert "repeat offender" in capsys.readouterr().out
    assert main(["report", "--store", str(worked), "--since", "30d", "--job", JOB]) == OK
    assert "gpu-9" not in capsys.readouterr().out
