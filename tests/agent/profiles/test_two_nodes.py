"""A profile requested of a collector: two ranks on two nodes, each with its own agent."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwatch.signals import places
from tests.services import Services
from tests.waiting import until

from .test_causes import CAUSES, running

NODES = ("node-a", "node-b")


@contextmanager
def agent(services: Services, rings: Path, folder: Path, *options: str) -> Iterator[None]:
    """Run a second node's agent for the time of the block."""
    words = ["--collector", services.url, "--ring-dir", str(rings), "--port", "0", *options]
    with (folder / "agent.log").open("w") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "stepwatch.cli", "agent", *words, "--spool", str(folder / "s")],
            env=services.environ,
            stderr=log,
        )
    try:
        yield
    finally:
        started.terminate()
        started.wait(30)


@contextmanager
def site(cause: str, folder: Path, *options: str) -> Iterator[Services]:
    """Run two ranks, a node each; `options` are the second agent's."""
    with running(cause, folder, apart=True) as (first, second):
        paths = [path for path in sys.path if path]
        services = Services(folder, first, paths, agent_options=["--node", NODES[0]])
        try:
            services.start()
            other = folder / "other"
            other.mkdir()
            with agent(services, second, other, "--node", NODES[1], *options):
                until("ranks of both nodes", lambda: _nodes(services) == [*NODES])
                yield services
        finally:
            services.close()


def _nodes(services: Services) -> list[str | None]:
    document = services.job("profiled")
    is_known = document is not None and (document["step"] or 0) > 20
    return [rank["node"] for rank in document["ranks"]] if document and is_known else []


def profiled(services: Services, rings: Path, *words: str) -> tuple[int, Any]:
    """Run `stepwatch profile` on a node; return its exit code and its JSON."""
    command = [sys.executable, "-m", "stepwatch.cli", "profile", "profiled", *words, "--json"]
    environ = {**services.environ, places.ENV_RING_DIR: str(rings)}
    environ |= {places.ENV_COLLECTOR: services.url}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


@pytest.mark.long(
    "tests/agent/profiles/test_requests.py::test_each_request_is_run_once_and_its_traces_arrive",
    "tests/collector/web/test_profiles.py::test_two_traces_become_a_sentence_in_the_incident",
)
def test_the_collector_asks_both_nodes_and_names_the_operator(tmp_path: Path) -> None:
    with site("operator", tmp_path) as services:
        out = tmp_path / "out"
        # Rank 0 runs on this node alone: the ring directory is the first node's.
        words = ("--rank", "1", "--steps", "4", "--out", str(out), "--by", "ada")
        code, document = profiled(services, services.rings, *words)
        assert code == 0, document
        assert re.fullmatch(CAUSES["operator"], document["sentence"]), document["sentence"]
        assert (document["rank"], document["peer"], document["steps"]) == (1, 0, 4)
        for path in document["traces"]:
            assert json.loads(gzip.decompress(Path(path).read_bytes()))["traceEvents"]
        with httpx.Client(base_url=services.url) as client:
            (stored,) = client.get("/v1/jobs/profiled/profiles").json()["profiles"]
        assert (stored["state"], stored["by"]) == ("compared", "ada")
        assert [trace["node"] for trace in stored["traces"]] == [*NODES]
