"""Profiles of ranks on other nodes, requested through the collector."""

from __future__ import annotations

import argparse
import time
from typing import Any

from stepwatch.cli.source import SourceError, component, request, request_bytes

POLL_SECONDS = 1.0
_ASKED = "asked"


def profile_remote(arguments: argparse.Namespace) -> dict[str, Any]:
    """Request a profile and return its document once it is compared or has failed.

    Raises:
        SourceError: the collector does not answer or refuses, or the time is over.
        UsageError: the job's name is invalid.
    """
    path = f"/v1/jobs/{component(arguments.job, 'job')}/profiles"
    wanted = {"rank": arguments.rank, "steps": arguments.steps, "by": arguments.by}
    if arguments.peer is not None:
        wanted["peer"] = arguments.peer
    until_s = time.monotonic() + arguments.timeout
    profile: dict[str, Any] = request(arguments, "POST", path, json=wanted)
    while profile["state"] == _ASKED:
        if time.monotonic() > until_s:
            raise SourceError(
                f"profile {profile['id']} has no result after {arguments.timeout:.0f} s; the "
                "collector keeps it once it has: pass --timeout, or look at the incident later"
            )
        time.sleep(POLL_SECONDS)
        listed = request(arguments, "GET", path)["profiles"]
        profile = next((item for item in listed if item["id"] == profile["id"]), profile)
    return profile


def fetch_trace(arguments: argparse.Namespace, identity: str, rank: int) -> bytes:
    """Return a rank's gzip trace.

    Raises:
        SourceError: the collector does not answer, or has no trace.
    """
    return request_bytes(arguments, f"/v1/profiles/{identity}/traces/{rank}")
