"""Routes for a job's history.

An answer has an ETag over its content without `as_of`: a reader who asks again gets 304 while
nothing changed. A collector that does not hold the job reads what the holder packed for it, at most
seconds old: curves with at most `MOST_POINTS` points, and ranks in bins if they are many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.tracker import MAX_WORLD
from stepwatch.collector.web.answering.tagged import tagged
from stepwatch.collector.web.documents import OLD_SECONDS, stale
from stepwatch.collector.web.job_view import HEATMAP_METRICS

from .asked import metrics_of, range_of, whole_of, word_of
from .curves import CURVES, SHARED_CURVES, read_curves
from .marks import MARKS, marks_document
from .matrix import (
    BY,
    MATRICES,
    MOST_COLUMNS,
    MOST_ROWS,
    SHARED_MATRICES,
    Window,
    matrix_document,
    read_planes,
)
from .numbers import document_text
from .series import series_document
from .spent import SHARED_SPENT, SPENT, read_spent, spent_document

SHARED = (SHARED_CURVES, SHARED_SPENT, MARKS, *SHARED_MATRICES.values())
"""The views that other collectors may read."""
ROWS, COLUMNS = 64, 160
"""Rows and columns of a matrix by default."""
_MOST_STEP = (1 << 32) - 1
"""A step has 32 bits."""
Document = dict[str, Any]


class HistoryApi:
    """The handlers; each answers parameters from one published object per job."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return the routes by path."""
        return [
            Route("/v1/jobs/{job}/series", self.series),
            Route("/v1/jobs/{job}/spent", self.spent),
            Route("/v1/jobs/{job}/marks", self.marks),
            Route("/v1/jobs/{job}/matrix", self.matrix),
        ]

    async def series(self, request: Request) -> Response:
        """Serve the curves with the `?metric=` names given, else the standard ones.

        `?from=` and `?to=` are Unix seconds, `?points=` the most points per curve.
        """

        def asked() -> Callable[[Any], Document]:
            wanted, span = metrics_of(request.query_params), range_of(request.query_params)
            return lambda value: series_document(read_curves(value), wanted, span)

        return await self._answer(request, CURVES, SHARED_CURVES, asked)

    async def spent(self, request: Request) -> Response:
        """Serve device-seconds by cause in buckets of time; the parameters are those of curves."""

        def asked() -> Callable[[Any], Document]:
            span = range_of(request.query_params)
            return lambda value: spent_document(read_spent(value), span)

        return await self._answer(request, SPENT, SHARED_SPENT, asked)

    async def marks(self, request: Request) -> Response:
        """Serve the checkpoints, evaluations, restarts and incidents in a range."""

        def asked() -> Callable[[Any], Document]:
            span = range_of(request.query_params)
            return lambda value: marks_document(value, span)

        return await self._answer(request, MARKS, MARKS, asked)

    async def matrix(self, request: Request) -> Response:
        """Serve seconds over ranks and steps for one `?metric=` of `job_view.HEATMAP_METRICS`.

        `?from_step=`, `?to_step=`, `?first=` and `?last=` (ranks) cut a window, both ends included;
        `?by=` is rank, node or stage, `?rows=` and `?columns=` the most bins.
        """
        query = request.query_params
        metric = query.get("metric", "self_time")

        def asked() -> Callable[[Any], Document]:
            word_of(query, "metric", (*HEATMAP_METRICS,))
            window = _window_of(request)
            return lambda value: matrix_document(read_planes(value), window)

        views = [views.get(metric, MARKS) for views in (MATRICES, SHARED_MATRICES)]
        return await self._answer(request, views[0], views[1], asked)

    async def _answer(
        self,
        request: Request,
        view: View,
        shared: View,
        asked: Callable[[], Callable[[Any], Document]],
    ) -> Response:
        """Serve an answer made from a job's view; `asked` reads the parameters."""
        try:
            make = asked()
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        name = request.path_params["job"]

        def made() -> tuple[str, str] | None:
            published = self._service.answer(name, view, shared)
            if published is None:
                return None
            document = make(published.value)
            age = self._service.now() - published.as_of
            if abs(age) > OLD_SECONDS:
                document = _stale(document, published.as_of, self._service.now())
            text = document_text({key: document[key] for key in document if key != "as_of"})
            return text, f'{text[:-1]},"as_of":{published.as_of!r}}}'

        answer = await run_in_threadpool(made)
        if answer is None:
            return self._unknown(name)
        content, text = answer
        return tagged(request, content.encode(), text.encode())

    def _unknown(self, job: str) -> Response:
        why = self._service.withheld().get(job)
        reason = "no such job; /v1/jobs lists them" if why is None else f"the job is {why.state}"
        return JSONResponse({"error": reason}, status_code=404)


def _stale(document: Document, as_of: float, now: float) -> Document:
    old = stale({**document, "slos": [], "open_incidents": 0}, as_of, now)
    del old["slos"], old["open_incidents"]
    return old


def _window_of(request: Request) -> Window:
    query = request.query_params
    ranks, steps = (0, MAX_WORLD - 1), (0, _MOST_STEP)
    return Window(
        from_step=whole_of(query, "from_step", 0, steps),
        to_step=whole_of(query, "to_step", _MOST_STEP, steps),
        first=whole_of(query, "first", 0, ranks),
        last=whole_of(query, "last", MAX_WORLD - 1, ranks),
        by=word_of(query, "by", BY),
        rows=whole_of(query, "rows", ROWS, (1, MOST_ROWS)),
        columns=whole_of(query, "columns", COLUMNS, (1, MOST_COLUMNS)),
    )
