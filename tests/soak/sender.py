"""`python -m tests.soak.sender --receipts FILE ...`: `stepwatch simulate` with receipts.

It is the command's own simulated fleet, whose requests and answers are recorded. With `--also` a
request that one collector does not answer goes to the other, as behind a load balancer.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from stepwatch.cli.interruptions import handled_by
from stepwatch.cli.simulate.report import report_json, report_text
from stepwatch.cli.simulate.run import Simulation
from stepwatch.cli.verbs import simulate
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.http import Answer, Client, HttpError

from .receipts import Receipts

_TIMEOUT_SECONDS = 10.0
_PROBE_SECONDS, _PROBE_TIMEOUT_SECONDS = 1.0, 2.0


class WholeAnswer(Answer):
    """An answer whose body has arrived."""

    def __init__(self, answer: Answer) -> None:
        self.content = answer.read()
        self.status_code, self.headers = answer.status_code, answer.headers

    def pieces(self, seconds: float = 0.0) -> Iterator[bytes]:
        """Yield the body."""
        yield self.content


class LoadBalancer(Client):
    """Sends each request to the next of `urls`, as a load balancer does, and notes its receipts.

    It asks each URL every second whether it is ready, and leaves it out from a failure until it is.
    """

    def __init__(self, urls: list[str], receipts: Receipts) -> None:
        super().__init__(urls[0], seconds=_TIMEOUT_SECONDS)
        self._clients = [Client(url, seconds=_TIMEOUT_SECONDS) for url in urls]
        self._receipts = receipts
        self._turn = 0
        self._is_out = [False] * len(urls)
        self._closing = threading.Event()
        self._probes = [
            threading.Thread(target=self._probe, args=(number, url), daemon=True)
            for number, url in enumerate(urls)
        ]
        for probe in self._probes:
            probe.start()

    @contextmanager
    def stream(self, method: str, path: str, **sent: Any) -> Iterator[Answer]:
        """Send the request to the next URL."""
        body = sent.get("content") if method == "POST" else None
        segments = self._receipts.sent(body) if body else []
        chosen = self._next()
        try:
            with self._clients[chosen].stream(method, path, **sent) as received:
                answer = WholeAnswer(received)
        except HttpError:
            self._is_out[chosen] = True
            raise
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            self._is_out[chosen] = True
        self._receipts.answered(segments, answer.status_code, answer.content)
        yield answer

    def _probe(self, number: int, url: str) -> None:
        """Ask one collector whether it is ready, until the end."""
        with Client(url, seconds=_PROBE_TIMEOUT_SECONDS) as client:
            while not self._closing.wait(_PROBE_SECONDS):
                try:
                    answer = client.get("/readyz")
                    self._is_out[number] = answer.status_code != HTTPStatus.OK
                except HttpError:
                    self._is_out[number] = True

    def _next(self) -> int:
        """Return the index of the next ready URL; the next one if all have failed."""
        self._turn += 1
        turns = [(self._turn + more) % len(self._clients) for more in range(len(self._clients))]
        return next((turn for turn in turns if not self._is_out[turn]), turns[0])

    def close(self) -> None:
        """Ask no more, and close all connections."""
        self._closing.set()
        for probe in self._probes:
            probe.join()
        for client in self._clients:
            client.close()
        super().close()


def main(words: list[str]) -> int:
    """Simulate, write receipts and report; exit 1 unless all segments were acknowledged."""
    parser = argparse.ArgumentParser()
    simulate.add_arguments(parser)
    parser.add_argument("--receipts", type=Path, required=True)
    parser.add_argument("--also", action="append", default=[])
    arguments = parser.parse_args(words)
    receipts = Receipts(arguments.receipts)
    client = LoadBalancer([arguments.collector, *arguments.also], receipts)
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
