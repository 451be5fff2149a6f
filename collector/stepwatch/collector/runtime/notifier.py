"""Delivers notices from the outbox to each receiver, with retries."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import sqlalchemy as sa

from stepwatch.collector.incidents.notices import OPENED, RESOLVED, Recipients
from stepwatch.collector.runtime.paging.deciding import Decision, Facts, decide
from stepwatch.collector.runtime.paging.forgetting import BEFORE_THE_END_SECONDS, Forgetting
from stepwatch.collector.runtime.paging.receivers import Alertmanager, Answer, Receiver
from stepwatch.collector.runtime.paging.sending import ANSWER_SECONDS, Post, post
from stepwatch.collector.state.live import CONTAINED
from stepwatch.collector.store.incidents.outbox import CLAIMED_SECONDS, REFUSED, Claimed, Outbox
from stepwatch.collector.store.outages.outage import Outage
from stepwatch.collector.store.response import Notes, Silences, response_of
from stepwatch.collector.store.response.notes import ACKNOWLEDGED
from stepwatch.collector.store.response.pages import Pages

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
AT_ONCE = 20
"""Maximum claim: all claimed notices are sent before other collectors may try."""
AT_ONCE_SUMMARISED = 500
SENDING_SECONDS = CLAIMED_SECONDS - 4 * ANSWER_SECONDS
STORM_AT, STORM_SECONDS = 10, 60.0
"""Storm limit: a pager gets at most this many single pages in this time, then one summary.

