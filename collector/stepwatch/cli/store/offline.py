"""One request to the API over the store of a stopped collector, in this process."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import httpx

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.server import open_store
from stepwatch.signals.errors import UsageError

_HOLDS_SLOS = re.compile("/v1/(report|jobs(/[^/]+(/slos)?)?)")
"""Paths whose answers contain SLOs."""


def ask_store(store: str, method: str, path: str, sent: dict[str, Any]) -> tuple[int, bytes]:
    """Return the answer's status and body; `sent` has the request's `params` and `json`.

    Raises:
        UsageError: the store does not exist.
    """
    return asyncio.run(_ask(store, method, path, sent))


async def _ask(store: str, method: str, path: str, sent: dict[str, Any]) -> tuple[int, bytes]:
    if "://" not in store and not Path(store).is_file():
        raise UsageError(f"there is no store {store}")
    service = Service(open_store(store), reads_only=True)
    differing = service.site_objectives.asked_otherwise
    if differing and _HOLDS_SLOS.fullmatch(path):
        print(
            f"stepwatch: SLO {', '.join(differing)}: the collector of this store was "
            "given other documents than the shipped ones shown here; ask it with --collector",
            file=sys.stderr,
        )
    try:
        transport = httpx.ASGITransport(app=make_api(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://store") as client:
            answer = await client.request(method, path, **sent)
            return answer.status_code, answer.content
    finally:
        service.store.close()
