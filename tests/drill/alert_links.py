"""Check that the pages that a notification links to open and show data."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.dashboards.served.grafana import Source
from tests.dashboards.served.recording import record_board

LEAST_SHARE = 0.5
"""Least share of a dashboard's queries with data: some need hardware that this machine lacks."""


def problems(annotations: Mapping[str, str], folder: Path, prometheus: str) -> Iterator[str]:
    """Yield each problem with an alert's links. `folder` holds the generated dashboards."""
    yield from _runbook(annotations.get("runbook_url", ""))
    yield from _dashboard(annotations.get("dashboard_url", ""), folder, prometheus)


def _runbook(address: str) -> Iterator[str]:
    """Yield a problem unless the page and the text that it fetches open, filled in for the job."""
    parts = urlsplit(address)
    alert, job = parts.path.rpartition("/")[2], parse_qs(parts.query).get("job", [""])[0]
    try:
        page = httpx.get(address, timeout=20.0)
        fetched = parts._replace(path=f"/v1{parts.path}").geturl()
        text = httpx.get(fetched, timeout=20.0)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        yield f"its runbook does not open: {error}"
        return
    if (page.status_code, text.status_code) != (httpx.codes.OK, httpx.codes.OK):
        yield f"its runbook does not open: {page.status_code}, {text.status_code}"
    elif alert not in text.text or job not in text.text:
        yield f"its runbook is not that of {alert}, filled in for {job}"


def _dashboard(address: str, folder: Path, prometheus: str) -> Iterator[str]:
    parts = urlsplit(address)
    identity = parts.path.rpartition("/")[2]
    text = next(
        (document for path in folder.glob("*.json") if identity in (document := path.read_text())),
        None,
    )
    if text is None or json.loads(text)["uid"] != identity:
        yield f"no dashboard is named {identity}"
        return
    variables = {
        name.removeprefix("var-"): values[0] for name, values in parse_qs(parts.query).items()
    }
    source = Source(prometheus)
    try:
        shown = record_board(source, text, time.time(), preferred=variables)
        answers = [bool(answer["result"]) for answer in shown["answers"]]
    finally:
        source.close()
    if sum(answers) < LEAST_SHARE * len(answers):
        yield f"its dashboard shows data in {sum(answers)} of {len(answers)} queries"
