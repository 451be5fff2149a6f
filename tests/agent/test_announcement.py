"""An agent announces itself to the ranks of its node, and withdraws at its end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

from stepwatch.agent.announcement import IncidentCounts
from stepwatch.agent.app import Agent
from stepwatch.agent.keys import AttemptKey
from stepwatch.signals import presence
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.http import Client
from tests.signals.http.raw import answer, raw_server
from tests.waiting import until

from .relay.stub import Collector, serve_url


def test_an_agent_without_a_collector_says_so(make_agent: Callable[..., Agent]) -> None:
    agent = make_agent("http://127.0.0.1:9")
    assert agent.relay.link == presence.CONNECTING
    agent.relay.ask_formats()
    agent.announcement.update()
    announced = presence.read(agent.options.ring_dir)
    assert announced is not None and announced.link == presence.AWAY


def test_an_idle_agent_says_that_its_collector_answers_and_withdraws_at_its_end(
    tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    collector = Collector()
    with serve_url(collector) as url:
        agent = make_agent(url)
        running = threading.Thread(target=agent.run)
        running.start()
        folder = agent.options.ring_dir

        def link() -> str:
            announced = presence.read(folder)
            return announced.link if announced is not None else ""

        until("the agent to be connected", lambda: link() == presence.CONNECTED)
        announced = presence.read(folder)
        assert announced is not None and (announced.collector, announced.page) == (url, url)
        agent.stop()
        running.join(20.0)
    assert presence.read(folder) is None, "an agent that has ended announces nothing"


def test_incidents_are_counted_for_the_attempt_that_runs_and_else_unknown() -> None:
    incidents = [{"attempt": 0}, {"attempt": 1}, {"attempt": 1}]
    answers = {"job": json.dumps({"incidents": incidents}), "odd": "<html>", "deep": "[" * 90000}

    def answered(request: bytes) -> list[bytes]:
        return [answer(answers[request.split()[1].decode().partition("?job=")[2]].encode())]

    with raw_server(answered) as server, Client(server.url) as client:
        counts = IncidentCounts(client, SystemClock())
        counts.attempts = frozenset({AttemptKey(job, job == "job") for job in answers})
        counts.ask()
        assert counts.by_job == {"job": 2}
        counts.attempts = frozenset({AttemptKey("job", 0)})
        counts.ask()
        assert counts.by_job == {"job": 2}, "not asked again so soon"
