"""Routes for requested profiles and their traces."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store.profiles import Request as ProfileRequest
from stepwatch.collector.web.access.gate import NODE, Refusals
from stepwatch.collector.web.documents import encoded
from stepwatch.collector.web.intake.bodies import (
    BODY_SECONDS,
    Bodies,
    NoMemoryError,
    TooLargeError,
    TooSlowError,
)
from stepwatch.collector.web.response.asked import text_of, without_unknown_keys
from stepwatch.collector.web.response.routes import refusing, sent_document
from stepwatch.signals.errors import StoreError
from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.profiles import MAX_REASON, MAX_TRACE_BYTES, MOST_STEPS

from .placement import Asked, choose, read_placement

GZIP = "application/gzip"
_MAGIC = b"\x1f\x8b"
_MAX_RANK = 0xFFFFFFFF
_NO_REQUEST = "no such profile; /v1/jobs/JOB/profiles lists a job's"


class ProfilesApi:
    """The handlers: an administrator requests profiles, agents send traces, readers fetch them."""

    def __init__(self, service: Service, bodies: Bodies, refusals: Refusals) -> None:
        self._service, self._bodies, self._refusals = service, bodies, refusals
        self._profiles = service.store.profiles

    def routes(self) -> list[Route]:
        """Return the routes by path and method."""
        traces = "/v1/profiles/{profile}/traces/{rank}"
        return [
            Route("/v1/jobs/{job}/profiles", self.profiles, methods=["GET"]),
            Route("/v1/jobs/{job}/profiles", refusing(self.request), methods=["POST"]),
            Route(traces, self.trace, methods=["GET"]),
            Route(traces, refusing(self.receive), methods=["POST"]),
        ]

    async def profiles(self, request: Request) -> Response:
        """Serve a job's requested profiles, newest first, with comparison and traces."""
        requests = await run_in_threadpool(self._profiles.of_job, request.path_params["job"])
        return _json({"profiles": [_document(asked) for asked in requests]})

    async def request(self, request: Request) -> Response:
        """Request a profile of `rank` and `peer` (the nearest of its stage) for `steps` steps.

        Errors: 404 no such job; 409 the ranks cannot be profiled now, one is in progress, or too
        many in a day.
        """
        job, asked = request.path_params["job"], _asked(await sent_document(request))
        placement = await run_in_threadpool(read_placement, self._service, job)
        if placement is None:
            return _problem(404, "no such job; /v1/jobs lists them")
        wanted = choose(job, placement, asked, self._service.asked_pace.seconds)
        return _json(_document(await run_in_threadpool(self._profiles.add, wanted)))

    async def trace(self, request: Request) -> Response:
        """Serve a rank's trace as a gzip file, which Perfetto opens; 404 without one."""
        identity, rank = _trace_of(request)
        trace = await run_in_threadpool(self._profiles.trace, identity, rank)
        if trace is None:
            return _problem(404, "no such trace; /v1/jobs/JOB/profiles lists a job's")
        name = f'attachment; filename="{identity}-rank{rank}.json.gz"'
        return Response(trace, media_type=GZIP, headers={"content-disposition": name})

    async def receive(self, request: Request) -> Response:
        """Store a rank's gzip trace, or with `?reason=` why it has none.

        Errors: 403 another node's rank, 404 no such request, 408 too slow, 409 closed or sent
        before, 413 too large, 415 no gzip, 429 too many bytes.
        """
        identity, rank = _trace_of(request)
        asked = await run_in_threadpool(self._profiles.get, identity)
        if asked is None:
            return _problem(404, _NO_REQUEST)
        node, sender = asked.node_of(rank), getattr(request.state, "node", "")
        if sender and node != sender:
            self._refusals.add(NODE)
            text = f"this token is bound to node {sender}, which does not run rank {rank}"
            return _problem(403, text)
        if not asked.is_open or node is None or any(trace.rank == rank for trace in asked.traces):
            raise StoreError("the request takes no trace of this rank: it is closed, or has one")
        reason = plain_line(request.query_params.get("reason", ""))[:MAX_REASON]
        if reason:
            return await self._store(asked, rank, b"", reason)
        if request.headers.get("content-type", "").strip().lower() != GZIP:
            return _problem(415, f"send a trace as {GZIP}")
        return await self._receive_trace(request, asked, rank)

    async def _receive_trace(self, request: Request, asked: ProfileRequest, rank: int) -> Response:
        try:
            async with self._bodies.reading(request, MAX_TRACE_BYTES) as body:
                if body[:2] != _MAGIC:
                    return _problem(415, "the trace is no gzip file")
                return await self._store(asked, rank, body, "")
        except ClientDisconnect:
            return _problem(400, "the request ended early")
        except TooLargeError:
            return _problem(413, f"send at most {MAX_TRACE_BYTES} bytes")
        except TooSlowError:
            return _problem(408, f"the body did not arrive within {BODY_SECONDS:.0f} s")
        except NoMemoryError:
            return _problem(429, "too many bytes are being sent", {"retry-after": "5"})

    async def _store(self, asked: ProfileRequest, rank: int, body: bytes, reason: str) -> Response:
        try:
            is_pair = await run_in_threadpool(
                self._profiles.add_trace, asked.id, rank, body, reason
            )
        except sa.exc.IntegrityError as error:
            raise StoreError(f"rank {rank} has answered the request before") from error
        if is_pair:
            self._service.comparisons.begin(asked)
        return _json({"id": asked.id, "rank": rank})


def _trace_of(request: Request) -> tuple[str, int]:
    """Return the profile and the rank in a path; no profile has rank -1."""
    text = request.path_params["rank"]
    is_rank = text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_RANK))
    return request.path_params["profile"], int(text) if is_rank else -1


def _asked(document: dict[str, Any]) -> Asked:
    """Return the requested profile.

    Raises:
        ValueError: a field is invalid; the message is the answer.
    """
    without_unknown_keys(document, ("rank", "peer", "steps", "by"))
    peer, steps = document.get("peer"), document.get("steps", 3)
    for name, rank in (("rank", document.get("rank")), ("peer", 0 if peer is None else peer)):
        if type(rank) is not int or not 0 <= rank <= _MAX_RANK:
            raise ValueError(f"{name} must be a rank")
    if type(steps) is not int or not 1 <= steps <= MOST_STEPS:
        raise ValueError(f"steps must be 1 to {MOST_STEPS}")
    return Asked(document["rank"], peer, steps, text_of(document, "by"))


def _document(asked: ProfileRequest) -> dict[str, Any]:
    wanted = asked.wanted._asdict()
    return {
        "id": asked.id,
        **wanted,
        "state": asked.state.value,
        "requested_at": asked.requested_at,
        "sentence": asked.sentence,
        "comparison": asked.comparison,
        "traces": [trace._asdict() for trace in asked.traces],
    }


def _json(document: Any) -> Response:
    return Response(encoded(document), media_type="application/json")


def _problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status_code=status, headers=headers)
