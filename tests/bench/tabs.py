"""What the page asks for while nobody touches it, and what 200 such tabs cost a collector.

A real browser shows what a tab asks for; clients then repeat that for all tabs, each at a time of
its own, with an event stream each.
"""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Browser, Request

from tests.browser import opened_browser
from tests.soak.processes import Collector

from .result import Result
from .streams import JOBS, TABS, read_stream, send_steps, share_of

SHOWN = "job-1"
VIEWS = {"fleet": "/", "job": f"/jobs/{SHOWN}"}
_SETTLED_SECONDS, _WATCHED_SECONDS, _PHASE_SECONDS = 35.0, 120.0, 30.0
"""A page that was not touched for half a minute asks less often."""


class Asked(NamedTuple):
    """A request of a tab: seconds after the beginning, its path with parameters, and bytes."""

    after_seconds: float
    path: str
    received_bytes: int


def measure() -> Iterator[Result]:
    """Measure an idle tab of each view, then many of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        collector = Collector(folder, "collector", str(folder / "store.db"))
        finished = threading.Event()
        sender = threading.Thread(target=send_steps, args=(collector.url, finished))
        try:
            collector.start()
            sender.start()
            with opened_browser() as browser:
                asked = {view: _watched(browser, collector.url + VIEWS[view]) for view in VIEWS}
            time.sleep(_SETTLED_SECONDS)  # until no answer is renewed for the two
            without = share_of(collector.pid, _PHASE_SECONDS)
            share, streamed = asyncio.run(_with_tabs(collector, asked))
        finally:
            finished.set()
            sender.join()
            collector.end(signal.SIGKILL)
    minutes = _WATCHED_SECONDS / 60
    for view, requests in asked.items():
        answered = sum(request.received_bytes for request in requests) / minutes
        yield Result(
            f"an idle tab on the {view}, {JOBS} jobs, in a minute",
            f"{(answered + streamed[view]) / 1000:.0f} kB", "100 kB",
            f"{len(requests) / minutes:.0f} requests; events alone {streamed[view] / 1000:.0f} kB",
        )  # fmt: skip
    yield Result(
        f"{TABS} idle tabs: collector", f"{share:.1%} of a core", f"5% above {without:.1%}",
        f"without a tab {without:.1%} of a core",
    )  # fmt: skip


def _watched(browser: Browser, url: str) -> list[Asked]:
    """Return what a tab asks for in a minute, some seconds after it was opened."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    ended: list[tuple[float, Request]] = []
    page.on("requestfinished", lambda request: ended.append((time.monotonic(), request)))
    page.goto(url)
    page.wait_for_timeout(_SETTLED_SECONDS * 1000)
    began, first = time.monotonic(), len(ended)
    page.wait_for_timeout(_WATCHED_SECONDS * 1000)
    asked = [_asked(moment - began, request) for moment, request in ended[first:]]
    page.close()
    return asked


def _asked(after_seconds: float, request: Request) -> Asked:
    parts, sizes = urlsplit(request.url), request.sizes()
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return Asked(after_seconds, path, sizes["responseBodySize"] + sizes["responseHeadersSize"])


async def _with_tabs(
    collector: Collector, asked: dict[str, list[Asked]]
) -> tuple[float, dict[str, float]]:
    """Return the collector's share of a core, and the bytes of events that a tab reads a minute."""
    read = dict.fromkeys(asked, 0)
    limits = httpx.Limits(max_connections=TABS, max_keepalive_connections=TABS)
    async with httpx.AsyncClient(base_url=collector.url, limits=limits, timeout=60.0) as client:
        tabs = []
        for number in range(TABS):
            view = [*VIEWS][number % len(VIEWS)]
            job = f"job-{number % JOBS}"
            topic = "fleet" if view == "fleet" else f"job:{job}"
            tabs.append(asyncio.create_task(read_stream(collector.port, topic, read)))
            tabs.append(asyncio.create_task(_repeated(client, asked[view], job)))
        await asyncio.sleep(3.0)
        read.update(dict.fromkeys(read, 0))
        share = await asyncio.to_thread(share_of, collector.pid, _PHASE_SECONDS)
        minute = 60.0 / _PHASE_SECONDS / (TABS / len(VIEWS))
        figures = {view: count * minute for view, count in read.items()}
        for tab in tabs:
            tab.cancel()
        ended = await asyncio.gather(*tabs, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in ended), ended
    return share, figures


async def _repeated(client: httpx.AsyncClient, asked: list[Asked], job: str) -> None:
    """Ask as a tab does, again and again; a tab has the tags of its answers."""
    tags: dict[str, str] = {}
    began = time.monotonic() - random.uniform(0.0, _WATCHED_SECONDS)
    while True:
        for request in asked:
            wait_seconds = began + request.after_seconds - time.monotonic()
            if wait_seconds < 0:
                continue  # before this tab began
            await asyncio.sleep(wait_seconds)
            path = request.path.replace(SHOWN, job)
            headers = {"if-none-match": tags[path]} if path in tags else {}
            answer = await client.get(path, headers=headers)
            tags[path] = answer.headers.get("etag", "")
        began += _WATCHED_SECONDS
        await asyncio.sleep(max(0.0, began - time.monotonic()))
