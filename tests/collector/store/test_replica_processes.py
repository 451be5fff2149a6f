"""Two real collectors over one PostgreSQL; one is stopped for longer than its lease, and wakes."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx

from stepwatch.collector.store import Store
from tests.collector.made import JOB, body, run_segments
from tests.collector.process import Process
from tests.postgresql import PostgresqlServer
from tests.waiting import until

SHORT = """
import sys
from stepwatch.collector.runtime import tenancy
from stepwatch.collector.store import leases
leases._LEASE_NS, tenancy.LEASE_SECONDS, tenancy.RENEW_SECONDS = 3_000_000_000, 3.0, 0.2
from stepwatch.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command with leases of 3 s: short for a test, and not lost by a machine that is busy."""
RUN = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)


def job_at(collector: Process) -> dict[str, Any]:
    """What a collector answers about the job; empty while it does not."""
    try:
        answer = httpx.get(f"{collector.url}/v1/jobs/{JOB}", timeout=10.0)
    except httpx.HTTPError:
        return {}
    document: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
    return document


def exported(collector: Process, line: str) -> bool:
    """Whether a line of /metrics begins so."""
    text = httpx.get(f"{collector.url}/metrics", timeout=10.0).text
    return any(text_line.startswith(line) for text_line in text.splitlines())


def evaluated(collector: Process) -> int:
    """How many jobs a collector evaluates: 0 or 1 here."""
    return int(exported(collector, "stepwatch_collector_jobs 1"))


def test_one_that_was_stopped_for_longer_than_its_lease_writes_nothing(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    url = postgresql.new_database()
    store = Store(url)
    pair = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        pair.append(Process(folder, url=url, program=("-c", SHORT)))
    first, second = pair
    try:
        for collector in pair:
            collector.start()
        for collector in pair:
            collector.wait_ready()
        until("both to know each other", lambda: exported(second, "stepwatch_collector_replicas 2"))
        assert first.send(body(RUN[:8])).status_code == 200
        until("the first to evaluate it", lambda: exported(first, "stepwatch_collector_jobs 1"))
        until("the other to answer", lambda: job_at(second).get("step") == 39)
        assert second.send(body(RUN[8:10])).status_code == 200
        until("what the other stored", lambda: job_at(first).get("step") == 49)
        first.send_signal(signal.SIGSTOP)
        until("a takeover", lambda: exported(second, "stepwatch_collector_jobs 1"))
        assert second.send(body(RUN[10:])).status_code == 200
        until("its verdict", lambda: bool(job_at(second).get("incidents")))
        first.send_signal(signal.SIGCONT)
        until("the first to be behind", lambda: exported(first, "stepwatch_collector_jobs 0"))
        until("its answer", lambda: job_at(first).get("step") == 59)
        time.sleep(1.0)  # some evaluations, in which it could do harm
        assert len(store.incidents.newest()) == 1
        assert [item["id"] for item in job_at(first)["incidents"]] == [
            store.incidents.newest()[0]["id"]
        ]
        until("one of them to evaluate it", lambda: sorted(map(evaluated, pair)) == [0, 1])
        for collector in pair:
            assert "Traceback" not in collector.log.read_text(), json.dumps(
                collector.log.read_text()
            )
    finally:
        for collector in pair:
            collector.end(signal.SIGKILL)
        store.close()
