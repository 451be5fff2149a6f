"""Routes for a job's history.

An answer has an ETag over its content without `as_of`: a reader who asks again gets 304 while
nothing changed. A collector that does not hold the job reads the holder's packed views, at most
seconds old: curves with at most `MOST_POINTS` points, and ranks in bins if they are many.

Two hundred tabs that ask the same question about the same state cost one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
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

from .asked import attempt_of, metrics_of, range_of, whole_of, word_of
from .curves import CURVES, SHARED_CURVES, Curves, read_curves
from .kept import Kept
from .marks import MARKS, marks_document
from .matrix import (
    BY,
    MATRICES,
    MOST_COLUMNS,
    MOST_ROWS,
    SHARED_MATRICES,
    Window,
    matrix_document,
)
from .matrix.shared import read_planes
from .numbers import document_text
from .series import series_document
from .spent import SHARED_SPENT, SPENT, read_spent, spent_document

SHARED = (SHARED_CURVES, SHARED_SPENT, MARKS, *SHARED_MATRICES.values())
"""The views that other collectors may read."""
ROWS, COLUMNS = 64, 160
"""Rows and columns of a matrix by default."""
_MOST_STEP = (1 << 32) - 1
"""A step has 32 bits."""
KEPT_CHARACTERS, KEPT_READ_BYTES = 16 << 20, 128 << 20
"""Limits for kept answers, 150 of four curves, and for other collectors' views once unpacked."""
Document = dict[str, Any]
_Make = Callable[[Any], Document]


class _Source(NamedTuple):
    """A view, its packed form for other collectors, and the function that reads either value."""

    view: View
    shared: View
    read: Callable[[Any], Any]


class HistoryApi:
    """The handlers; a handler makes its answer from one published object per job."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._texts: Kept[str] = Kept(KEPT_CHARACTERS, len)
        self._read: Kept[Any] = Kept(KEPT_READ_BYTES, size_of)

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

        `?from=` and `?to=` are Unix seconds, `?points=` the most points per curve. `?attempt=`
        selects one attempt, with the steps that a later attempt repeats.
        """

        def asked() -> _Make:
            query = request.query_params
            wanted, span, attempt = metrics_of(query), range_of(query), attempt_of(query)
            return lambda curves: series_document(curves, wanted, span, attempt)

        return await self._answer(request, _Source(CURVES, SHARED_CURVES, read_curves), asked)

    async def spent(self, request: Request) -> Response:
        """Serve device-seconds by cause in buckets of time; the parameters are those of curves."""

        def asked() -> _Make:
            span = range_of(request.query_params)
            return lambda spent: spent_document(spent, span)

        return await self._answer(request, _Source(SPENT, SHARED_SPENT, read_spent), asked)

    async def marks(self, request: Request) -> Response:
        """Serve the checkpoints, evaluations, restarts and incidents in a range."""

        def asked() -> _Make:
            span = range_of(request.query_params)
            return lambda marks: marks_document(marks, span)

        return await self._answer(request, _Source(MARKS, MARKS, bytes), asked)

    async def matrix(self, request: Request) -> Response:
        """Serve seconds over ranks and steps for one `?metric=` of `job_view.HEATMAP_METRICS`.

        `?from=`, `?to=` (Unix seconds), `?from_step=`, `?to_step=`, `?first=` and `?last=` (ranks)
        cut a window, both ends included; `?by=` is rank, node or stage, `?rows=` and `?columns=`
        the most bins.
        """
        query = request.query_params
        metric = query.get("metric", "self_time")

        def asked() -> _Make:
            word_of(query, "metric", (*HEATMAP_METRICS,))
            window = _window_of(request)
            return lambda planes: matrix_document(planes, window)

        views = [views.get(metric, MARKS) for views in (MATRICES, SHARED_MATRICES)]
        return await self._answer(request, _Source(views[0], views[1], read_planes), asked)

    async def _answer(
        self, request: Request, source: _Source, asked: Callable[[], _Make]
    ) -> Response:
        """Serve an answer made from a job's view; `asked` reads the parameters."""
        try:
            make = asked()
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        name = request.path_params["job"]
        question = name, request.url.path, request.url.query
        answer = await run_in_threadpool(self._made, name, source, question, make)
        if answer is None:
            return self._unknown(name)
        content, as_of = answer
        text = f'{content[:-1]},"as_of":{as_of!r}}}'
        return tagged(request, content.encode(), text.encode())

    def _made(
        self, job: str, source: _Source, question: Hashable, make: _Make
    ) -> tuple[str, float] | None:
        """Return an answer's JSON text without its date, and the date; None for an unknown job."""
        published = self._service.answer(job, source.view, source.shared)
        if published is None:
            return None
        now = self._service.now()

        def text() -> str:
            read = published.value
            if isinstance(read, bytes):
                key = job, source.shared.name
                read = self._read.get(key, published, lambda: source.read(published.value))
            document = make(read)
            document.pop("as_of", None)
            is_old = abs(now - published.as_of) > OLD_SECONDS
            return document_text(_stale(document, published.as_of, now) if is_old else document)

        if abs(now - published.as_of) > OLD_SECONDS:  # it says its age
            return text(), published.as_of
        return self._texts.get(question, published, text), published.as_of

    def _unknown(self, job: str) -> Response:
        why = self._service.withheld().get(job)
        reason = "no such job; /v1/jobs lists them" if why is None else f"the job is {why.state}"
        return JSONResponse({"error": reason}, status_code=404)


def size_of(read: Any) -> int:
    """Return the bytes in an object's arrays."""
    if isinstance(read, bytes):
        return len(read)
    if isinstance(read, Curves):
        parts = [made(name) for made in (read.points, read.redone) for name in read.names]
        return sum(column.nbytes for part in parts for column in part)
    return sum(column.nbytes for column in read if isinstance(column, np.ndarray))


def _stale(document: Document, as_of: float, now: float) -> Document:
    old = stale({**document, "slos": [], "open_incidents": 0}, as_of, now)
    del old["slos"], old["open_incidents"], old["as_of"]
    return old


def _window_of(request: Request) -> Window:
    query = request.query_params
    ranks, steps = (0, MAX_WORLD - 1), (0, _MOST_STEP)
    span = range_of(query)
    return Window(
        from_s=span.from_s,
        to_s=span.to_s,
        from_step=whole_of(query, "from_step", 0, steps),
        to_step=whole_of(query, "to_step", _MOST_STEP, steps),
        first=whole_of(query, "first", 0, ranks),
        last=whole_of(query, "last", MAX_WORLD - 1, ranks),
        by=word_of(query, "by", BY),
        rows=whole_of(query, "rows", ROWS, (1, MOST_ROWS)),
        columns=whole_of(query, "columns", COLUMNS, (1, MOST_COLUMNS)),
    )
