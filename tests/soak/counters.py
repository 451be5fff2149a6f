"""Counters of `/metrics` through a run: none may fall in a process, of a job also not over two."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families

from .processes import Collector

EVERY_SECONDS = 2.0
_COUNTS = ("counter", "histogram")


class Fall(NamedTuple):
    """A counter that fell, between two reads of one process (`life`) or over a restart."""

    series: str
    previous: float
    current: float
    within_a_life: bool


class Falls:
    """Compares each reading with the previous one."""

    def __init__(self) -> None:
        self.drops: list[Fall] = []
        self.readings = 0
        self._last_values: dict[str, tuple[int, float]] = {}

    @property
    def series(self) -> int:
        """Number of series so far."""
        return len(self._last_values)

    def read(self, text: str, life: int) -> None:
        """Read one answer of `/metrics` of the `life`-th process.

        A process's own counters start at zero; a job's counters survive a restart.
        """
        self.readings += 1
        for series, value, of_job in counter_samples(text):
            before_life, previous = self._last_values.get(series, (life, value))
            if value < previous and (of_job or before_life == life):
                self.drops.append(Fall(series, previous, value, before_life == life))
            self._last_values[series] = (life, value)


def counter_samples(text: str) -> Iterator[tuple[str, float, bool]]:
    """(series, value, whether it is about a job) of every sample that only counts up."""
    for family in text_string_to_metric_families(text):
        if family.type not in _COUNTS:
            continue
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
                yield f"{sample.name}{{{labels}}}", sample.value, "job" in sample.labels


class Scraper:
    """Reads `/metrics` of a collector in a thread until it is closed."""

    def __init__(self, collector: Collector) -> None:
        self.falls = Falls()
        self._collector = collector
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        url = f"{self._collector.url}/metrics"
        while not self._stopping.wait(EVERY_SECONDS):
            life = self._collector.lives
            try:
                answer = httpx.get(url, timeout=10.0)
            except httpx.HTTPError:
                continue
            # An answer from before a restart must not count for the process after it.
            if answer.status_code == 200 and life == self._collector.lives:
                self.falls.read(answer.text, life)
