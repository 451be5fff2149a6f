"""The profiles on a job's page: the sentence, both traces as files, and a trace in Perfetto."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser import Visitor
from tests.collector.made import JOB
from tests.collector.process import Process
from tests.waiting import until

from .shown import evaluated, opened
from .test_profiles import GZIP, trace_of

PERFETTO = "https://ui.perfetto.dev/"
STAND_IN = """<!doctype html><title>stand-in for Perfetto</title><script>
addEventListener("message", (event) => {
  if (event.data === "PING") { event.source.postMessage("PONG", "*"); return; }
  const {buffer, title, fileName} = event.data.perfetto;
  window.received = {title, name: fileName, bytes: Array.from(new Uint8Array(buffer))};
});
</script>"""
"""The part of Perfetto's window that its documentation describes."""


@pytest.fixture(scope="module")
def profiled(straggling: Process) -> str:
    """The id of the profile of rank 2, once it is compared."""
    path = f"{straggling.url}/v1/jobs/{JOB}/profiles"
    incidents = f"{straggling.url}/v1/incidents?state=open"
    until("the incident", lambda: httpx.get(incidents).json()["incidents"])
    httpx.post(path, json={"rank": 2, "by": "ada"}).raise_for_status()
    (asked,) = httpx.get(path).json()["profiles"]
    for rank, length in ((2, 9000), (3, 3000)):
        address = f"{straggling.url}/v1/profiles/{asked['id']}/traces/{rank}"
        httpx.post(address, content=trace_of(rank, length), headers=GZIP).raise_for_status()
    until("the comparison", lambda: httpx.get(path).json()["profiles"][0]["state"] == "compared")
    return str(asked["id"])


@pytest.fixture
def page(straggling: Process, profiled: str, visitor: Visitor) -> Page:
    page = evaluated(straggling, visitor)
    opened(page, "profiles")
    return page


def test_the_sentence_is_in_the_table(page: Page, profiled: str, visitor: Visitor) -> None:
    rows = page.locator("#profiles-table tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("aten::mm 3.0x")
    expect(rows).to_contain_text("ada")
    expect(rows).to_contain_text("2 and 3")
    assert visitor.errors == []


@pytest.mark.parametrize("token", ["", "a-token"])
def test_both_traces_are_saved_as_files(page: Page, profiled: str, token: str) -> None:
    if token:  # then the script reads the trace, as a link carries none
        page.evaluate("token => sessionStorage.setItem('stepwatch-token', token)", token)
    for rank, length in ((2, 9000), (3, 3000)):
        with page.expect_download() as saving:
            page.locator("#profiles-table a", has_text=f"rank {rank} (").click()
        assert saving.value.suggested_filename == f"{profiled}-rank{rank}.json.gz"
        assert Path(saving.value.path()).read_bytes() == trace_of(rank, length)
    page.evaluate("sessionStorage.clear()")


def test_perfetto_gets_the_trace_and_no_address(
    page: Page, profiled: str, straggling: Process
) -> None:
    headers = list[dict[str, str]]()

    def answer(route: Route) -> None:
        headers.append(route.request.headers)
        route.fulfill(body=STAND_IN, content_type="text/html")

    page.context.route(f"{PERFETTO}**", answer)
    with page.context.expect_page() as opening:
        page.get_by_role("button", name="open in Perfetto").first.click()
    opened = opening.value
    opened.wait_for_function("window.received")
    received: dict[str, Any] = opened.evaluate("window.received")
    assert json.loads(gzip.decompress(bytes(received["bytes"])))["stepwatch"]["rank"] == 2
    assert received["title"] == f"{JOB}, rank 2, profile {profiled}"
    assert received["name"] == f"{profiled}-rank2.json.gz"
    assert opened.url == PERFETTO and opened.evaluate("document.referrer") == ""
    assert all("referer" not in sent and "origin" not in sent for sent in headers)
    opened.close()


def test_without_perfetto_the_page_says_what_to_do(page: Page, profiled: str) -> None:
    page.context.route(f"{PERFETTO}**", lambda route: route.abort())
    page.evaluate("window.open = () => null")
    page.get_by_role("button", name="open in Perfetto").first.click()
    expect(page.locator("#profiles-note")).to_contain_text("download the trace")
