"""Metrics reach a real OTLP/HTTP receiver, and one that is away, slow or wrong hurts nobody."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import generate_latest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra `traces`")

from stepwatch.agent.app import Agent
from stepwatch.agent.otlp import OtlpOptions
from stepwatch.agent.otlp.export import MetricsExporter
from stepwatch.agent.probes.host import HostProbe
from stepwatch.agent.probes.nvml import NvmlProbe
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.otlp.points import Point
from stepwatch.signals.otlp.sending import interval_seconds
from stepwatch.signals.otlp.session import MOST_BYTES
from tests.access.processes import Program
from tests.agent.conftest import Rank, make_agent, rank, round_of, use_probe
from tests.agent.probes.nvml.scripted import Driver
from tests.agent.traces.receiver import Receiver, points_refused, receiver
from tests.ports import free_port
from tests.waiting import until

__all__ = ["make_agent", "rank"]

POINT = Point("hw.power", "gauge", "W", {"hw.id": "0000:3b:00", "hw.type": "gpu"}, 650.0)
EVERY = 0.05


def exporter(url: str) -> MetricsExporter:
    return MetricsExporter(url, "n1", lambda: [POINT], SystemClock(), EVERY)


@pytest.mark.parametrize("suffix", ["", "/", "/v1/metrics"])
def test_points_arrive_with_their_resource(suffix: str) -> None:
    with receiver() as endpoint:
        metrics_exporter = exporter(endpoint.url + suffix)
        until("points to arrive", lambda: endpoint.values)
        metrics_exporter.close()
    value = endpoint.values[0]
    assert endpoint.paths == {"/v1/metrics"}
    assert value.resource["host.name"] == "n1"
    assert value.resource["service.name"] == "stepwatch-agent"
    assert value.resource["service.version"]
    assert (value.metric.name, value.metric.unit, value.value) == ("hw.power", "W", 650.0)
    assert value.attributes == POINT.attributes
    assert metrics_exporter.exported == len(endpoint.values) and metrics_exporter.dropped == 0


def test_counters_are_cumulative_and_sizes_may_fall() -> None:
    points = [
        Point("hw.errors", "counter", "{error}", {"hw.id": "a"}, 3.0),
        Point("hw.gpu.memory.usage", "updowncounter", "By", {"hw.id": "a"}, 40.0),
    ]
    with receiver() as endpoint:
        metrics_exporter = MetricsExporter(endpoint.url, "n1", lambda: points, SystemClock(), EVERY)
        until("points to arrive", lambda: len(endpoint.values) >= 2)
        metrics_exporter.close()
    sums = {value.metric.name: value.metric.sum for value in endpoint.values}
    assert sums["hw.errors"].is_monotonic and not sums["hw.gpu.memory.usage"].is_monotonic
    assert {metric.aggregation_temporality for metric in sums.values()} == {2}, "cumulative"


def test_devices_of_a_scripted_driver(
    driver: Driver, rank: Rank, make_agent: Callable[..., Agent]
) -> None:
    driver.devices[0] |= {"pci_bus": 0x3B}
    driver.write()
    with receiver() as endpoint:
        agent = make_agent(otlp=OtlpOptions(endpoint.url, EVERY))
        use_probe(agent, NvmlProbe(SystemClock()))
        rank.steps(1)

        def names() -> set[str]:
            round_of(agent)
            return {
                v.metric.name for v in endpoint.values if v.attributes.get("hw.name") == "gpu 0"
            }

        until("the device to arrive", lambda: {"hw.power", "hw.temperature"} <= names())
        powers = {v.value for v in endpoint.values if v.metric.name == "hw.power"}
        assert powers == {650.0}
        driver.devices = [{"no_events": 1}]
        driver.write()

        def unknown() -> bool:
            round_of(agent)
            return 650.0 not in agent.readings.devices()["power_watts"]

        until("the device to be unknown", unknown)
        two_more(endpoint)
        endpoint.values.clear()
        two_more(endpoint)
        assert not {v.metric.name for v in endpoint.values} & {"hw.power", "hw.temperature"}


def two_more(endpoint: Receiver) -> None:
    """Wait for two requests: the second has begun after this call."""
    requests_before = endpoint.requests
    until("two requests more", lambda: endpoint.requests > requests_before + 1)


def counted(agent: Agent) -> dict[str, float]:
    lines = generate_latest(agent.registry).decode().splitlines()
    name = 'stepwatch_agent_otlp_points_total{node="n1",outcome="'
    pairs = (line.removeprefix(name).split('"} ') for line in lines if line.startswith(name))
    return {outcome: float(value) for outcome, value in pairs}


def agent_with(make_agent: Callable[..., Agent], url: str, rank: Rank) -> Agent:
    agent = make_agent(otlp=OtlpOptions(url, EVERY))
    agent.readings.probes = [HostProbe(SystemClock())]
    rank.steps(1)

    def is_read() -> bool:
        round_of(agent)
        return "host" in agent.readings.latest

    until("the host to be read", is_read)
    return agent


def test_a_receiver_that_is_away_costs_a_line_and_a_count(
    rank: Rank, make_agent: Callable[..., Agent], caplog: pytest.LogCaptureFixture
) -> None:
    agent = agent_with(make_agent, f"http://127.0.0.1:{free_port()}", rank)
    until("points to be dropped", lambda: counted(agent)["dropped"] > 0)
    agent.close()
    warnings = [line for line in caplog.messages if "takes no metrics" in line]
    assert len(warnings) == 1 and counted(agent)["exported"] == 0


@pytest.mark.parametrize(
    "mood",
    [(400, b""), (401, b"who are you"), (404, b"<html>"), (301, b""), (500, b"\xff" * 100)],
    ids=str,
)
def test_a_refusal_is_counted_and_what_comes_later_is_sent(mood: tuple[int, bytes]) -> None:
    with receiver(mood) as endpoint:
        metrics_exporter = exporter(endpoint.url)
        until("points to arrive", lambda: metrics_exporter.exported)
        metrics_exporter.close()
    assert metrics_exporter.dropped == 1 or mood[0] == 500, "the exporter tries again what may pass"


@pytest.mark.parametrize("body", [b"garbage", b"\xff\xff\xff\xff", b"{}", b""])
def test_an_answer_that_is_none_counts_as_taken(body: bytes) -> None:
    with receiver((200, body)) as endpoint:
        metrics_exporter = exporter(endpoint.url)
        until("points to arrive", lambda: len(endpoint.values) >= 1)
        metrics_exporter.close()
    assert (
        metrics_exporter.dropped == 0
        and metrics_exporter.rejected == 0
        and metrics_exporter.thread.failures == 0
    )


def test_what_was_taken_in_part_is_counted_and_not_sent_again() -> None:
    with receiver(points_refused(1)) as endpoint:
        metrics_exporter = MetricsExporter(
            endpoint.url, "n1", lambda: [POINT], SystemClock(), 3600.0
        )
        metrics_exporter.send()
        metrics_exporter.close()
    assert endpoint.requests == 1 and metrics_exporter.rejected == 1


def test_a_slow_receiver_does_not_hold_up_the_agent(
    rank: Rank, make_agent: Callable[..., Agent]
) -> None:
    with receiver() as endpoint:
        endpoint.hold.clear()
        agent = agent_with(make_agent, endpoint.url, rank)
        until("a request to wait", lambda: found_waiting(agent))
        for step in range(20):
            rank.steps(1)
            round_of(agent)
            assert len(agent.spool) >= step
        assert counted(agent)["exported"] == 0, "nothing was answered meanwhile"
        endpoint.hold.set()
        until("points to be taken", lambda: counted(agent)["exported"] > 0)
        agent.close()


def found_waiting(agent: Agent) -> bool:
    assert agent.metrics is not None
    return agent.metrics.thread.is_alive()


def test_an_answer_without_end_is_read_up_to_a_bound() -> None:
    sent = threading.Event()

    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
                for _ in range(100_000):
                    connection.sendall(b"x" * 65536)
            except OSError:
                sent.set()  # it hung up

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        metrics_exporter = MetricsExporter(url, "n1", lambda: [POINT], SystemClock(), 3600.0)
        metrics_exporter.send()
        assert sent.wait(60), f"more than {MOST_BYTES} bytes were read"
        thread.join(60)
        metrics_exporter.close()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 60.0), ("1500", 1.5), ("1", 1.0), ("-5", 60.0), ("nan", 60.0), ("inf", 60.0)],
)
def test_the_interval_is_the_sdks_variable(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", text)
    assert interval_seconds() == seconds


def run_agent(folder: Path, endpoint: Receiver, **environ: str) -> Program:
    options = [
        "--collector", "http://127.0.0.1:9", "--ring-dir", str(folder / "rings"), "--port", "0",
        "--spool", str(folder / "spool"), "--kernel-log", str(folder / "kmsg"), "--node", "n1",
        "--otlp", endpoint.url,
    ]  # fmt: skip
    return Program(folder, "agent", *options, **environ)


def test_the_command_sends_metrics_unless_they_are_turned_off(tmp_path: Path) -> None:
    with receiver() as endpoint:
        agent = run_agent(tmp_path, endpoint, OTEL_METRIC_EXPORT_INTERVAL="1000")
        try:
            until("the host to arrive", lambda: {v.metric.name for v in endpoint.values} >= {
                "system.memory.limit", "system.memory.linux.available"})  # fmt: skip
            assert {value.resource["host.name"] for value in endpoint.values} == {"n1"}
            assert agent.end() == 0
        finally:
            agent.kill()
    with receiver() as endpoint:
        words = {"OTEL_METRIC_EXPORT_INTERVAL": "1000", "OTEL_METRICS_EXPORTER": "none"}
        (tmp_path / "without").mkdir()
        agent = run_agent(tmp_path / "without", endpoint, **words)
        try:
            agent.wait_for("metrics on http://")
            agent.wait_for("the collector refuses segments or is away")
            assert agent.end() == 0
        finally:
            agent.kill()
        assert not endpoint.values


def test_without_an_exporter_nothing_is_counted(
    rank: Rank, make_agent: Callable[..., Agent], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    agent = make_agent()
    assert agent.metrics is None and counted(agent) == {}
