"""Every view in both themes and on a phone.

axe-core finds nothing, nothing scrolls sideways, the security policy refuses nothing, and no
request leaves the collector.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import Visitor
from tests.collector.made import JOB, body, run_segments
from tests.collector.nodes.sightings import DISK_SLOW, XID_79, just_now
from tests.collector.process import Process

from .accessible import violations
from .shown import RANKS, STEPS, send
from .test_incident_view import incident_of

PATIENCE_MS = 60_000
COLOURS = ["color-contrast", "link-in-text-block"]
"""What another theme changes."""
NOTE_VIOLATIONS = """
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) =>
    window.refused.push(`${event.effectiveDirective} ${event.blockedURI}`));
"""
NOT_FOUND = "status of 404"
"""What a browser says of a job that is not there."""


@pytest.fixture(scope="module")
def places(straggling: Process) -> dict[str, str]:
    """Paths, and what is there once a view shows its data."""
    facts = {"gpu-1": [DISK_SLOW], "gpu-2": [], "gpu-3": [XID_79]}
    straggling.send(body([just_now(name, *node_facts) for name, node_facts in facts.items()]))
    incident = incident_of(straggling)
    return {
        "/": "#jobs tbody tr",
        f"/jobs/{JOB}": ".verdict h1",
        f"/incidents/{incident}": "#curve canvas >> nth=0",
        f"/runbooks/TrainingStraggler?incident={incident}": "#page h1",
        "/nodes": "#nodes tbody tr",
        "/nodes/gpu-3": "#history tbody tr",
        "/slos": "#slos tbody tr",
        f"/slos?job={JOB}&name=goodput": "#eaten .shares",
        f"/compare?job={JOB}": "#curves canvas",
        "/reports?days=28": "#days .columns",
        f"/sweeps?match={JOB[:4]}": "#trials tbody tr",
        "/self": "#received tbody tr",
    }


@pytest.mark.parametrize(
    ("width", "dark"),
    [(1440, False), (1440, True), (360, False), (390, True)],
    ids=["light", "dark", "phone", "dark-phone"],
)
def test_every_view_is_accessible(
    straggling: Process, browser: Browser, places: dict[str, str], width: int, dark: bool
) -> None:
    assert broken_rules(straggling.url, browser, places, width, dark) == {}


@pytest.mark.parametrize(
    ("width", "dark"), [(1440, False), (390, True)], ids=["light", "dark-phone"]
)
def test_a_quiet_collector_is_accessible(
    collector: Process, browser: Browser, width: int, dark: bool
) -> None:
    empty = {
        "/": "#empty",
        "/nodes": "main",
        "/jobs/none": ".notice",
        "/incidents/1": ".notice",
        "/runbooks/None": ".notice",
    }
    assert broken_rules(collector.url, browser, empty, width, dark) == {}
    send(collector, run_segments(STEPS, RANKS))
    healthy = {"/": "#jobs tbody tr", f"/jobs/{JOB}": "canvas.matrix"}
    assert broken_rules(collector.url, browser, healthy, width, dark) == {}


def broken_rules(
    url: str, browser: Browser, places: dict[str, str], width: int, dark: bool
) -> dict[str, list[str]]:
    """Return what is wrong by path: rules of axe-core, sideways scrolling, errors, CSP."""
    broken = {}
    for path, shown in places.items():
        visitor = Visitor(browser, width, dark)
        page = visitor.page
        page.add_init_script(NOTE_VIOLATIONS)
        page.goto(url + path)
        expect(page.locator(shown).first).to_be_visible(timeout=PATIENCE_MS)
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        refused = page.evaluate("window.refused")
        rules = violations(page, COLOURS if dark else None) + [
            f"refused: {what}" for what in refused
        ]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            rules.append("scrolls sideways")
        errors = [error for error in visitor.errors if NOT_FOUND not in error]
        others = [asked for asked in visitor.requests if not asked.startswith((url, "data:"))]
        if rules or errors or others:
            broken[path] = [*rules, *errors, *others]
        page.close()
    return broken
