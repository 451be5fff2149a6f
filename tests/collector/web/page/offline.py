"""Run below `unshare --net`: a collector and a browser on a machine that has no network.

`python -m tests.collector.web.page.offline FOLDER` opens every view and prints as JSON what a
browser says against it.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser import Visitor, opened_browser
from tests.collector.made import JOB, body
from tests.collector.nodes.sightings import XID_79, just_now
from tests.collector.process import Process, running
from tests.collector.web.shown import send, straggling_run
from tests.collector.web.test_incident_view import incident_of


def main(folder: Path) -> None:
    """Open every view without a route, and print the errors of each."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    assert not _has_route()
    with running(folder) as collector:
        send(collector, straggling_run())
        collector.send(body([just_now("gpu-3", XID_79)]))
        incident = incident_of(collector)
        places = {
            "/": "#jobs tbody tr",
            f"/jobs/{JOB}": "canvas.matrix",
            f"/incidents/{incident}": "#curve canvas",
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
        with opened_browser() as browser:
            said = {path: _errors(browser, collector, path, places[path]) for path in places}
    print(json.dumps(said))


def _has_route() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # documentation's address: nothing is sent
        except OSError:
            return False
    return True


def _errors(browser: Browser, collector: Process, path: str, shown: str) -> list[str]:
    visitor = Visitor(browser)
    visitor.page.goto(collector.url + path)
    expect(visitor.page.locator(shown).first).to_be_visible(timeout=60_000)
    visitor.page.close()
    return visitor.errors


if __name__ == "__main__":
    main(Path(sys.argv[1]))
