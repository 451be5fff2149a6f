"""The view of an incident in a real browser, over a real collector with tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import Visitor
from tests.collector.explained import store_explained
from tests.collector.made import JOB
from tests.collector.process import Process
from tests.waiting import until

from .shown import PATIENCE_MS, SLOW_FROM, send, straggling_run

MARKUP = "<img src=x onerror=alert(1)> \u202eright-to-left"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A collector with tokens: one that reads, one that may change everything."""
    folder = tmp_path_factory.mktemp("guarded")
    options: list[str] = []
    for role in ("ingest", "read", "admin"):
        file = folder / role
        file.write_text(f"secret-of-{role}\n")
        file.chmod(0o600)
        options += [f"--{role}-token-file", str(file)]
    process = Process(folder, options=tuple(options))
    process.start()
    process.wait_ready()
    process.headers = {"authorization": "Bearer secret-of-ingest"}
    send(process, straggling_run())
    yield process
    process.end()


def incident_of(collector: Process, role: str = "") -> str:
    headers = {"authorization": f"Bearer secret-of-{role}"} if role else {}
    address = f"{collector.url}/v1/incidents?job={JOB}"

    def known() -> list[str]:
        incidents = httpx.get(address, headers=headers).json()["incidents"]
        return [item["id"] for item in incidents if item["kind"] == "straggler"]

    until("the incident", known)
    return known()[0]


def opened(collector: Process, visitor: Visitor, role: str = "") -> Page:
    """Open the incident's page, with a token if the collector wants one."""
    page = visitor.page
    if role:
        token = f"sessionStorage.setItem('stepwatch-token', 'secret-of-{role}')"
        page.add_init_script(token)
    page.goto(f"{collector.url}/incidents/{incident_of(collector, role)}")
    expect(page.locator("h1")).to_contain_text("rank 2", timeout=PATIENCE_MS)
    return page


def test_it_says_what_is_wrong_since_when_and_what_to_do(
    straggling: Process, visitor: Visitor
) -> None:
    page = opened(straggling, visitor)
    expect(page.locator("h1")).to_contain_text(f"rank 2 is slow in forward since step {SLOW_FROM}")
    expect(page.locator("#curve canvas")).to_have_count(2)
    expect(page.locator("#curve figcaption").nth(1)).to_contain_text(
        re.compile(r"forward a step.*rank 2 250 ms.*median of 3 neighbours 50 ms")
    )
    expect(page.locator("#curve .sign.bad").first).to_be_visible()
    expect(page.locator("#figure-cost dd")).to_contain_text("device-")
    expect(page.locator("#figure-lost dd")).to_have_text("50%")
    expect(page.locator("#figure-acknowledged dd")).to_have_text("not yet")
    compared = page.locator("#evidence .comparisons li")
    expect(compared.filter(has_text="self time in forward")).to_contain_text("peers 50 ms")
    assert compared.locator("rect.peer").count() >= 3
    expect(page.locator("#evidence .pairs")).to_contain_text("clock that timed the steps")
    expect(page.locator("#timeline li")).to_contain_text(["began: step 40", "opened"])
    expect(page.locator("#first-action .command")).to_contain_text("stepwatch incidents")
    expect(page.locator("#wrong-if")).to_contain_text("another cause is possible")
    expect(page.locator("#wrong-if")).to_contain_text("A rank without peers in its stage")
    expect(page.locator("#related")).to_contain_text("Other incidents on node-0")
    page.locator("#runbook summary").click()
    expect(page.locator("#runbook")).to_contain_text(f"Job {JOB}, attempt 0: rank 2 on node-0")
    assert page.title().startswith("(1) ")
    assert not re.search("NaN|undefined|null|Infinity", page.locator("main").inner_text())
    assert visitor.errors == []
    hosts = {url.split("/")[2] for url in visitor.requests if url.startswith("http")}
    assert hosts == {straggling.url.removeprefix("http://")}


