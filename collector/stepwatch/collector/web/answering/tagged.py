"""Answers with a tag over their content: a reader who has it gets 304 and no body."""

from __future__ import annotations

import hashlib

from starlette.requests import Request
from starlette.responses import Response


def tagged(request: Request, content: bytes, answer: bytes) -> Response:
    """Serve JSON with a tag over its `content`, which is the answer without its date."""
    headers = {"etag": tag_of(content), "cache-control": "no-cache"}
    if has_tag(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    return Response(answer, media_type="application/json", headers=headers)


def tag_of(content: bytes) -> str:
    """Return a tag; it is a weak one, as an answer may be compressed."""
    return f'W/"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'


def has_tag(request: Request, tag: str) -> bool:
    """Return whether the reader has the answer with this tag."""
    known = request.headers.get("if-none-match", "")
    return tag in (entry.strip() for entry in known.split(","))
