"""Spans reach a real OTLP/HTTP receiver, and one that is away or angry hurts nobody."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

pytest.importorskip("opentelemetry.sdk", reason="traces need the extra `traces`")

from stepwatch.agent.app import Agent
from stepwatch.agent.traces.export import TRIES, Exporter
from stepwatch.agent.traces.spans import Span
from stepwatch.agent.traces.tracer import TraceOptions, Tracer
from tests.agent.conftest import Rank, round_of
from tests.ports import free_port
from tests.waiting import until

from .made import CLOCK, KEY, NODE, traced
from .receiver import Receiver, partly_refused, receiver
from .test_spans import BEGIN, STALLED, full_step, saved

RESOURCE = {"service.name": "job"}


def check_received(endpoint: Receiver, spans: list[Span]) -> None:
    """What came out of the wire is what went in, once."""
    assert endpoint.paths == {"/v1/traces"}
    sent = {(span.trace_id.to_bytes(16, "big"), span.span_id.to_bytes(8, "big")): span
            for span in spans}  # fmt: skip
    assert sorted(item.key for item in endpoint.taken) == sorted(sent)
    for item in endpoint.taken:
        span = sent[item.key]
        assert item.span.name == span.name
        assert item.span.parent_span_id == (
            span.parent_id.to_bytes(8, "big") if span.parent_id else b""
        )
        moments = (item.span.start_time_unix_nano, item.span.end_time_unix_nano)
        assert moments == (span.start_ns, span.end_ns)
        assert item.attributes == dict(span.attributes)
        assert [event.time_unix_nano for event in item.span.events] == [
            moment.wall_ns for moment in span.moments
        ]


@pytest.mark.parametrize("suffix", ["", "/", "/v1/traces"])
def test_spans_arrive_as_they_were_made(suffix: str) -> None:
    with receiver() as endpoint:
        exporter = Exporter(endpoint.url + suffix)
        tracer = Tracer(NODE, exporter)
        flushes = [full_step(), saved(BEGIN), saved(STALLED)]
        for tables in flushes:
            tracer.trace(KEY, CLOCK, tables)
        tracer.close()
    check_received(endpoint, traced(*flushes))
    assert exporter.exported == len(endpoint.taken)
    assert {tuple(sorted(item.resource.items())) for item in endpoint.taken} == {
        (
            ("host.name", "node-1"),
            ("service.name", "job"),
            ("service.namespace", "stepwatch"),
            ("stepwatch.attempt", 2),
            ("stepwatch.job", "job"),
        )
    }


def test_a_batch_that_was_not_taken_is_sent_again_with_the_same_ids() -> None:
    spans = traced(full_step())
    # 500 is not a status that the exporter itself tries again at.
    with receiver((500, b""), (500, b"")) as endpoint:
        exporter = Exporter(endpoint.url, first_delay=0.01)
        exporter.put(RESOURCE, spans)
        until("spans to be exported", lambda: exporter.exported > 0)
        exporter.close()
    check_received(endpoint, spans)
    assert (endpoint.requests, exporter.dropped) == (3, 0)


def test_a_batch_is_given_up_after_some_tries_and_the_next_one_goes_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spans = traced(full_step())
    with receiver(*[(500, b"")] * TRIES) as endpoint:
        exporter = Exporter(endpoint.url, first_delay=0.01)
        exporter.put(RESOURCE, spans)
        until("spans to be dropped", lambda: exporter.dropped > 0)
        exporter.put(RESOURCE, spans)
        exporter.close()
    check_received(endpoint, spans)
    assert (exporter.dropped, exporter.exported) == (len(spans), len(spans))
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


def test_what_is_refused_is_not_sent_again() -> None:
    spans = traced(full_step())
    with receiver((400, b"bad"), partly_refused(3)) as endpoint:
        exporter = Exporter(endpoint.url, first_delay=0.01)
        exporter.put(RESOURCE, spans)
        until("spans to be dropped", lambda: exporter.dropped > 0)
        exporter.put(RESOURCE, spans)
        exporter.close()
    assert (endpoint.requests, exporter.dropped, exporter.rejected) == (2, len(spans), 3)


def test_a_receiver_that_answers_nonsense_is_taken_at_its_status() -> None:
    with receiver((200, b"<html>\xff")) as endpoint:
        exporter = Exporter(endpoint.url, first_delay=0.01)
        exporter.put(RESOURCE, traced(full_step()))
        exporter.close()
    assert (exporter.dropped, exporter.rejected, endpoint.requests) == (0, 0, 1)


def test_a_full_queue_drops_and_counts_and_never_waits() -> None:
    spans = traced(full_step())
    with receiver() as endpoint:
        endpoint.hold.clear()  # the first request is held until the end
        exporter = Exporter(endpoint.url, queue_spans=5)
        for _ in range(10):
            exporter.put(RESOURCE, spans)
        assert exporter.dropped >= 10 * len(spans) - 5 - 512
        assert exporter.dropped > 0
        endpoint.hold.set()
        exporter.close()
    assert exporter.dropped + exporter.exported == 10 * len(spans)


def test_an_agent_goes_on_while_the_receiver_is_away(
    make_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    rank = Rank(tmp_path / "rings")
    rank.facts()
    url = f"http://127.0.0.1:{free_port()}"
    agent = make_agent(traces=TraceOptions(url, every=1))
    for _ in range(3):
        rank.steps(5)
        round_of(agent)
    assert agent.tail.records_read == 17
    assert len(agent.spool) == 3
    assert agent.tracer is not None
    agent.close()
    assert agent.tracer.sink.exported == 0


def test_the_counts_are_metrics_and_absent_without_traces(
    make_agent: Callable[..., Agent], tmp_path: Path
) -> None:
    Rank(tmp_path / "rings").steps(2)
    with receiver() as endpoint:
        agent = make_agent(traces=TraceOptions(endpoint.url, every=1))
        round_of(agent)
        sink = agent.tracer.sink if agent.tracer else None
        until("spans to be exported", lambda: sink is not None and sink.exported > 0)
        text = generate_latest(agent.registry).decode()
        agent.close()
    count = len(endpoint.taken)
    assert f'stepwatch_agent_spans_total{{node="n1",outcome="exported"}} {count}.0' in text
    assert "stepwatch_agent_spans_total" not in generate_latest(
        make_agent().registry
    ).decode()  # fmt: skip


PROGRAM = """
import logging, sys
logging.basicConfig()
sys.modules["opentelemetry"] = None
from pathlib import Path
from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.agent.traces.tracer import TraceOptions, Tracer
from stepwatch.signals.errors import ConfigurationError
def make(traces):
    return Agent(AgentOptions(Path("rings"), Path(sys.argv[-1]), "http://127.0.0.1:9", "n", None,
                              traces=traces))
agent = make(TraceOptions(None))
print(agent.tracer)
agent.close()
try:
    make(TraceOptions("http://127.0.0.1:9"))
except ConfigurationError as error:
    print(error)
"""


def test_without_the_sdk_asking_for_traces_is_refused_and_a_variable_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "spool")]
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))
    ended: Any = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    tracer, refusal = ended.stdout.splitlines()
    assert tracer == "None"
    assert "pip install 'stepwatch[traces]'" in refusal
    assert "no traces" in ended.stderr
