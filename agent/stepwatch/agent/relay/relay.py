"""Sends spooled segments until the collector acknowledges each, and backs off after failures."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from stepwatch.signals import http, wire
from stepwatch.signals.clock import Clock, SystemClock
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.http import Client, HttpError
from stepwatch.signals.presence import AWAY, CONNECTED, CONNECTING
from stepwatch.signals.profiles import NodeRequest

from . import problems
from .answers import Answer, read_answer, read_asked_seconds, read_body
from .batches import Batches
from .formats import Formats, NoCommonFormatError, Outgoing
from .queue import SegmentQueue

logger = logging.getLogger(__name__)

DUPLICATE, REFUSED = "duplicate", "rejected"
DONE = ("accepted", DUPLICATE)
"""Verdicts for a stored segment. `REFUSED` is final. Any other word, such as `unsupported`, means
that the collector cannot read the segment yet.
"""
_OVERLOADED = 429
_OF_NO_SEGMENT = (421, _OVERLOADED)
"""Statuses unrelated to the segments: a wrong host name, or an overloaded collector."""
_MOST_REASONS = 100
_MOST_SAID = 300
"""Maximum characters of a refusal in the log."""
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 15.0
_MOST_SPREAD = 1.5
"""Agents that were refused together come back spread over this multiple of the asked time."""


@dataclass
class Relay:
    """Send segments from `spool` to the collector behind `client`, oldest first.

    A refused segment is moved aside. An unreadable one is held in the spool until the collector
    announces further formats, and so is one that makes every request fail. None blocks later
    segments.
    """

    spool: SegmentQueue
    client: Client
    failures: int = 0
    refused: int = 0
    repeated: int = 0
    """Segments that the collector already had: their first acknowledgement was lost."""
    asked_seconds: float = 0.0
    """Requested seconds between flushes, from the collector's newest answer; 0 for no request."""
    profiles: tuple[NodeRequest, ...] = ()
    """Open profile requests to this node, from the collector's newest answer to segments."""
    formats: Formats = field(default_factory=Formats)
    batches: Batches = field(default_factory=Batches)
    link: str = CONNECTING
    """The newest request's outcome, in `presence` terms."""
    answered_ns: int | None = None
    """Monotonic time of the newest accepted request; None before the first."""
    clock: Clock = field(default_factory=SystemClock)
    problem: problems.Problem | None = None
    """Why the newest request failed; None after a success."""
    _delay: float = 0.0
    _misunderstood: bool = False
    _reasons: set[str] = field(default_factory=set)

    def drain(self, wait: Callable[[float], bool]) -> None:
        """Send all segments; `wait(seconds)` sleeps and returns True to give up."""
        while len(self.spool):
            delay = self.send_once()
            if delay and wait(delay):
                return

    def send_once(self) -> float:
        """Send one batch, and return the seconds until the next try, 0 after success."""
        try:
            outgoing = self._prepare(self.batches.select(self.spool))
        except OSError as error:
            why = f"the spool cannot be read now: {error}"
            return self._back_off(problems.Problem(problems.SPOOL, why), None)
        if not outgoing:
            return 0.0
        try:
            body = b"".join(segment.data for segment in outgoing)
            with self._post(body) as response:
                answer = read_body(response)
            if response.status_code in (200, _OVERLOADED):
                self.asked_seconds = read_asked_seconds(response.headers)
            if response.status_code != 200:
                return self._request_failed(outgoing, response, answer)
            return self._apply(outgoing, read_answer(answer))
        except (HttpError, ValueError, OSError) as error:
            return self._back_off(problems.of_error(error, self.client.address), None)

    def ask_formats(self) -> None:
        """Send an empty request to learn the collector's formats and whether it answers.

        Held segments may wait for this.
        """
        self.link = AWAY
        try:
            with self._post(b"") as response:
                answer = read_body(response)
            if response.status_code == 200:
                self._learn(read_answer(answer))
                self._answered()
            else:
                self._note(_of_answer(response, answer))
        except (HttpError, ValueError, OSError) as error:
            self._note(problems.of_error(error, self.client.address))

    def _post(self, body: bytes) -> AbstractContextManager[http.Answer]:
        headers = {"content-type": wire.MEDIA_TYPE}
        return self.client.stream("POST", "/v1/segments", content=body, headers=headers)

    def _prepare(self, batch: list[tuple[int, bytes]]) -> list[Outgoing]:
        """Convert a batch to formats that the collector reads.

        Other segments leave the queue: held if only the format prevents sending, else quarantined.
        """
        outgoing = []
        for sequence, data in batch:
            try:
                outgoing.append(self.formats.prepare(sequence, data))
            except NoCommonFormatError as error:
                self._hold({sequence: str(error)})
            except SegmentError as error:
                self.spool.discard_damaged(sequence, str(error))
        return outgoing

    def _apply(self, outgoing: list[Outgoing], answer: Answer) -> float:
        understood = all(segment.format in answer.formats for segment in outgoing)
        self._learn(answer)
        if not understood:
            return self._send_again()
        if len(answer.verdicts) != len(outgoing):
            raise ValueError(f"{len(answer.verdicts)} verdicts for {len(outgoing)} segments")
        refused, unread = {}, {}
        for segment, verdict in zip(outgoing, answer.verdicts, strict=True):
            if verdict.word == REFUSED:
                refused[segment.sequence] = verdict.reason
            elif verdict.word not in DONE:
                unread[segment.sequence] = f"{verdict.word}: {verdict.reason}"
        self.repeated += sum(verdict.word == DUPLICATE for verdict in answer.verdicts)
        acknowledged = [segment.sequence for segment in outgoing if segment.sequence not in unread]
        self.spool.acknowledge(acknowledged, refused)
        self._hold(unread)
        self._report(refused)
        self._misunderstood, self._delay = False, 0.0
        self.profiles = answer.profiles
        self._answered()
        self.batches.succeeded()
        return 0.0

    def _answered(self) -> None:
        if self.problem is not None:
            logger.info("the collector answers again")
        self.problem = None
        self.link = CONNECTED
        self.answered_ns = self.clock.monotonic_ns()

    def _request_failed(
        self, outgoing: list[Outgoing], response: http.Answer, answer: bytes
    ) -> float:
        problem = _of_answer(response, answer)
        # A refused token is not a segment's fault.
        innocent = problem.reason == problems.TOKEN or response.status_code in _OF_NO_SEGMENT
        if not innocent and self.batches.failed(len(outgoing)):
            # Held under no formats: any next release tries them again.
            self._hold({segment.sequence: problem.text for segment in outgoing}, announced=())
        return self._back_off(problem, response.headers.get("retry-after"))

    def _learn(self, answer: Answer) -> None:
        if self.formats.learn(answer.formats):
            self.spool.release(answer.formats)

    def _send_again(self) -> float:
        """Resend: a collector that cannot read the format acknowledges nothing."""
        if self._misunderstood:
            reason = "it announces other formats at every answer"
            return self._back_off(problems.Problem(problems.ANSWER, reason), None)
        self._misunderstood = True
        return 0.0

    def retry_failed(self) -> None:
        """Send segments again whose requests failed: the collector may be fixed."""
        try:
            self.spool.release(self.formats.announced or ())
        except OSError as error:
            logger.warning("held segments cannot be released: %s", error)

    def _hold(self, reasons: dict[int, str], announced: Collection[int] | None = None) -> None:
        if reasons and not self.spool.held_segments:
            sequence, reason = next(iter(reasons.items()))
            logger.warning("the collector cannot read segment %d (held): %s", sequence, reason)
        if reasons:
            formats = self.formats.announced or ()
            self.spool.hold(reasons, formats if announced is None else announced)

    def _report(self, reasons: dict[int, str]) -> None:
        self.refused += len(reasons)
        for sequence, reason in reasons.items():
            if reason not in self._reasons and len(self._reasons) < _MOST_REASONS:
                self._reasons.add(reason)
                logger.warning("the collector refused segment %d (kept): %s", sequence, reason)

    def _note(self, problem: problems.Problem) -> None:
        """Record a problem; the log shows it once per reason."""
        if self.problem is None or self.problem.reason != problem.reason:
            reason = " ".join(problem.text.split())
            state = (
                "nothing is sent"
                if problem.reason == problems.SPOOL
                else "the collector refuses segments or is away"
            )
            logger.warning("%s (%s); spooling", state, reason)
        self.problem = problem
        self.link = AWAY

    def _back_off(self, problem: problems.Problem, retry_after: str | None) -> float:
        self.failures += 1
        self._note(problem)
        self._delay = min(max(self._delay * 2, _FIRST_DELAY), _LONGEST_DELAY)
        is_seconds = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
        retry_s = float(retry_after or 0) if is_seconds else 0.0
        spread_s = min(retry_s, 60.0) * random.uniform(1.0, _MOST_SPREAD)
        return max(spread_s, self._delay * random.uniform(0.5, 1.0))


def _of_answer(response: http.Answer, body: bytes) -> problems.Problem:
    try:
        message = str(json.loads(body)["error"])  # the collector's error format
    except (ValueError, TypeError, KeyError, RecursionError):
        message = body[:_MOST_SAID].decode("utf-8", "replace")
    return problems.of_status(response.status_code, message[:_MOST_SAID])
