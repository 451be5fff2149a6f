"""Every view in both themes and on a phone: axe-core finds nothing, nothing scrolls sideways."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import Visitor
from tests.collector.made import JOB, body
from tests.collector.nodes.sightings import DISK_SLOW, XID_79, just_now
from tests.collector.process import Process

from .accessible import violations
from .test_incident_view import incident_of

PATIENCE_MS = 60_000
COLOURS = ["color-contrast", "link-in-text-block"]
"""What another theme changes."""


@pytest.fixture(scope="module")
def places(straggling: Process) -> dict[str, str]:
    """Paths, and what is there once a view shows its data."""
    facts = {"gpu-1": [DISK_SLOW], "gpu-2": [], "gpu-3": [XID_79]}
    straggling.send(body([just_now(name, *node_facts) for name, node_facts in facts.items()]))
    incident = incident_of(straggling)
    return {
        "/": "#jobs tbody tr",
        f"/jobs/{JOB}": ".verdict h1",
        f"/incidents/{incident}": "#curve canvas",
        f"/runbooks/TrainingStraggler?incident={incident}": "#page h1",
        "/nodes": "#nodes tbody tr",
        "/nodes/gpu-3": "#history tbody tr",
        "/slos": "#slos tbody tr",
        f"/slos?job={JOB}&name=goodput": "#eaten .shares",
    }


@pytest.mark.parametrize(
    ("width", "dark"), [(1440, False), (1440, True), (360, False)], ids=["light", "dark", "phone"]
)
def test_every_view_is_accessible(
    straggling: Process, browser: Browser, places: dict[str, str], width: int, dark: bool
) -> None:
    broken = {}
    for path, shown in places.items():
        visitor = Visitor(browser, width, dark)
        page = visitor.page
        page.goto(straggling.url + path)
        expect(page.locator(shown).first).to_be_visible(timeout=PATIENCE_MS)
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        rules = violations(page, COLOURS if dark else None)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            rules.append("scrolls sideways")
        if rules or visitor.errors:
            broken[path] = [*rules, *visitor.errors]
        page.close()
    assert broken == {}
