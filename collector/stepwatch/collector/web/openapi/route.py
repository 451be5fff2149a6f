"""The route that serves the OpenAPI document."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from .document import openapi_text


async def openapi_document(request: Request) -> Response:
    """Serve this document: the routes below `/v1`, their parameters, answers and problems.

    The first request makes the document, because the types take a while to read.
    """
    app = request.app
    if not hasattr(app.state, "openapi"):
        app.state.openapi = await run_in_threadpool(openapi_text, app.routes)
    return Response(app.state.openapi, media_type="application/json")
