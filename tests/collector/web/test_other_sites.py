"""Pages of other sites in a real browser, and a collector on loopback without a token."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, sync_playwright

from tests.browser import ARGUMENTS, chromium
from tests.collector.made import JOB, body, run_segments
from tests.collector.process import Process, running

REBOUND = "rebound.example"
SILENCE = {"job": JOB, "why": "of another site", "by": "mallory", "seconds": 3600}
SEND = """
async ([url, method, type, text]) => {
  const headers = type ? {"content-type": type} : {};
  const data = type ? text : new TextEncoder().encode(text);
  try {
    await fetch(url, {method, mode: "no-cors", headers, body: data});
    return "sent";
  } catch (error) { return String(error); }
}
"""
READ = """
async ([url]) => {
  try {
    const answer = await fetch(url);
    return [answer.status, await answer.text()];
  } catch (error) { return [0, String(error)]; }
}
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def other_site(folder: Path) -> Iterator[str]:
    """A web server of somebody else, on another port of this machine."""
    (folder / "index.html").write_text("<title>another site</title>")
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with running(tmp_path_factory.mktemp("collector")) as process:
        assert process.send(body(run_segments(5))).status_code == 200
        yield process


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """Of a browser for which a name of somebody else has the address of this machine."""
    rules = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*ARGUMENTS, rules])
        yield browser.new_page()
        browser.close()


def silences(collector: Process) -> list[Any]:
    listed: list[Any] = httpx.get(f"{collector.url}/v1/silences").json()["silences"]
    return listed


@pytest.mark.parametrize("media_type", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_a_page_of_another_site_writes_nothing(
    collector: Process, page: Page, tmp_path: Path, media_type: str
) -> None:
    """The browser sends each of them without asking: none is `application/json`."""
    text, note = json.dumps(SILENCE), json.dumps({"event": "comment", "by": "x", "text": "y"})
    with other_site(tmp_path) as site:
        page.goto(site)
        sent = [
            page.evaluate(SEND, [f"{collector.url}{path}", "POST", media_type, data])
            for path, data in (
                ("/v1/silences", text),
                ("/v1/incidents/x/notes", note),
                ("/v1/segments", "not a segment"),
            )
        ]
    assert sent == ["sent"] * 3, "the requests reached the collector"
    assert silences(collector) == []
    refused = httpx.get(f"{collector.url}/metrics").text
    assert 'stepwatch_collector_segments_total{verdict="rejected"} 0.0' in refused


def test_a_name_that_was_given_this_address_reads_nothing(collector: Process, page: Page) -> None:
    port = collector.port
    answer = page.goto(f"http://{REBOUND}:{port}/")
    assert answer is not None and answer.status == 421
    status, text = page.evaluate(READ, [f"http://{REBOUND}:{port}/v1/jobs"])
    assert status == 421 and JOB not in text
    page.evaluate(
        SEND, [f"http://{REBOUND}:{port}/v1/silences", "POST", "text/plain", json.dumps(SILENCE)]
    )
    assert silences(collector) == []


def test_its_own_page_reads(collector: Process, page: Page) -> None:
    page.goto(f"http://localhost:{collector.port}/")
    status, text = page.evaluate(READ, [f"http://localhost:{collector.port}/v1/jobs"])
    assert status == 200 and JOB in text
