"""Sends one request to a receiver, with a total time limit."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from stepwatch.signals import places

from .receivers import Answer, Outgoing

ANSWER_SECONDS = 2.5
"""Time limit from the connection to the complete answer."""
LONGEST_WAIT_SECONDS = 3600.0
"""Upper bound for a receiver's `Retry-After`."""
Post = Callable[[Outgoing], Answer]
"""Sends a request, and returns the answer."""


def post(outgoing: Outgoing) -> Answer:
    """Send over HTTP without following redirects.

    Raises:
        httpx.HTTPError: no answer, or the answer is not HTTP.
        TimeoutError: the answer was not complete in time.
        OSError: the file with the authorities cannot be read.
    """
    return asyncio.run(_post(outgoing))


async def _post(outgoing: Outgoing) -> Answer:
    # httpx limits each read only: a byte-by-byte answer would never end.
    async with (
        asyncio.timeout(ANSWER_SECONDS),
        httpx.AsyncClient(
            headers={"accept-encoding": "identity"},  # no decompression
            timeout=None,
            verify=ssl.create_default_context(cafile=outgoing.ca) if outgoing.ca else True,
            trust_env=places.may_use_proxy(outgoing.url),
        ) as client,
        client.stream(
            "POST" if outgoing.body else "GET",
            outgoing.url,
            content=outgoing.body,
            headers=outgoing.headers,
        ) as answer,
    ):
        body = b""
        if outgoing.answer_bytes:
            async for piece in answer.aiter_raw():
                body = (body + piece)[: outgoing.answer_bytes]
                if len(body) == outgoing.answer_bytes:
                    break
        wait = retry_after(answer.headers.get("retry-after", ""), datetime.now(UTC))
        return Answer(answer.status_code, body, wait)


def retry_after(text: str, now: datetime) -> float:
    """Return the header's delay in seconds, from a number or a date; 0 if it is unusable.

    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    if text.isascii() and text.isdigit() and len(text) <= 9:
        seconds = float(text)
    else:
        try:
            seconds = (parsedate_to_datetime(text) - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)
