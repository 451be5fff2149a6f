"""`python -m tests.soak.sender --receipts FILE ...`: `stepwatch simulate` with receipts.

It is the command's own simulated fleet, whose requests and answers are recorded. With `--also` a
request that one collector does not answer goes to the other, as behind a load balancer.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path

import httpx

from stepwatch.cli.interruptions import handled_by
from stepwatch.cli.simulate.report import report_json, report_text
from stepwatch.cli.simulate.run import Simulation
from stepwatch.cli.verbs import simulate
from stepwatch.signals.clock import SystemClock

from .receipts import Receipts

_TIMEOUT_SECONDS = 10.0
_PROBE_SECONDS, _PROBE_TIMEOUT_SECONDS = 1.0, 2.0


class LoadBalancer(httpx.BaseTransport):
    """Sends each request to the next of `urls`, as a load balancer does. It asks each URL every
    second whether it is ready, and leaves it out from a failure until it is."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = [httpx.URL(url) for url in urls]
        self._transport = httpx.HTTPTransport()
        self._turn = 0
        self._is_out = [False] * len(urls)
        self._closing = threading.Event()
        self._probes = [
            threading.Thread(target=self._probe, args=(number, url), daemon=True)
            for number, url in enumerate(urls)
        ]
        for probe in self._probes:
            probe.start()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to the next URL."""
        chosen = self._next()
        url = self._urls[chosen]
        request.url = request.url.copy_with(host=url.host, port=url.port)
        try:
            answer = self._transport.handle_request(request)
        except httpx.HTTPError:
            self._is_out[chosen] = True
            raise
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            self._is_out[chosen] = True
        return answer

    def _probe(self, number: int, url: str) -> None:
        """Ask one collector whether it is ready, until the end."""
        with httpx.Client(base_url=url, timeout=_PROBE_TIMEOUT_SECONDS) as client:
            while not self._closing.wait(_PROBE_SECONDS):
                try:
                    answer = client.get("/readyz")
                    self._is_out[number] = not answer.is_success
                except httpx.HTTPError:
                    self._is_out[number] = True

    def _next(self) -> int:
        """Return the index of the next ready URL; the next one if all have failed."""
        self._turn += 1
        turns = [(self._turn + more) % len(self._urls) for more in range(len(self._urls))]
        return next((turn for turn in turns if not self._is_out[turn]), turns[0])

    def close(self) -> None:
        """Ask no more, and close all connections."""
        self._closing.set()
        for probe in self._probes:
            probe.join()
        self._transport.close()


def main(words: list[str]) -> int:
    """Simulate, write receipts and report; exit 1 unless all segments were acknowledged."""
    parser = argparse.ArgumentParser()
    simulate.add_arguments(parser)
    parser.add_argument("--receipts", type=Path, required=True)
    parser.add_argument("--also", action="append", default=[])
    arguments = parser.parse_args(words)
    receipts = Receipts(arguments.receipts)
    client = httpx.Client(
        base_url=arguments.collector,
        timeout=_TIMEOUT_SECONDS,
        transport=LoadBalancer([arguments.collector, *arguments.also]),
        event_hooks={"request": [receipts.request], "response": [receipts.response]},
    )
    with client:
        simulation = Simulation(simulate.plan_of(arguments), client, SystemClock(), _note)
        with handled_by(lambda *_: simulation.interrupt()):
            outcome = simulation.run()
    arguments.json.write_text(json.dumps(report_json(outcome), indent=1), encoding="utf-8")
    print(report_text(outcome), flush=True)
    return int(not outcome.is_complete)


def _note(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
