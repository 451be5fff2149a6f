"""Asks ranks to profile the same steps, and fetches their traces.

A rank may end, hang, refuse or send anything: each has its own outcome, with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from stepwatch.agent.rings.processes import is_process_of
from stepwatch.agent.stalls import server
from stepwatch.signals.blackbox import Identity
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.phrases import file_problem
from stepwatch.signals.profiles import (
    ASK_HANDLER,
    FETCHED_HANDLER,
    MAX_REASON,
    MAX_TRACE_BYTES,
    MOST_SECONDS,
    RESULT_HANDLER,
    ProfileState,
)

FETCH_SECONDS = 20.0
"""A rank packs a trace and trains meanwhile: its answers are slow."""
POLL_SECONDS = 0.5
LEAD_SECONDS = 2.0
"""Seconds from the request to the first profiled step: every rank has the request by then."""
_REPORT_SECONDS = 2.0
"""Seconds before the deadline at which a rank that has not begun fails, and says why."""
_GZIP = b"\x1f\x8b"
_WAITING = (ProfileState.PENDING, ProfileState.RUNNING, ProfileState.DONE)

Wait = Callable[[float], bool]
"""Waits for seconds; returns True if the caller wants to stop."""


class RankServer(NamedTuple):
    """A rank's worker server: its socket, and the ring that names it.

    `owner` is the ring owner's user id, `step` the rank's current step.
    """

    identity: Identity
    owner: int
    socket: Path
    step: int


class RankRequest(NamedTuple):
    """Profile `steps` steps from step `first`; `name` tells requests apart."""

    name: str
    first: int
    steps: int


class Outcome(NamedTuple):
    """One rank's packed trace, or the reason why there is none."""

    rank: int
    trace: bytes = b""
    reason: str = ""


def first_step(ranks: Iterable[RankServer], step_s: float) -> int:
    """Return a step that begins after every rank has its request; `step_s` is a step's time."""
    lead = 2 + (round(LEAD_SECONDS / step_s) if step_s > 0 else 0)
    return max((rank.step for rank in ranks), default=0) + lead


def profile_ranks(
    ranks: Sequence[RankServer],
    request: RankRequest,
    *,
    seconds: float,
    clock: Clock,
    wait: Wait,
) -> list[Outcome]:
    """Have `ranks` profile the same steps; return their traces.

    It gives up after `seconds`, or when `wait` returns True.
    """
    name = request.name
    outcomes: dict[int, Outcome] = {}
    waiting = []
    for rank in ranks:
        reason = _ask(rank, request, seconds)
        if reason:
            outcomes[rank.identity.rank] = Outcome(rank.identity.rank, reason=reason)
        else:
            waiting.append(rank)
    until_ns = clock.monotonic_ns() + round(seconds * NANOSECONDS)
    while waiting and not wait(POLL_SECONDS):
        for outcome in _fetched(waiting, name):
            outcomes[outcome.rank] = outcome
        waiting = [rank for rank in waiting if rank.identity.rank not in outcomes]
        if clock.monotonic_ns() > until_ns:
            break
    for rank in waiting:
        late = f"no trace within {seconds:.0f} s: the rank may be stalled"
        outcomes[rank.identity.rank] = Outcome(rank.identity.rank, reason=late)
    return [outcomes[rank] for rank in sorted(outcomes)]


def _ask(rank: RankServer, request: RankRequest, seconds: float) -> str:
    """Ask one rank to begin within `seconds`; return the reason if it does not accept."""
    within_s = min(max(round(seconds - _REPORT_SECONDS), 1), MOST_SECONDS)
    query = {**request._asdict(), "seconds": within_s}
    if rank.step >= request.first:  # it would profile other steps than the other rank
        return f"the request came after step {request.first} had begun: ask again"
    try:
        answer = _state(server.ask(rank.socket, _call(ASK_HANDLER, query), rank.owner))
    except server.UnknownHandlerError:
        return "its hooks or its torch cannot profile: update stepwatch in the trainer"
    except (OSError, ValueError) as error:
        return f"it did not answer: {file_problem(error)}"
    return "" if answer.get("state") in _WAITING else _reason(answer)


def _fetched(ranks: Iterable[RankServer], name: str) -> Iterator[Outcome]:
    """Yield the outcomes of ranks that have ended their profile."""
    for rank in ranks:
        number = rank.identity.rank
        query = _call(RESULT_HANDLER, {"name": name})
        try:
            body = server.ask(
                rank.socket, query, rank.owner, seconds=FETCH_SECONDS, most=MAX_TRACE_BYTES
            )
            if body[:2] == _GZIP:
                _release(rank, name)
                yield Outcome(number, body)
                continue
            answer = _state(body)
        except (OSError, ValueError) as error:
            if not is_process_of(rank.owner, rank.identity.pid, rank.identity.process_start):
                yield Outcome(number, reason="the rank ended")
            elif isinstance(error, ValueError):
                yield Outcome(number, reason=f"it did not answer: {error}"[:MAX_REASON])
            continue
        if answer.get("state") not in _WAITING:
            yield Outcome(number, reason=_reason(answer))


def _release(rank: RankServer, name: str) -> None:
    try:
        server.ask(rank.socket, _call(FETCHED_HANDLER, {"name": name}), rank.owner)
    except (OSError, ValueError):
        return  # the next request releases it, or the rank's end


def _call(handler: str, query: dict[str, Any]) -> str:
    return f"{handler}?{urlencode(query)}"


def _state(body: bytes) -> dict[str, Any]:
    """Return a rank's answer.

    Raises:
        ValueError: it is none.
    """
    try:
        answer = json.loads(body)
    except RecursionError as error:
        raise ValueError("its answer is not JSON") from error
    if not isinstance(answer, dict):
        raise ValueError("its answer is not one of stepwatch's hooks")
    return answer


def _reason(answer: dict[str, Any]) -> str:
    return str(answer.get("reason") or answer.get("state") or "it gave no reason")[:MAX_REASON]
