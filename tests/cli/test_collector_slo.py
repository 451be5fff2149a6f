"""A collector with documents of its own: read again at SIGHUP, the last good ones kept."""

from __future__ import annotations

import signal
from importlib import resources
from pathlib import Path

import httpx
import pytest

from stepwatch.cli.main import PROBLEM, main
from stepwatch.cli.verbs.collector import read_again
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo import asked
from stepwatch.collector.store import Store
from tests.collector.made import JOB, body, run_segments
from tests.collector.process import Process
from tests.waiting import until

DOCUMENTS = resources.files(asked) / "documents"


def document(name: str) -> str:
    return (DOCUMENTS / f"{name}.yaml").read_text(encoding="utf-8")


def asked_of(collector: Process) -> dict[str, float | None]:
    """Targets of the job's SLOs by name."""
    slos = httpx.get(f"{collector.url}/v1/jobs/{JOB}", timeout=10.0).json()["slos"]
    return {slo["name"]: slo["target"] for slo in slos}


def unreadable(collector: Process) -> bool:
    text = httpx.get(f"{collector.url}/metrics", timeout=10.0).text
    return "stepwatch_collector_objectives_unreadable 1.0" in text


RATES = 'currency = "{}"\n[[rate]]\nfrom = 2020-01-01\ndevice_hour = 2.5\n'


def test_a_rate_card_is_read_again_and_status_shows_money(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rates.toml"
    file.write_text(RATES.format("USD"))
    collector = Process(tmp_path, options=("--rates", str(file)))

    def cost_line() -> str:
        main(["status", JOB, "--collector", collector.url])
        lines = capsys.readouterr().out.splitlines()
        return next((line for line in lines if line.startswith("  cost ")), "")

    try:
        collector.start()
        collector.wait_ready()
        assert collector.send(body(run_segments(60))).status_code == 200
        until("money", lambda: "USD per million tokens" in cost_line())
        file.write_text(RATES.format("EUR"))
        collector.send_signal(signal.SIGHUP)
        until("other money", lambda: "EUR per million tokens" in cost_line())
        file.write_text("currency = 3")
        collector.send_signal(signal.SIGHUP)
        until("the mistake on /metrics", lambda: unreadable(collector))
        assert "EUR per million tokens" in cost_line(), "the last good card stays in force"
    finally:
        collector.end()


def test_documents_are_read_again_and_a_mistake_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "slos"
    folder.mkdir()
    file = folder / "step-time.yaml"
    file.write_text(document("step-time"))
    collector = Process(tmp_path, options=("--slo", str(folder)))
    try:
        collector.start()
        collector.wait_ready()
        assert collector.send(body(run_segments(60))).status_code == 200
        until("the document's SLO", lambda: asked_of(collector) == {"step-time": 0.95})
        file.write_text(document("step-time").replace("0.95", "0.9"))
        collector.send_signal(signal.SIGHUP)
        until("another target", lambda: asked_of(collector) == {"step-time": 0.9})
        file.write_text(document("step-time").replace("0.95", "95"))
        collector.send_signal(signal.SIGHUP)
        until("the mistake on /metrics", lambda: unreadable(collector))
        assert asked_of(collector) == {"step-time": 0.9}
        log = collector.log.read_text()
        assert "the previous objectives stay in force" in log
        assert f"{file}:31: spec.objectives.target" in log
        file.write_text(document("step-time"))
        (folder / "goodput.yaml").write_text(document("goodput"))
        collector.send_signal(signal.SIGHUP)
        until("two SLOs", lambda: asked_of(collector) == {"goodput": 0.95, "step-time": 0.95})
        assert not unreadable(collector)
        assert collector.end(signal.SIGTERM) == 0
    finally:
        collector.end()


def test_a_defect_while_reading_again_ends_no_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*paths: object) -> None:
        raise RecursionError

    store = Store.sqlite(tmp_path / "store.db")
    service = Service(store)
    objectives = service.objectives
    monkeypatch.setattr("stepwatch.collector.slo.asked.site.read_objectives", fails)
    read_again(service, None, None, None)
    assert service.objectives is objectives and service.site_objectives.are_unreadable
    assert "stay in force" in caplog.text
    store.close()


def test_a_collector_does_not_start_with_documents_that_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("kind: SLO")
    words = ["collector", "--store", str(tmp_path / "store.db"), "--slo", str(tmp_path)]
    assert main(words) == PROBLEM
