"""Routes of the page: one document for all views, and files with immutable names.

`collector/page/hatch_build.py` builds them into `built`, each with a gzipped copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from stepwatch.collector.web.answering.tagged import has_tag, tag_of

VIEWS = (
    "/",
    "/compare",
    "/incidents/{id}",
    "/jobs/{job}",
    "/nodes",
    "/nodes/{node}",
    "/reports",
    "/runbooks/{name}",
    "/self",
    "/slos",
    "/sweeps",
)
"""Paths that the built page shows."""
INDEX = "built/index.html"
"""The document of all views."""
_CONTENT_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; style-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # an internal address stays here
}
_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}
_REVALIDATED = {"cache-control": "no-cache"}
_MISSING = (
    "the page is not built: run `python collector/page/hatch_build.py` in the source tree, or "
    "install stepwatch from a wheel\n"
)


class _File(NamedTuple):
    """A file's bytes, gzipped if a copy exists, and its headers."""

    content: bytes
    gzipped: bytes | None
    headers: Mapping[str, str]


def page_routes() -> Iterator[Route]:
    """Yield the routes of all documents, scripts and style sheets."""
    for path in VIEWS:
        yield Route(path, _view)
    yield Route("/static/{name}", _static)


async def _view(request: Request) -> Response:
    if not (_folder() / INDEX).is_file():
        return PlainTextResponse(_MISSING, 503)
    return _answer(request, _read(INDEX))


async def _static(request: Request) -> Response:
    """Serve a script, style sheet or the licences by name."""
    name = request.path_params["name"]
    if name in _built_names() and name.endswith((".js", ".css", "licenses.txt")):
        return _answer(request, _read(f"built/{name}"))
    return JSONResponse({"error": "no such file"}, 404)


def _answer(request: Request, file: _File) -> Response:
    if has_tag(request, file.headers["etag"]):
        return Response(status_code=304, headers=dict(file.headers))
    accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")
    if file.gzipped is not None and accepts_gzip:
        headers = {**file.headers, "content-encoding": "gzip", "vary": "accept-encoding"}
        return Response(file.gzipped, headers=headers)
    return Response(file.content, headers=dict(file.headers))


def _folder() -> Traversable:
    return resources.files(__package__)


def _built_names() -> set[str]:
    place = _folder() / "built"
    return {entry.name for entry in place.iterdir()} if place.is_dir() else set()


def _read(name: str) -> _File:
    """Return a file; a name in `built` has the digest of its bytes, `index.html` excepted."""
    # A build while the collector runs replaces the document: it names other files then.
    return _kept(name) if name != INDEX else _loaded(name)


@cache
def _kept(name: str) -> _File:
    return _loaded(name)


def _loaded(name: str) -> _File:
    path = _folder() / name
    copy = _folder() / f"{name}.gz"
    suffix = name[name.rindex(".") :]
    is_immutable = name.startswith("built/") and suffix in (".js", ".css")
    headers = {
        "content-type": f"{_CONTENT_TYPES.get(suffix, 'text/plain')}; charset=utf-8",
        **_HEADERS,
        **(_IMMUTABLE if is_immutable else _REVALIDATED),
    }
    gzipped = copy.read_bytes() if copy.is_file() else None
    content = path.read_bytes()
    return _File(content, gzipped, {**headers, "etag": tag_of(content)})
