"""HTTP API: receives segments; serves jobs, incidents, metrics and the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.runtime.views import View
from stepwatch.collector.store.profiles import Request as ProfileRequest
from stepwatch.collector.store.response import Note, Silence
from stepwatch.collector.web import job_view, nodes_view, slo_view, withheld_view
from stepwatch.collector.web.access import ANY_NAME, Browsers, Gate, PublicNames, Tokens
from stepwatch.collector.web.access.gate import Refusals
from stepwatch.collector.web.access.plain_paths import PlainPaths
from stepwatch.collector.web.access.readers import Readers
from stepwatch.collector.web.answering.compressed import Compressed
from stepwatch.collector.web.answering.tagged import tagged
from stepwatch.collector.web.connections import Table
from stepwatch.collector.web.documents import (
    CHECKPOINTS,
    COLLECTIVES,
    HEATMAPS,
    LINE,
    METRICS,
    RUN,
    SLIS,
    SLOS,
    SUMMARY,
    WITHOUT_RANKS,
    Texts,
    encoded,
    texts_of,
)
from stepwatch.collector.web.fleet.routes import FleetApi
from stepwatch.collector.web.history import SHARED as SHARED_HISTORY
from stepwatch.collector.web.history import HistoryApi
from stepwatch.collector.web.intake import SegmentsApi
from stepwatch.collector.web.live import Hub, LiveApi
from stepwatch.collector.web.metrics import JobExporter
from stepwatch.collector.web.openapi.route import openapi_document
from stepwatch.collector.web.page import page_routes
from stepwatch.collector.web.profiles import PLACEMENT, ProfilesApi
from stepwatch.collector.web.report_request import report_of
from stepwatch.collector.web.response import ResponseApi, with_responses
from stepwatch.collector.web.runbooks.view import ReadRunbook, relevant, runbook_document
from stepwatch.collector.web.schema.runbook import RunbookAnswer
from stepwatch.collector.web.sweeps import TRIAL, SweepsApi
from stepwatch.signals.errors import StepwatchError

if TYPE_CHECKING:
    from stepwatch.collector.web.otlp.export import JobMetricsSender

_LATEST_S = 1 << 40
_Responses = tuple[dict[str, list[Note]], list[Silence], list[ProfileRequest]]


def make_api(
    service: Service,
    tokens: Callable[[], Tokens] | None = None,
    runbook: ReadRunbook | None = None,
    public: PublicNames = ANY_NAME,
    connections: Table | None = None,
    otlp: JobMetricsSender | None = None,
    hub: Hub | None = None,
) -> Starlette:
    """Return the ASGI application over `service`; with `tokens`, data access requires one.

    `runbook` reads a runbook; without it no runbooks are served. `public` holds the collector's
    host names, `connections` the client connections, `otlp` the sender of job metrics, `hub` the
    event streams.
    """
    api = Api(service, runbook)
    api.register(Table(0) if connections is None else connections)
    hub = hub or Hub(service)
    api.register(hub)
    if otlp is not None:
        api.register(otlp)
    service.shared_views.offer(
        [
            LINE,
            SUMMARY,
            WITHOUT_RANKS,
            COLLECTIVES,
            SLIS,
            SLOS,
            METRICS,
            CHECKPOINTS,
            RUN,
            PLACEMENT,
            TRIAL,
            *HEATMAPS.values(),
            *SHARED_HISTORY,
        ],
        ["line", "job"],
    )
    segments = SegmentsApi(service, api.refusals)
    routes = [
        Route("/v1/segments", segments.receive, methods=["POST"]),
        Route("/v1/jobs", api.jobs),
        Route("/v1/jobs/{job}", api.job),
        Route("/v1/jobs/{job}/heatmap", api.heatmap),
        Route("/v1/jobs/{job}/collectives", api.collectives),
        Route("/v1/jobs/{job}/slis", api.slis),
        Route("/v1/jobs/{job}/slos", api.slos),
        Route("/v1/jobs/{job}/metrics", api.job_metrics),
        Route("/v1/jobs/{job}/checkpoints", api.checkpoints),
        Route("/v1/jobs/{job}/run", api.run),
        *api.fleet.routes(),
        *SweepsApi(service, api.fleet.lines).routes(),
        *LiveApi(hub).routes(),
        *HistoryApi(service).routes(),
        *ResponseApi(service).routes(),
        *ProfilesApi(service, segments.bodies, api.refusals).routes(),
        Route("/v1/nodes", api.nodes),
        Route("/v1/nodes/{node}", api.node),
        Route("/v1/report", api.report),
        Route("/v1/runbooks/{name}", api.runbook),
        Route("/v1/openapi.json", openapi_document),
        Route("/metrics", api.metrics),
        Route("/healthz", api.health),
        Route("/readyz", api.ready),
        *page_routes(),
    ]
    gate = [Middleware(Gate, tokens=tokens, refusals=api.refusals)] if tokens else []
    middleware = [
        Middleware(Browsers, public=public, refusals=api.refusals),
        Middleware(PlainPaths),
        *gate,
        Middleware(Readers),
        Middleware(Compressed),
    ]
    handlers = {sa.exc.SQLAlchemyError: store_gone}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


class Api:
    """The handlers; each reads `service` and answers JSON without NaN."""

    def __init__(self, service: Service, runbook: ReadRunbook | None) -> None:
        self._service = service
        self._runbook = runbook
        self.fleet = FleetApi(service)
        self._registry = CollectorRegistry()
        self._registry.register(JobExporter(service))
        self.refusals = Refusals()
        self.register(self.refusals)

    def register(self, exporter: Refusals | Table | Hub | JobMetricsSender) -> None:
        """Export another collector's metrics."""
        self._registry.register(exporter)

    async def jobs(self, request: Request) -> Response:
        """Serve all jobs, latest written first, then known jobs that are not evaluated."""

        lines = await run_in_threadpool(self.fleet.lines.texts)
        content = b", ".join(line.content for line in lines)
        answer = b'{"jobs": [' + b", ".join(line.answer for line in lines) + b"]}"
        return tagged(request, content, answer)

    async def job(self, request: Request) -> Response:
        """Serve one job, with `?ranks=none` without its first ranks.

        For a job that is not evaluated: its state and the reason.
        """
        name = request.path_params["job"]
        withheld = self._service.withheld().get(name)
        if withheld is not None:
            return _json(await run_in_threadpool(withheld_view.summary, name, withheld))
        ranks = request.query_params.get("ranks", "first")
        if ranks not in job_view.LISTED_RANKS:
            return _problem(400, f"ranks must be one of {', '.join(job_view.LISTED_RANKS)}")
        view = SUMMARY if ranks == "first" else WITHOUT_RANKS
        texts = await run_in_threadpool(self._job_texts, name, view)
        if texts is None:
            return self._unknown(name)
        responses = await run_in_threadpool(self._responses_of, name)
        if responses is None:
            return tagged(request, *texts)
        document = json.loads(texts.answer)
        document["incidents"] = with_responses(document["incidents"], *responses)
        undated = {name: value for name, value in document.items() if name != "as_of"}
        return tagged(request, encoded(undated), encoded(document))

    def _responses_of(self, job: str) -> _Responses | None:
        """Return the notes on a job's incidents, the active silences, and its profiles.

        Returns None without any, or if the store is down: the job is served all the same.
        """
        store = self._service.store
        try:
            notes, silences = store.notes.of_job(job), store.silences.in_force()
            profiles = store.profiles.newest([job])
        except sa.exc.SQLAlchemyError:
            return None
        return (notes, silences, profiles) if notes or silences or profiles else None

    async def heatmap(self, request: Request) -> Response:
        """Serve seconds over ranks and steps; `?metric=` is one of `job_view.HEATMAP_METRICS`."""
        metric = request.query_params.get("metric", "self_time")
        if metric not in job_view.HEATMAP_METRICS:
            return _problem(400, f"metric must be one of {', '.join(job_view.HEATMAP_METRICS)}")
        return await self._job_answer(request, HEATMAPS[metric])

    async def collectives(self, request: Request) -> Response:
        """Serve transfer and arrival skew per operation and group over the newest steps."""
        return await self._job_answer(request, COLLECTIVES)

    async def slis(self, request: Request) -> Response:
        """Serve a job's SLIs over its run; an unknown SLI has a reason."""
        return await self._job_answer(request, SLIS)

    async def slos(self, request: Request) -> Response:
        """Serve a job's SLOs in full: window, budget, causes, and the objective's history."""
        answer = await self._job_answer(request, SLOS)
        if answer.status_code != 200:
            return answer
        document = json.loads(bytes(answer.body))

        def in_full() -> dict[str, Any]:
            store = self._service.store
            generations = {slo["name"]: store.generations(slo["name"]) for slo in document["slos"]}
            return slo_view.with_generations(document, generations)

        return _json(await run_in_threadpool(in_full))

    async def job_metrics(self, request: Request) -> Response:
        """Serve the metrics that a job's trainer recorded, or those with the `?name=` given."""
        answer = await self._job_answer(request, METRICS)
        names = frozenset(request.query_params.getlist("name"))
        if answer.status_code != 200 or not names:
            return answer
        document = json.loads(bytes(answer.body))
        named = [metric for metric in document["metrics"] if metric["name"] in names]
        return _json({**document, "metrics": named})

    async def checkpoints(self, request: Request) -> Response:
        """Serve a job's checkpoints, newest first, and the work that a resume now would lose."""
        return await self._job_answer(request, CHECKPOINTS)

    async def run(self, request: Request) -> Response:
        """Serve a job's newest attempt: pace, phases, SLIs, and configuration."""
        return await self._job_answer(request, RUN)

    async def nodes(self, request: Request) -> Response:
        """Serve nodes by name.

        `?health=` selects a state, `?unhealthy=1` all but healthy ones, `?limit=` at most
        `nodes_view.MOST_NODES`, `?after=` a start name, from the previous answer's `next`.
        `?worst_first=1` orders by health; then there is no `next`.
        """
        try:
            selection = nodes_view.selection_of(request.query_params)
        except ValueError as error:
            return _problem(400, str(error))
        fleet = await run_in_threadpool(self._service.nodes.fleet)
        return _json_tagged(request, nodes_view.nodes_document(fleet, selection))

    async def node(self, request: Request) -> Response:
        """Serve one node, its parts and its history."""
        fleet = await run_in_threadpool(self._service.nodes.fleet)
        node = fleet.nodes.get(request.path_params["node"])
        if node is None:
            return _problem(404, "no such node; /v1/nodes lists them")
        history = await run_in_threadpool(self._service.nodes.history, node.name)
        return _json_tagged(request, nodes_view.node_document(node, history))

    async def report(self, request: Request) -> Response:
        """Serve device time by cause over whole UTC days.

        `?from=` and `?until=` are Unix seconds; `?job=` or `?class=` narrows the report.
        """
        query = request.query_params
        try:
            first, until = int(query["from"]), int(query["until"])
        except (KeyError, ValueError):
            return _problem(400, "give from and until, in whole Unix seconds")
        if not 0 <= first < until <= _LATEST_S:
            return _problem(400, "from must be before until")

        job, job_class = query.get("job"), query.get("class")
        return _json(
            await run_in_threadpool(report_of, self._service, first, until, job, job_class)
        )

    async def runbook(self, request: Request) -> Response:
        """Serve a runbook as a tree of its parts.

        `?incident=` or `?job=` selects the incident that fills in values.
        """
        if self._runbook is None:
            return _problem(404, "this collector was started without runbooks")
        name, base_url = request.path_params["name"], str(request.base_url).rstrip("/")
        read, query = self._runbook, request.query_params

        def filled_in() -> RunbookAnswer:
            incident = relevant(self._incidents_for(query), name, query)
            return runbook_document(name, incident, base_url, read)

        try:
            return _json_tagged(request, await run_in_threadpool(filled_in))
        except StepwatchError as error:
            return _problem(404, str(error))

    def _incidents_for(self, query: QueryParams) -> list[dict[str, Any]]:
        """Return the incidents that may fill in a runbook: the requested one, or the newest."""
        store, wanted = self._service.store, query.get("incident")
        if wanted is None:
            return store.incidents.newest(query.get("job"))
        incident = store.incidents.one(wanted)
        return [] if incident is None else [incident]

    async def metrics(self, request: Request) -> Response:
        """Serve Prometheus text."""
        text = await run_in_threadpool(generate_latest, self._registry)
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def _job_answer(self, request: Request, view: View) -> Response:
        """Serve a job's newest `view`; 404 for an unknown job."""
        name = request.path_params["job"]
        texts = await run_in_threadpool(self._job_texts, name, view)
        return self._unknown(name) if texts is None else tagged(request, *texts)

    def _job_texts(self, name: str, view: View) -> Texts | None:
        """Return a job's newest `view`; None for an unknown job."""
        published = self._service.answer(name, view)
        return None if published is None else texts_of(published, self._service.now())

    def _unknown(self, name: str) -> Response:
        why = self._service.withheld().get(name)
        if why is not None:
            return _problem(404, f"the job is {why.state}: {why.reason}")
        return _problem(404, "no such job; /v1/jobs lists them")

    async def health(self, request: Request) -> Response:
        """Answer 200 while the process responds."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """Answer a load balancer.

        200, or 503 with the reason why another collector should serve.
        """
        reason = self._service.why_not_ready()
        if reason:
            return PlainTextResponse(f"{reason}\n", 503, {"retry-after": "5"})
        return PlainTextResponse("ready\n")


async def store_gone(request: Request, error: Exception) -> Response:
    """Answer 503: the store did not respond."""
    reason = str(getattr(error, "orig", None) or type(error).__name__)
    return _problem(503, f"the store does not answer: {reason}", {"retry-after": "5"})


def _json_tagged(request: Request, document: Any) -> Response:
    content = encoded(document)
    return tagged(request, content, content)


def _json(document: Any, headers: dict[str, str] | None = None) -> Response:
    return _json_text(encoded(document), headers)


def _json_text(text: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(text, media_type="application/json", headers=headers)


def _problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status_code=status, headers=headers)
