"""Incidents as log records over OTLP: each transition once, in order, with its evidence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra `traces`")

from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.incidents.notices import notices_of
from stepwatch.collector.incidents.states import INFO, MERGED, OPEN, RESOLVED
from stepwatch.collector.incidents.transitions import MAX_TIMELINE
from stepwatch.collector.runtime.notifier import Notifiers
from stepwatch.collector.runtime.paging.configuration import read_receivers
from stepwatch.collector.runtime.paging.otlp_logs import OtlpLogs, from_environment
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.incidents.outbox import Outbox
from stepwatch.collector.store.response import Silences
from stepwatch.collector.store.response.silences import Wanted
from stepwatch.signals import names, traces
from stepwatch.signals.errors import ConfigurationError
from tests.agent.traces.receiver import Mood, Receiver, receiver, records_refused
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.collector.process import Process
from tests.collector.store.paging.happenings import HANG, Time
from tests.waiting import until

LINKS = "https://stepwatch.example"
SECRET = "s3cret-0f-a-vend0r"
RUN = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)


def file_of(folder: Path, url: str) -> Path:
    (folder / "headers").write_text(f"api-key={SECRET},tenant=ml%20team\n")
    file = folder / "receivers.toml"
    file.write_text(
        f'links = "{LINKS}"\n[receiver.logs]\nkind = "otlp"\nurl = "{url}"\n'
        f'headers_file = "{folder}/headers"\n'
    )
    return file


class Course:
    """One incident in states that follow each other, sent to one receiver after each."""

    def __init__(self, store: Store, folder: Path, endpoint: Receiver) -> None:
        self.clock = Time()
        self.store = store
        self.box = Outbox(store.engine, self.clock)
        self.notifiers = Notifiers(self.box, read_receivers(file_of(folder, endpoint.url)))
        self._previous: dict[str, Incident] = {}

    def becomes(self, **changes: object) -> None:
        """The incident changes, and due records are sent."""
        known = self._previous.get(HANG.id, replace(HANG, severity="alert", since_step=7, rank=3))
        now: Incident = replace(known, **{"state": OPEN, **changes})  # type: ignore[arg-type]
        recipients = self.notifiers.recipients
        notices = notices_of(self._previous, [now], self.clock.seconds, *recipients)
        self.store.save_evaluation(now.job, [], [now.document()], None, notices)
        self._previous = {now.id: now}
        self.advance()

    def advance(self, seconds: float = 1.0) -> None:
        """Let time pass, and send what is due."""
        self.clock.seconds += seconds
        self.notifiers.advance()


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    moods: tuple[Mood, ...] = getattr(request, "param", ())
    with receiver(*moods) as opened:
        yield opened


@pytest.fixture
def course(store: Store, tmp_path: Path, endpoint: Receiver) -> Course:
    return Course(store, tmp_path, endpoint)


def events(endpoint: Receiver) -> list[str]:
    return [
        logged.record.event_name.removeprefix("stepwatch.incident.") for logged in endpoint.logs
    ]


def test_opening_changes_and_end_arrive_once_and_in_order(
    course: Course, endpoint: Receiver
) -> None:
    course.becomes()
    course.becomes(device_seconds_lost=3.0)
    course.becomes(cause="ecc-errors")
    course.becomes(cause="ecc-errors", device_seconds_lost=4.0)
    course.becomes(node="gpu-02")
    course.becomes(state=RESOLVED)
    course.advance(60.0)
    assert events(endpoint) == ["opened", "changed", "changed", "resolved"]
    opened, changed, moved, over = endpoint.logs
    assert opened.attributes["stepwatch.cause"] == "unknown"
    assert changed.attributes["stepwatch.cause"] == "ecc-errors"
    assert moved.attributes["host.name"] == "gpu-02"
    assert over.attributes["stepwatch.incident.state"] == RESOLVED
    assert len({logged.attributes["log.record.uid"] for logged in endpoint.logs}) == 4


def test_a_record_says_what_an_engineer_asks(course: Course, endpoint: Receiver) -> None:
    course.becomes()
    (logged,) = endpoint.logs
    record = logged.record
    assert logged.resource == {
        "service.name": "llama",
        "service.namespace": "stepwatch",
        "stepwatch.job": "llama",
    }
    assert (record.severity_number, record.severity_text) == (17, "ERROR")
    assert record.body.string_value == "llama: rank 3 on gpu-01 hangs <&>"
    assert record.time_unix_nano == 1_800_000_000 * 10**9
    assert logged.attributes.items() >= {
        ("stepwatch.incident.id", HANG.id),
        ("stepwatch.incident.kind", "hang"),
        ("stepwatch.incident.severity", "alert"),
        ("stepwatch.rank", 3),
        ("stepwatch.step", 7),
        ("host.name", "gpu-01"),
        ("stepwatch.throughput_lost", 1.0),
        ("stepwatch.runbook", "TrainingHang"),
        ("stepwatch.runbook.url", f"{LINKS}/runbooks/TrainingHang?incident={HANG.id}"),
        ("stepwatch.job.url", f"{LINKS}/jobs/llama"),
    }
    assert "stepwatch.attempt" not in logged.attributes, "unknown"


def test_a_record_is_in_the_trace_of_its_first_step(course: Course, endpoint: Receiver) -> None:
    course.becomes(attempt=2)
    record = endpoint.logs[0].record
    assert int.from_bytes(record.trace_id, "big") == traces.trace_id("llama", 2, 7)
    assert int.from_bytes(record.span_id, "big") == traces.span_id("llama", 2, 7, 3, "step")


def test_an_incident_that_only_informs_is_recorded_as_information(
    course: Course, endpoint: Receiver
) -> None:
    course.becomes(severity=INFO)
    course.becomes(severity="alert")
    course.becomes(state=MERGED, merged_into="feedfeedfeed")
    assert events(endpoint) == ["opened", "changed", "resolved"]
    assert [logged.record.severity_text for logged in endpoint.logs] == ["INFO", "ERROR", "INFO"]
    assert endpoint.logs[-1].attributes["stepwatch.incident.merged_into"] == "feedfeedfeed"


@pytest.mark.parametrize("endpoint", [((503, b""), (429, b""))], indirect=True)
def test_an_outage_delays_records_and_keeps_their_order(course: Course, endpoint: Receiver) -> None:
    course.becomes()
    course.becomes(cause="ecc-errors")
    course.becomes(state=RESOLVED)
    assert events(endpoint) == []
    for _ in range(20):
        course.advance(5.0)
    assert events(endpoint) == ["opened", "changed", "resolved"]


@pytest.mark.parametrize("endpoint", [((400, b""),), (records_refused(1),)], indirect=True)
def test_a_refused_record_is_given_up_and_the_next_one_is_sent(
    course: Course, endpoint: Receiver
) -> None:
    course.becomes()
    course.becomes(state=RESOLVED)
    for _ in range(5):
        course.advance(60.0)
    assert events(endpoint) == ["resolved"] and endpoint.requests == 2
    assert course.box.given_up()["refused"] == 1


@pytest.mark.parametrize("endpoint", [((401, SECRET.encode()),)], indirect=True)
def test_headers_are_sent_and_never_logged(
    course: Course, endpoint: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    course.becomes()
    course.advance(60.0)
    assert events(endpoint) == ["opened"]
    assert [headers["api-key"] for headers in endpoint.headers] == [SECRET] * 2
    assert endpoint.headers[0]["tenant"] == "ml team"
    assert "401" in caplog.text and SECRET not in caplog.text
    assert SECRET not in repr(OtlpLogs("logs", lambda: "http://x", headers=lambda: SECRET))


def test_a_silence_and_an_acknowledgement_hold_pages_and_no_records(
    course: Course, endpoint: Receiver
) -> None:
    wanted = Wanted("llama", "", "", "planned", "me", 3600.0)
    Silences(course.store.engine, course.clock).add(wanted)
    course.becomes()
    course.becomes(state=RESOLVED)
    assert events(endpoint) == ["opened", "resolved"]


def test_a_flapping_cause_is_recorded_up_to_a_bound() -> None:
    sent, previous = 0, replace(HANG, state=OPEN, severity="alert")
    for number in range(3 * MAX_TIMELINE):
        entry = {"at": 0.0, "event": "cause changed", "text": ""}
        timeline = [*previous.timeline, entry][:MAX_TIMELINE]
        now = replace(previous, cause=f"cause-{number % 2}", timeline=timeline)
        sent += len(notices_of({HANG.id: previous}, [now], float(number), (), ("logs",)))
        previous = now
    assert sent == MAX_TIMELINE


def test_a_straggler_of_a_real_evaluation(store: Store, clock: HandClock, tmp_path: Path) -> None:
    with receiver() as endpoint:
        receivers = read_receivers(file_of(tmp_path, endpoint.url))
        notifiers = Notifiers(store.outbox, receivers)
        service = Service(store, clock, notifier=notifiers)
        service.receive(body(RUN))
        service.evaluate()
        notifiers.advance()
        service.evaluate()
        notifiers.advance()
    (logged,) = endpoint.logs
    assert logged.resource["service.name"] == JOB
    assert logged.attributes["stepwatch.incident.kind"] == "straggler"
    assert logged.attributes["stepwatch.rank"] == 2
    assert logged.attributes["stepwatch.phase"] == "forward"


def test_the_variables_name_endpoint_and_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=b")
    assert from_environment(None).outgoing("key", document()).url == "http://all:4318/v1/logs"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://logs:4318/v1/logs")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "c=d")
    outgoing = from_environment(None).outgoing("key", document())
    assert outgoing.url == "http://logs:4318/v1/logs"
    assert outgoing.headers == {"c": "d", "content-type": "application/x-protobuf"}
    assert from_environment("http://named").outgoing("k", document()).url == "http://named/v1/logs"


def document() -> dict[str, object]:
    return {"transition": "opened", "at": 1.0, "incident": HANG.document()}


def test_an_unknown_key_in_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "receivers.toml"
    file.write_text('[receiver.logs]\nkind = "otlp"\nurl = "http://x"\ntoken_file = "t"\n')
    with pytest.raises(ConfigurationError, match="token_file"):
        read_receivers(file)


def test_the_command_sends_metrics_and_incidents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
    with receiver() as endpoint:
        process = Process(tmp_path, options=("--otlp", endpoint.url))
        try:
            process.start()
            process.wait_ready()
            process.send(body(RUN))
            until("the incident to arrive", lambda: events(endpoint)[:1] == ["opened"])
            until("the step to arrive", lambda: "stepwatch.job.step" in {
                value.metric.name for value in endpoint.values})  # fmt: skip
            text = httpx.get(f"{process.url}/metrics", timeout=10.0).text
            assert f'{names.COLLECTOR_OTLP_POINTS.name}{{outcome="exported"}} 0.0' not in text
            assert f'{names.COLLECTOR_OTLP_POINTS.name}{{outcome="exported"}}' in text
            assert process.end(15) == 0
        finally:
            process.end()
