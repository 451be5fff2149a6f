"""The route of event streams."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .hub import Hub
from .stream import EventStream
from .topics import topics_of

AGAIN_SECONDS = 30
"""Time after which a refused client may ask again; it asks for single answers meanwhile."""


class LiveApi:
    """Answers requests for events."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route("/v1/events", self.events)]

    async def events(self, request: Request) -> Response:
        """Serve events on each `?topic=`: `fleet`, or `job:NAME`.

        `Last-Event-ID` or `?cursor=` continues after an event.
        """
        query = request.query_params
        try:
            topics = topics_of(query.getlist("topic"))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        if request.method == "HEAD":
            return Response(media_type=EventStream.media_type)
        if self._hub.refuses():
            text = "too many event streams are open: ask for single answers meanwhile"
            return JSONResponse({"error": text}, 503, {"retry-after": str(AGAIN_SECONDS)})
        cursor = request.headers.get("last-event-id") or query.get("cursor", "")
        return EventStream(self._hub, topics, cursor[:64])
