"""Routes for incidents with their response state, and for silences."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stepwatch.collector.incidents.states import OPEN
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store.profiles import Request as ProfileRequest
from stepwatch.collector.store.response import Note, Silence, response_of
from stepwatch.collector.store.response.silences import covering
from stepwatch.collector.web.access.roles import READERS
from stepwatch.collector.web.answering.tagged import tagged
from stepwatch.collector.web.documents import encoded
from stepwatch.signals.errors import StepwatchError

from . import asked
from .profiled import with_profiles

_LATEST_S = 9e9
"""In nanoseconds it still fits the databases' integers."""
NO_SILENCE = "no such silence; `stepwatch silence --list` shows those in force"
NO_INCIDENT = "no such incident; `stepwatch incidents` lists them"
Handler = Callable[[Request], Awaitable[Response]]


def with_responses(
    incidents: Iterable[dict[str, Any]],
    notes: Mapping[str, list[Note]],
    silences: Iterable[Silence],
    profiles: Iterable[ProfileRequest],
) -> list[dict[str, Any]]:
    """Return incident documents, each with its response state as `response`.

    An open incident also has `silenced`: the silence that holds its pages, or null. `profiles` are
    newest first: the one about an incident's rank is its first evidence.
    """
    in_force = list(silences)

    def response(incident: dict[str, Any]) -> dict[str, Any]:
        silence = covering(in_force, incident) if incident["state"] == OPEN else None
        silenced_by = None if silence is None else silence._asdict()
        return {**response_of(notes.get(incident["id"], ())), "silenced": silenced_by}

    return [
        {**incident, "response": response(incident)}
        for incident in with_profiles(incidents, profiles)
    ]


class ResponseApi:
    """The handlers; read access needs a reader's token, changes need an administrator's.

    An ingest token may only count the incidents per attempt of its own job.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._store = service.store

    def routes(self) -> list[Route]:
        """Return the routes by path and method."""
        return [
            Route("/v1/incidents", self.incidents),
            Route("/v1/incidents/{id}", self.incident),
            Route("/v1/incidents/{id}/notes", refusing(self.add_note), methods=["POST"]),
            Route("/v1/silences", refusing(self.silences), methods=["GET"]),
            Route("/v1/silences", refusing(self.add_silence), methods=["POST"]),
            Route("/v1/silences/{id}", refusing(self.expire), methods=["DELETE"]),
        ]

    async def incidents(self, request: Request) -> Response:
        """Serve the newest incidents.

        `?job=` selects one job, `?state=open` the open ones, `?node=` those that name a node.

        An agent's token gets only their attempts, and 403 for a job that its node does not run.
        """
        job, state = request.query_params.get("job"), request.query_params.get("state")
        if not getattr(request.state, "roles", READERS) & READERS:
            return await self._counted(request, job, state)

        node = request.query_params.get("node")

        def read_incidents() -> list[dict[str, Any]]:
            newest = self._store.incidents.newest(job, state)
            chosen = [item for item in newest if node is None or item.get("node") == node]
            return self._with_responses(chosen)

        content = encoded({"incidents": await run_in_threadpool(read_incidents)})
        return tagged(request, content, content)

    async def _counted(self, request: Request, job: str | None, state: str | None) -> Response:
        node = request.state.node
        if not job:
            return _problem(403, "a token for sending learns of one job at a time: give job=NAME")
        if node and not await run_in_threadpool(self._service.runs_on, job, node):
            return _problem(403, f"this token is bound to node {node}, which runs no rank of {job}")
        incidents = await run_in_threadpool(self._store.incidents.newest, job, state)
        return _json({"incidents": [{"attempt": incident["attempt"]} for incident in incidents]})

    async def incident(self, request: Request) -> Response:
        """Serve one incident."""
        incident = await run_in_threadpool(self._incident, request.path_params["id"])
        if incident is None:
            return _problem(404, NO_INCIDENT)
        content = encoded(incident)
        return tagged(request, content, content)

    async def add_note(self, request: Request) -> Response:
        """Add a note to an incident and answer with the incident.

        Only detectors change its state.
        """
        identity = request.path_params["id"]
        event, author, text = asked.wanted_note(await sent_document(request))

        def noted() -> dict[str, Any] | None:
            incident = self._store.incidents.one(identity)
            if incident is None:
                return None
            self._store.notes.add(identity, incident["job"], event, author, text)
            return self._incident(identity)

        document = await run_in_threadpool(noted)
        return _json(document) if document else _problem(404, NO_INCIDENT)

    async def silences(self, request: Request) -> Response:
        """Serve the active silences.

        With `?from=` and `?until=` (Unix seconds), those active then.
        """
        query, store = request.query_params, self._store.silences
        if not query:
            return _json({"silences": _documents(await run_in_threadpool(store.in_force))})
        moments = [_moment(query.get(key)) for key in ("from", "until")]
        silences = await run_in_threadpool(store.between, *moments)
        return _json({"silences": _documents(silences)})

    async def add_silence(self, request: Request) -> Response:
        """Begin a silence and answer with it."""
        wanted = asked.wanted_silence(await sent_document(request))
        silence = await run_in_threadpool(self._store.silences.add, wanted)
        return _json(silence._asdict())

    async def expire(self, request: Request) -> Response:
        """End a silence now and answer with it. The body names the author."""
        author = asked.author_of(await sent_document(request))
        identity = request.path_params["id"]
        ended = await run_in_threadpool(self._store.silences.expire, identity, author)
        return _json(ended._asdict()) if ended else _problem(404, NO_SILENCE)

    def _incident(self, identity: str) -> dict[str, Any] | None:
        incident = self._store.incidents.one(identity)
        return None if incident is None else self._with_responses([incident])[0]

    def _with_responses(self, incidents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        store, jobs = self._store, {incident["job"] for incident in incidents}
        notes = store.notes.of_incidents([incident["id"] for incident in incidents])
        silences, profiles = store.silences.in_force(), store.profiles.newest(jobs)
        return with_responses(incidents, notes, silences, profiles)


def refusing(handler: Handler) -> Handler:
    """Wrap a handler to turn errors into answers: 400 invalid, 409 refused now, 415 not JSON."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return _problem(400, "the request ended early")
        except asked.MediaTypeError as error:
            return _problem(415, str(error))
        except ValueError as error:
            return _problem(400, str(error))
        except StepwatchError as error:
            return _problem(409, str(error))

    return answer


async def sent_document(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body, at most `asked.MAX_BYTES`.

    `Readers` waited for all of it.
    """
    asked.check_media_type(request.headers.get("content-type", ""))
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > asked.MAX_BYTES:
            raise ValueError(f"send at most {asked.MAX_BYTES} bytes")
    return asked.document_of(body)


def _moment(text: str | None) -> float:
    try:
        moment = float(text or "")
    except ValueError:
        moment = -1.0
    if not 0 <= moment <= _LATEST_S:
        raise ValueError("give from and until, in Unix seconds")
    return moment


def _documents(silences: Iterable[Silence]) -> list[dict[str, Any]]:
    return [silence._asdict() for silence in silences]


def _json(document: Any) -> Response:
    return Response(encoded(document), media_type="application/json")


def _problem(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