Incidents that open within a minute after a summary wait for its end, and are summarised, too, if
there are many: ten messages a minute are unreadable.
"""
HELD_BACK_SECONDS = 10.0
DELIVERED, FAILED = "delivered", "failed"
"""Outcomes of a try."""


class Notifier:
    """Sends notices to one receiver.

    A permanently refused notice is given up. After any other failure it is retried with backoff,
    and not before the receiver's `Retry-After`. `sent` counts tries by outcome.
    """

    def __init__(
        self,
        outbox: Outbox,
        receiver: Receiver,
        post: Post = post,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self.sent: Counter[str] = Counter({DELIVERED: 0, FAILED: 0})
        self.receiver = receiver
        self._outbox = outbox
        self._post = post
        self._failing = False
        self._reading = Outage("read due notices")
        self._pages = Pages(outbox.engine, receiver.name, outbox.clock)
        self._silences = Silences(outbox.engine, outbox.clock)
        self._notes = Notes(outbox.engine, outbox.clock)
        self._paused_until = 0.0
        """Monotonic time until which the receiver accepts nothing."""
        self._forgetting = (
            Forgetting(receiver, self._pages, post, monotonic)
            if isinstance(receiver, Alertmanager)
            else None
        )

    def run(self, stopping: threading.Event) -> None:
        """Deliver until `stopping` is set."""
        while not stopping.wait(POLL_SECONDS):
            self.advance(stopping)

    def advance(self, stopping: threading.Event | None = None) -> None:
        """Send due notices, as time permits until `stopping` is set."""
        try:
            if self._monotonic() >= self._paused_until:
                self._send_due(stopping or threading.Event())
                if self._forgetting is not None:
                    self._forgetting.remind()
        except sa.exc.SQLAlchemyError as error:
            self._reading.noted(error)
            return
        self._reading.over()

    def _send_due(self, stopping: threading.Event) -> None:
        limit = AT_ONCE_SUMMARISED if self.receiver.summarises else AT_ONCE
        claimed = self._outbox.claim(limit, self.receiver.name)
        if not claimed:
            return
        until = self._monotonic() + SENDING_SECONDS
        facts = self._facts(claimed)
        records = self.receiver.records
        decided = [(notice, decide(notice, facts, records=records)) for notice in claimed]
        remaining = deque(self._without_storm(decided))
        while remaining and not stopping.is_set() and self._monotonic() <= until:
            self._follow(*remaining.popleft())
        self._outbox.release(notice for notice, _ in remaining)

    def _facts(self, claimed: Sequence[Claimed]) -> Facts:
        incidents = {notice.incident for notice in claimed if notice.incident}
        named = {str(notice.document.get("incident", {}).get("id", "")) for notice in claimed}
        notes = self._notes.of_incidents(incidents)
        acknowledged = {
            name
            for name, incident_notes in notes.items()
            if response_of(incident_notes)[ACKNOWLEDGED]
        }
        return Facts(
            self._pages.now(),
            self._silences.in_force(),
            self._pages.states(named),
            self._pages.related(incidents),
            frozenset(acknowledged),
        )

    def _without_storm(
        self, decided: Sequence[tuple[Claimed, Decision]]
    ) -> list[tuple[Claimed, Decision]]:
        """Return the decisions to follow; too many opening pages are summarised and removed."""
        fresh = [notice for notice, decision in decided if _is_beginning(notice, decision)]
        if not self.receiver.summarises or not fresh:
            return list(decided)
        sent, had_storm = self._pages.sent_since(STORM_SECONDS)
        if had_storm:
            for notice in fresh:
                self._outbox.put_off(notice, HELD_BACK_SECONDS)
        elif sent + len(fresh) > STORM_AT:
            self._pages.begin_storm(fresh)
            logger.warning("%s: %d incidents in one message", self.receiver.name, len(fresh))
        else:
            return list(decided)
        fresh_keys = {notice.key for notice in fresh}
        return [(notice, decision) for notice, decision in decided if notice.key not in fresh_keys]

    def _follow(self, notice: Claimed, decision: Decision) -> None:
        if decision.document is not None:
            self._deliver_or_wait(notice, decision.document)
        elif decision.give_up:
            self._outbox.give_up(notice, decision.give_up)
            logger.warning("notice %s is not sent: %s", notice.key, decision.give_up)
        elif decision.storm:
            self._pages.end_of(decision.storm)  # first: a delivered notice is never examined again
            self._outbox.delivered(notice.key)
        else:
            self._outbox.put_off(notice, decision.wait, silenced=decision.silenced)

    def _deliver_or_wait(self, notice: Claimed, document: dict[str, Any]) -> None:
        """Send the notice, unless the receiver is paused or has lost the alert it resolves."""
        patience = self._paused_until - self._monotonic()
        if patience > 0:
            self._outbox.put_off(notice, patience)
        elif self._has_forgotten(document):
            self._outbox.put_off(notice, BEFORE_THE_END_SECONDS)
        else:
            self._deliver(notice, document)

    def _has_forgotten(self, document: dict[str, Any]) -> bool:
        if self._forgetting is None or document.get("transition") != RESOLVED:
            return False
        return self._forgetting.has_forgotten(document)

    def _deliver(self, notice: Claimed, document: dict[str, Any]) -> None:
        answer, reason = Answer(0), ""
        try:
            answer = self._post(self.receiver.outgoing(notice.key, document))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = type(error).__name__  # the message may contain the URL, and so a secret
        except CONTAINED as error:  # one malformed notice must not block all others
            reason = type(error).__name__
        if self.receiver.takes(answer):
            self._failing = False
            self.sent[DELIVERED] += 1
            self._outbox.delivered(notice.key)
            return
        self.sent[FAILED] += 1
        for_good = self.receiver.refuses(answer)
        if for_good:
            self._outbox.give_up(notice, REFUSED)
        else:
            self._paused_until = self._monotonic() + answer.retry_after
            self._outbox.not_delivered(notice, answer.retry_after)
        if for_good or not self._failing:
            then = "it is given up" if for_good else "it is tried again"
            logger.error("notice %s: %s; %s", notice.key, reason or f"HTTP {answer.status}", then)
        self._failing = True


class Notifiers:
    """One `Notifier` per receiver: a slow receiver does not delay the others.

    `counts` holds the stored notices by state, `given_up` the given up ones by reason, and
    `oldest_seconds` the oldest waiting notice's age by receiver. All are empty while the store does
    not answer.
    """

    def __init__(self, outbox: Outbox, receivers: Sequence[Receiver], post: Post = post) -> None:
        self.counts: dict[str, int] = {}
        self.given_up: dict[str, int] = {}
        self.oldest_seconds: dict[str, float] = {}
        self.silence_seconds: float | None = None
        """Age of the oldest active silence, 0 without one, None if unknown."""
        self._outbox = outbox
        self._silences = Silences(outbox.engine, outbox.clock)
        self._notifiers = [Notifier(outbox, receiver, post) for receiver in receivers]
        self._reading = Outage("count notices")

    @property
    def receivers(self) -> tuple[str, ...]:
        """The receivers' names."""
        return tuple(notifier.receiver.name for notifier in self._notifiers)

    @property
    def recipients(self) -> Recipients:
        """The receivers' names by what they get."""
        named = [notifier.receiver for notifier in self._notifiers]
        return Recipients(
            tuple(receiver.name for receiver in named if not receiver.records),
            tuple(receiver.name for receiver in named if receiver.records),
        )

    @property
    def sent(self) -> dict[tuple[str, str], int]:
        """Tries by receiver and outcome."""
        outcomes = [
            (notifier, outcome) for notifier in self._notifiers for outcome in (DELIVERED, FAILED)
        ]
        return {
            (notifier.receiver.name, outcome): notifier.sent[outcome]
            for notifier, outcome in outcomes
        }

    def run(self, stopping: threading.Event) -> None:
        """Deliver until `stopping` is set."""
        threads = [_started(notifier, stopping) for notifier in self._notifiers]
        while not stopping.wait(POLL_SECONDS):
            self._count()
            for index, thread in enumerate(threads):
                if not thread.is_alive() and not stopping.is_set():
                    name = self.receivers[index]
                    logger.error("receiver %s: a defect of stepwatch ended its sender", name)
                    threads[index] = _started(self._notifiers[index], stopping)
        for thread in threads:
            thread.join()

    def advance(self) -> None:
        """Send due notices to each receiver, one receiver after the other."""
        for notifier in self._notifiers:
            notifier.advance()
        self._count()

    def _count(self) -> None:
        try:
            self.counts, self.given_up = self._outbox.counts(), self._outbox.given_up()
            ages = self._outbox.oldest_seconds()
            self.silence_seconds = self._silences.oldest_seconds()
        except sa.exc.SQLAlchemyError as error:
            self.counts, self.given_up, self.oldest_seconds = {}, {}, {}
            self.silence_seconds = None
            self._reading.noted(error)
            return
        self.oldest_seconds = {name: ages.get(name, 0.0) for name in self.receivers}
        self._reading.over()


def _started(notifier: Notifier, stopping: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=notifier.run, args=(stopping,), daemon=True)
    thread.start()
    return thread


def _is_beginning(notice: Claimed, decision: Decision) -> bool:
    """Return whether a notice opens a page and has not been tried yet.

    Storm notices do not count.
    """
    is_first = notice.tries == 1 and not notice.key.startswith("storm:")
    return (
        decision.document is not None and notice.document.get("transition") == OPENED and is_first
    )