def test_commands_are_copied_as_they_are(straggling: Process, visitor: Visitor) -> None:
    visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened(straggling, visitor)
    command = page.locator("#first-action .command").inner_text()
    page.locator("#first-action .copied-command button").click()
    expect(page.locator("#first-action .copied-command button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_people_respond_with_an_admin_token(guarded: Process, visitor: Visitor) -> None:
    page = opened(guarded, visitor, "admin")
    respond = page.locator("#respond")
    respond.get_by_role("button", name="Acknowledge").click()
    respond.get_by_label("Your name").fill("ada")
    respond.locator("form button.primary").click()
    expect(page.locator("#figure-acknowledged dd")).to_have_text("ada", timeout=PATIENCE_MS)
    respond.get_by_role("button", name="Assign").click()
    respond.get_by_label("Owner").fill("team-a")
    respond.locator("form button.primary").click()
    expect(page.locator("#figure-owner dd")).to_have_text("team-a")
    respond.get_by_role("button", name="Comment").click()
    respond.get_by_label("Comment").fill(MARKUP)
    respond.locator("form button.primary").click()
    comment = page.locator("#timeline .by-people").filter(has_text="onerror")
    expect(comment).to_contain_text("ada: <img src=x onerror=alert(1)>")
    assert "\u202e" not in comment.inner_text()
    respond.get_by_role("button", name="Mitigated").click()
    respond.get_by_label("What was done").fill("moved the rank")
    respond.locator("form button.primary").click()
    expect(page.locator("#timeline")).to_contain_text("mitigated by ada: moved the rank")
    respond.get_by_role("button", name="Silence").click()
    respond.get_by_label("Reason").fill("known")
    respond.locator("form button.primary").click()
    expect(page.locator("#silenced")).to_contain_text("by ada: known")
    page.reload()
    expect(page.locator("#figure-owner dd")).to_have_text("team-a", timeout=PATIENCE_MS)
    expect(page.locator("#silenced")).to_contain_text("by ada: known")
    expect(respond.get_by_role("button", name="Acknowledge")).to_have_count(0)
    respond.get_by_role("button", name="End silence").click()
    respond.locator("form button.primary").click()
    expect(page.locator("#silenced")).to_have_count(0)
    respond.get_by_role("button", name="Page again").click()
    respond.locator("form button.primary").click()
    expect(page.locator("#figure-acknowledged dd")).to_have_text("not yet")
    assert visitor.errors == []


def test_a_token_that_may_only_read_gets_the_words_of_the_refusal(
    guarded: Process, visitor: Visitor
) -> None:
    page = opened(guarded, visitor, "read")
    page.locator("#respond").get_by_role("button", name="Comment").click()
    page.locator("#respond").get_by_label("Your name").fill("eve")
    page.locator("#respond").get_by_label("Comment").fill("hello")
    page.locator("#respond form button.primary").click()
    refusal = page.locator("#respond [role=alert]")
    expect(refusal).to_contain_text("this token is for read, and may not do this")
    expect(page.locator("#timeline")).not_to_contain_text("hello")


def test_a_phone_in_the_dark_needs_no_sideways_scrolling(
    straggling: Process, browser: Browser, tmp_path: Path
) -> None:
    visitor = Visitor(browser, width=360, dark=True)
    page = opened(straggling, visitor)
    page.locator("#runbook summary").click()
    expect(page.locator("#curve canvas").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert visitor.errors == []
    page.close()


def test_an_unknown_incident_says_where_the_known_ones_are(
    straggling: Process, visitor: Visitor
) -> None:
    visitor.page.goto(f"{straggling.url}/incidents/none")
    expect(visitor.page.locator("main")).to_contain_text("no such incident", timeout=PATIENCE_MS)


def test_an_explained_incident_leads_to_its_cause_which_names_it_as_a_symptom(
    tmp_path: Path, visitor: Visitor
) -> None:
    store_explained(tmp_path / "store.db")
    process = Process(tmp_path)
    try:
        process.start()
        process.wait_ready()
        incidents = httpx.get(f"{process.url}/v1/incidents").json()["incidents"]
        (merged,) = (item for item in incidents if item["merged_into"])
        page = visitor.page
        page.goto(f"{process.url}/incidents/{merged['id']}")
        expect(page.locator("h1")).to_contain_text("rank 2 is slow", timeout=PATIENCE_MS)
        expect(page.locator(".verdict .state")).to_have_text("merged")
        buttons = page.locator("#respond button").all_inner_texts()
        assert buttons == ["Assign…", "Comment…", "Copy"], "it pages no more"
        page.get_by_role("link", name=f"incident {merged['merged_into']}").click()
        expect(page.locator("h1")).to_contain_text("rank 2 has more samples")
        expect(page.locator("#timeline")).to_contain_text("symptom: rank 2 is slow")
        assert not re.search("NaN|undefined|null|Infinity", page.locator("main").inner_text())
        assert visitor.errors == []
    finally:
        process.end()
