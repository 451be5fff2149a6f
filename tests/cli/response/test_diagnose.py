"""`stepwatch diagnose` and `postmortem`: what they say, and that they say what is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.cli.response.diagnosis import diagnosis, diagnosis_text
from stepwatch.cli.response.postmortem import Material, document_of, postmortem
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, run_segments

Capture = pytest.CaptureFixture[str]
COLLECTOR = "http://collector:8480"


def job_of(folder: Path, **run: Any) -> dict[str, Any]:
    """The document of a job that runs, as a collector answers it."""
    store = Store.sqlite(folder / "running.db")
    clock = HandClock(60.0)
    service = Service(store, clock)
    for item in run_segments(60, **run):
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    document: dict[str, Any] = Client(make_api(service)).get(f"/v1/jobs/{JOB}").json()
    store.close()
    return document


def test_a_healthy_job_is_healthy(tmp_path: Path) -> None:
    result = diagnosis(job_of(tmp_path), COLLECTOR)
    assert (result["verdict"], result["incident"], result["unknown"]) == ("healthy", None, [])
    assert diagnosis_text(result, "", 78).startswith(f"{JOB}: HEALTHY, running, step 59\n")


def test_a_slow_rank_is_on_one_screen(tmp_path: Path) -> None:
    result = diagnosis(job_of(tmp_path, excess={(2, "forward"): 0.2}, slow_from=30), COLLECTOR)
    shown = diagnosis_text(result, "", 78)
    lines = shown.splitlines()
    assert result["verdict"] == "anomaly" and lines[0] == f"{JOB}: ANOMALY, degraded, step 59"
    assert len(lines) <= 40
    assert "rank 2" in shown and "of throughput" in shown and "cost unknown: no rate" in shown
    assert f" more: stepwatch incidents --id {result['incident']['id']}" in shown
    assert "Who, where, since when" not in shown, "the screen has answered it"
    assert "what is the rank doing" in result["first_action"]["text"]
    assert result["impact"]["device_hours_lost"] > 0.0 and result["impact"]["cost"] is None
    assert all(len(line) <= 80 for line in lines if "stepwatch " not in line)


def test_an_incident_that_ended_because_the_run_did_is_not_healthy(tmp_path: Path) -> None:
    job = job_of(tmp_path, excess={(2, "forward"): 0.2}, slow_from=30)
    (incident,) = job["incidents"]
    for state in ("finished", "interrupted", "failed"):
        ended = {**incident, "state": "ended", "resolved_at": 1.0}
        result = diagnosis({**job, "state": state, "incidents": [ended]}, COLLECTOR)
        assert (result["verdict"], result["past"]) == ("anomaly", [])
        shown = diagnosis_text(result, "", 78)
        assert shown.startswith(f"{JOB}: ANOMALY, {state}, step 59\n")
        assert "it ended only with the run" in shown and "HEALTHY" not in shown


def test_what_was_wrong_before_is_named_and_healthy_is_what_never_was(tmp_path: Path) -> None:
    job = job_of(tmp_path, excess={(2, "forward"): 0.2}, slow_from=30)
    over = {**job["incidents"][0], "state": "resolved", "resolved_at": 1_800_000_090.0}
    for state, attempt in (("running", 0), ("finished", 0)):
        result = diagnosis(
            {**job, "state": state, "attempt": attempt, "incidents": [over]}, COLLECTOR
        )
        assert (result["verdict"], result["incident"]) == ("recovered", None)
        shown = diagnosis_text(result, "", 78)
        assert "resolved 2027-01-15 08:01:30 UTC: straggler: " in shown and "HEALTHY" not in shown
    earlier = {**over, "state": "ended"}
    result = diagnosis({**job, "state": "running", "attempt": 1, "incidents": [earlier]}, COLLECTOR)
    assert result["verdict"] == "recovered", "it ended with an attempt that another one followed"


def test_an_interrupted_run_is_not_healthy(tmp_path: Path) -> None:
    result = diagnosis({**job_of(tmp_path), "state": "interrupted"}, COLLECTOR)
    assert result["verdict"] == "interrupted"
    shown = diagnosis_text(result, "", 78)
    assert shown.startswith(f"{JOB}: INTERRUPTED, step 59\n  it was stopped before its end\n")


def test_what_is_not_known_is_not_healthy(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    for change, why in (
        ({"state": "unknown"}, "it is unknown: nothing newer is known"),
        ({"state": "quarantined", "reason": "it raised"}, "it is quarantined: it raised"),
        ({"step": None}, "no step is complete yet"),
        ({"not_looked_for": {"hang": "KeyError"}}, "hang is not looked for: KeyError"),
    ):
        result = diagnosis({**job, **change}, COLLECTOR)
        assert result["verdict"] == "unknown" and result["unknown"][0] == why
        assert "UNKNOWN" in diagnosis_text(result, "", 78)
    assert diagnosis({**job, "state": "failed"}, COLLECTOR)["verdict"] == "anomaly"


def test_a_frozen_slo_alone_is_unknown_and_one_that_nobody_measures_is_not(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    slo = {**job["slos"][0], "name": "goodput"}
    result = diagnosis({**job, "slos": [{**slo, "state": "frozen"}]}, COLLECTOR)
    assert result["verdict"] == "unknown"
    assert result["unknown"] == ["SLO goodput: too little telemetry"]
    assert "UNKNOWN" in diagnosis_text(result, "", 78)
    assert diagnosis({**job, "slos": [{**slo, "state": "unknown"}]}, COLLECTOR)["unknown"] == []


def test_lost_telemetry_is_unknown_and_names_its_first_action(tmp_path: Path) -> None:
    job = job_of(tmp_path, excess={(2, "forward"): 0.2}, slow_from=30)
    (incident,) = job["incidents"]
    lost = {**incident, "kind": "telemetry-lost", "runbook": "TrainingTelemetryLost"}
    result = diagnosis({**job, "incidents": [lost], "state": "unknown"}, COLLECTOR)
    assert result["verdict"] == "unknown" and result["unknown"][0] == incident["summary"]
    assert result["first_action"]["commands"]


def test_the_verbs_from_a_store(place: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["diagnose", JOB, "--json", "--store", place]) == PROBLEM
    document = json.loads(capsys.readouterr().out)
    identity = document["incident"]["id"]
    assert main(["diagnose", JOB, "--store", place]) == PROBLEM
    assert f"--incident {identity} --store" in capsys.readouterr().out
    words = ["--why", "work", "--by", "ada", "--store", place]
    assert main(["silence", "--job", JOB, "--for", "2h", *words]) == OK
    assert main(["incidents", "comment", identity, "disk", "--by", "ada", "--store", place]) == OK
    capsys.readouterr()
    out = tmp_path / "postmortem.md"
    assert main(["postmortem", identity, "--out", str(out), "--store", place]) == OK
    assert capsys.readouterr().out == f"wrote {out}\n"
    written = out.read_text()
    assert written.startswith(f"# Post-mortem: straggler in job {JOB}, incident {identity}\n")
    for part in ("## Timeline", "comment by ada", "- cost: unknown: no rate", "- [ ] "):
        assert part in written
    assert main(["postmortem", identity, "--out", str(out), "--store", place]) == PROBLEM
    assert "File exists; pass another --out" in capsys.readouterr().err
    assert main(["postmortem", identity, "--store", place]) == OK
    assert capsys.readouterr().out.startswith("# Post-mortem: straggler")
    assert main(["postmortem", "../etc", "--store", place]) == USAGE
    assert main(["diagnose", "nobody", "--store", place]) == PROBLEM


def test_a_post_mortem_counts_what_was_redone_and_names_the_silences(tmp_path: Path) -> None:
    job = job_of(tmp_path, excess={(2, "forward"): 0.2}, slow_from=30)
    (incident,) = job["incidents"]
    job["checkpoints"] = [
        {"step": step, "verified": verified}
        for step, verified in ((10, True), (20, True), (25, False), (50, True))
    ]
    job["attempts"][0]["redone_from"] = 21
    material_fields: dict[str, Any] = {
        "job": JOB,
        "node": "",
        "kind": "",
        "by": "ada",
        "why": "work",
        "expired_by": "bob",
    }
    material_fields |= {"since": 1.0, "until": 2.0}
    material = Material(
        incident, job, [material_fields, {**material_fields, "job": "other", "why": "not this"}]
    )
    document = document_of(material)
    assert (document["last_good_checkpoint_step"], document["steps_redone"]) == (20, 39)
    text = postmortem(material, COLLECTOR)
    assert "- last good checkpoint: step 20\n- steps redone: 39\n" in text
    assert "by ada" in text and "ended by bob: work" in text and "not this" not in text
    unknown_text = postmortem(Material(incident, None, []), COLLECTOR)
    assert "unknown: the job has left the live state" in unknown_text
