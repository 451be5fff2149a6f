"""Routes for the fleet's figures, its objectives, and search."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.answering.tagged import tagged
from stepwatch.collector.web.documents import encoded
from stepwatch.collector.web.schema.live import SearchAnswer

from .figures import FleetFigures
from .jobs import JobLines
from .search import MOST_CHARACTERS, Searched, search
from .slos import SloList

MOST_INCIDENTS = 500
"""Newest incidents that are searched."""


class FleetApi:
    """The handlers; requests within a second share a reading of the jobs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.lines = JobLines(service)
        self._figures = FleetFigures(service, self.lines)
        self._slos = SloList(self.lines)

    def routes(self) -> list[Route]:
        """Return the routes by path."""
        return [
            Route("/v1/fleet", self.fleet),
            Route("/v1/slos", self.slos),
            Route("/v1/search", self.search),
        ]

    async def fleet(self, request: Request) -> Response:
        """Serve figures of all jobs: states, devices, goodput and cost today, pages this week."""
        document = await run_in_threadpool(self._figures.read)
        return Response(encoded(document), media_type="application/json")

    async def slos(self, request: Request) -> Response:
        """Serve the objectives of all jobs with their budgets, latest written job first."""
        text = await run_in_threadpool(self._slos.text)
        return tagged(request, text, text)

    async def search(self, request: Request) -> Response:
        """Serve jobs, nodes and recent incidents that `?q=` names, at most twenty of a kind."""
        text = request.query_params.get("q", "").strip()
        if not 0 < len(text) <= MOST_CHARACTERS:
            reason = f"give q, a text of 1 to {MOST_CHARACTERS} characters"
            return JSONResponse({"error": reason}, 400)
        document = await run_in_threadpool(self._searched, text)
        return Response(encoded(document), media_type="application/json")

    def _searched(self, text: str) -> SearchAnswer:
        nodes = sorted(self._service.nodes.fleet().nodes.values(), key=lambda node: node.name)
        incidents = self._service.store.incidents.newest(limit=MOST_INCIDENTS)
        return search(text, Searched(self.lines.read(), nodes, incidents))
