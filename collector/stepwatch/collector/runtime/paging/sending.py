"""One request to a receiver, with a limit for all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from stepwatch.signals import places

from .receivers import Answer, Outgoing

ANSWER_SECONDS = 2.5
"""How long a receiver has from the connection to its whole answer."""
LONGEST_WAIT_SECONDS = 3600.0
"""A receiver that asks for more patience is asked again after this."""
Post = Callable[[Outgoing], Answer]
"""Sends a request, and returns the answer."""


def post(outgoing: Outgoing) -> Answer:
    """Send over HTTP, following no redirection.

    Raises:
        httpx.HTTPError: nobody answered, or something that is no HTTP.
        TimeoutError: there was no whole answer in time.
    """
    return asyncio.run(_post(outgoing))


async def _post(outgoing: Outgoing) -> Answer:
    # httpx has limits for each read alone: an answer that comes byte by byte would never end.
    async with (
        asyncio.timeout(ANSWER_SECONDS),
        httpx.AsyncClient(
            headers={"accept-encoding": "identity"},  # what is read stays as it was sent
            timeout=None,
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
    """Seconds that the header asks for, as a number or a date; 0 where it says nothing of use.

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
