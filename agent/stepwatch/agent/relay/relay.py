"""Sends spooled segments until the collector has acknowledged each; backs off while it cannot."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from stepwatch.agent.spool import Spool

logger = logging.getLogger(__name__)

BATCH = 64
"""Segments per request."""
_WORDS = ("accepted", "duplicate", "rejected")
_MOST_REASONS = 100
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 15.0


Verdict = tuple[str, str]
"""What the collector says of one segment, and why."""


@dataclass
class Relay:
    """Moves segments from `spool` to the collector behind `client`."""

    spool: Spool
    client: httpx.Client
    failures: int = 0
    refused: int = 0
    _delay: float = 0.0
    _down: bool = False
    _reasons: set[str] = field(default_factory=set)

    def drain(self, wait: Callable[[float], bool]) -> None:
        """Send everything there is; `wait(seconds)` sleeps and returns True to give up."""
        while len(self.spool):
            delay = self.send_once()
            if delay and wait(delay):
                return

    def send_once(self) -> float:
        """Send one batch; returns the seconds to wait before the next try, 0 after success."""
        batch = self.spool.oldest(BATCH)
        if not batch:
            return 0.0
        try:
            body = b"".join(data for _, data in batch)
            response = self.client.post("/v1/segments", content=body)
        except httpx.HTTPError as error:
            return self._back_off(f"{type(error).__name__}: {error}", None)
        if response.status_code != 200:
            reason = f"HTTP {response.status_code}: {response.text[:200]}"
            return self._back_off(reason, response.headers.get("retry-after"))
        try:
            return self._acknowledge(batch, _verdicts(response, len(batch)))
        except (ValueError, OSError) as error:
            return self._back_off(str(error), None)

    def _acknowledge(self, batch: list[tuple[int, bytes]], verdicts: list[Verdict]) -> float:
        refused = {
            sequence: reason
            for (sequence, _), (verdict, reason) in zip(batch, verdicts, strict=True)
            if verdict == "rejected"
        }
        self.spool.acknowledge(batch, refused)
        self._report(refused)
        if self._down:
            logger.info("the collector answers again")
        self._down, self._delay = False, 0.0
        return 0.0

    def _report(self, reasons: dict[int, str]) -> None:
        self.refused += len(reasons)
        for sequence, reason in reasons.items():
            if reason not in self._reasons and len(self._reasons) < _MOST_REASONS:
                self._reasons.add(reason)
                logger.warning(
                    "the collector refused segment %d: %s; it is kept aside", sequence, reason
                )

    def _back_off(self, reason: str, retry_after: str | None) -> float:
        self.failures += 1
        if not self._down:
            logger.warning("the collector refuses segments or is away (%s); spooling", reason)
        self._down = True
        self._delay = min(max(self._delay * 2, _FIRST_DELAY), _LONGEST_DELAY)
        known = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
        asked = float(retry_after or 0) if known else 0.0
        return max(min(asked, 60.0), self._delay * random.uniform(0.5, 1.0))


def _verdicts(response: httpx.Response, expected: int) -> list[Verdict]:
    """Verdicts of an answer.

    Raises:
        ValueError: it is not JSON, or not one verdict for each segment: nothing is acknowledged.
    """
    document = response.json()
    found = document.get("verdicts") if isinstance(document, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError("the answer is not a collector's; check --collector")
    if len(found) != expected:
        raise ValueError(f"{len(found)} verdicts for {expected} segments")
    verdicts = [(str(item.get("verdict")), str(item.get("reason"))) for item in found]
    unknown = next((word for word, _ in verdicts if word not in _WORDS), None)
    if unknown is not None:
        raise ValueError(f"the collector answers {unknown!r}; update the older of the two")
    return verdicts
