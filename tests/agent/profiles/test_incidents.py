"""A slow rank over Gloo: its incident opens, and the site decides whether it is profiled."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services import Services
from tests.waiting import until

from .test_causes import CAUSES, running

SITE = """
classes:
  "*":
    slos: []
    profile_incidents: [straggler]
"""
SECONDS = 180.0
QUIET_SECONDS = 25.0
"""Longer than the collector takes to request a profile and a rank to begin it."""


@contextmanager
def watched(folder: Path, *options: str) -> Iterator[Services]:
    """Run two ranks, of which rank 1 is slow, with an agent and a collector."""
    with running("operator", folder) as (rings, _):
        paths = [path for path in sys.path if path]
        services = Services(folder, rings, paths, options)
        try:
            services.start()
            yield services
        finally:
            services.close()


def straggler(services: Services) -> dict[str, Any] | None:
    stragglers = [item for item in services.incidents("profiled") if item["kind"] == "straggler"]
    return stragglers[0] if stragglers else None


def words(services: Services) -> str:
    """What the incident says of a profile."""
    incident = straggler(services)
    texts = (
        [row["text"] for row in incident["evidence"] if row["name"] == "profile"]
        if incident
        else []
    )
    return texts[0] if texts else ""


def profiles(services: Services) -> Any:
    with httpx.Client(base_url=services.url) as client:
        return client.get("/v1/jobs/profiled/profiles").json()["profiles"]


@pytest.mark.long(
    "tests/collector/web/test_incident_profiles.py"
    "::test_an_incident_is_profiled_once_and_shows_what_came_of_it",
    "tests/agent/profiles/test_causes.py::test_an_operator_in_one_module",
)
def test_the_incident_names_the_operator_and_nobody_asked(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    with watched(tmp_path, "--site", str(tmp_path / "site.yaml")) as services:
        until("a request", lambda: words(services) != "", SECONDS)
        assert words(services) == "a profile is requested"
        until("the sentence", lambda: words(services) != "a profile is requested", SECONDS)
        assert re.fullmatch(CAUSES["operator"], words(services)), words(services)
        (profile,) = profiles(services)
        assert (profile["rank"], profile["peer"], profile["by"]) == (1, 0, "stepwatch")
        until("the metric", lambda: 'stepwatch_collector_profiles{outcome="compared"} 1.0'
              in httpx.get(services.url + "/metrics").text)  # fmt: skip


@pytest.mark.long(
    "tests/collector/web/test_incident_profiles.py"
    "::test_nothing_is_requested_that_the_site_does_not_name",
)
def test_without_the_option_nothing_is_requested(tmp_path: Path) -> None:
    with watched(tmp_path) as services:
        until("the incident", lambda: straggler(services) is not None, SECONDS)
        time.sleep(QUIET_SECONDS)
        assert words(services) == ""
        assert profiles(services) == []
