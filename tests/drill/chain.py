"""The whole chain on one machine, and what one drill shows of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
import yaml

from stepwatch.signals.names import ALERT_OF, FindingKind
from tests.alerts.routes.sites import Pager
from tests.ports import free_port
from tests.postgresql import PostgresqlServer
from tests.soak.processes import CLI, Collector, end, spawn
from tests.verdicts.real.links import Links

from .faults import PAGE, TICKET, Drill, Expected
from .servers import DrillError, Servers, build
from .training import NODES, Training

START_SECONDS, FOUND_SECONDS, PAGED_SECONDS, RESOLVED_SECONDS = 120.0, 180.0, 120.0, 300.0
_STEP_SECONDS = 0.3
T = TypeVar("T")


class Row(NamedTuple):
    """What a drill showed; seconds count from when the job made the step at which the fault
    begins, NaN where it never came. `problems` are what is not as it should be."""

    name: str
    kind: str
    cause: str
    rank: int
    severity: str
    found_seconds: float
    paged_seconds: float
    resolved_seconds: float
    pages: int
    problems: tuple[str, ...]


class Chain:
    """PostgreSQL, two collectors, an agent a node, Prometheus, Alertmanager, a pager, a trainer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pager = Pager()
        self.links = Links(_STEP_SECONDS)
        self.database = PostgresqlServer()
        self.database.start()
        store = self.database.new_database()
        self.collectors = [Collector(folder, f"collector-{at}", store) for at in range(2)]
        ports = [free_port() for _ in range(NODES)]
        self.servers = Servers(
            folder,
            {
                "collector": [each.url.removeprefix("http://") for each in self.collectors],
                "agent": [f"127.0.0.1:{port}" for port in ports],
            },
        )
        self.training = Training(folder, self.links)
        self._ports, self._agents = ports, []  # type: ignore[var-annotated]

    def start(self) -> None:
        """Start everything but a training.

        Raises:
            DrillError: something does not start.
        """
        site = self.folder / "site.yaml"
        site.write_text(yaml.safe_dump(self._site()))
        build(site, self.folder)
        for collector in self.collectors:
            collector.start()
        for node, port in enumerate(self._ports):
            words = (
                *CLI, "agent", "--collector", self.collectors[node % 2].url, "--port", str(port),
                "--node", f"node-{node}", "--ring-dir", str(self.training.rings[node]),
                "--spool", str(self.folder / f"spool-{node}"), "--kernel-log", "/dev/null",
            )  # fmt: skip
            self._agents.append(spawn(self.folder / f"agent-{node}.log", *words))
        self.servers.start()

    def close(self) -> None:
        """End everything."""
        self.training.stop()
        for agent in self._agents:
            end(agent, 15, 10.0)
        self.servers.close()
        for collector in self.collectors:
            collector.end()
        self.database.remove()
        self.links.close()
        self.pager.close()

    def run(self, drill: Drill) -> Row:
        """Train with the fault until it arrives, then restart without it until its end arrives."""
        job = "drill-" + drill.name.replace(" + ", "-and-")
        self.training.start(job, drill.faults, drill.flags)
        first = self._reached(job, 1)
        onset = int(drill.faults[0].partition("step=")[2].partition(",")[0])
        began = self._reached(job, onset)
        found = _await(FOUND_SECONDS, lambda: self._incident(job, drill))
        if found is None:
            self.training.stop()
            seen = [(each["kind"], each["cause"]) for each in self.incidents(job)]
            nothing = f"no such incident; seen: {seen or 'none'}"
            return Row(drill.name, "none", "", -1, "", _NEVER, _NEVER, _NEVER, 0, (nothing,))
        incident, expected = found
        found_after = time.time() - began
        alert = ALERT_OF[FindingKind(incident["kind"])]
        arrived = _await(PAGED_SECONDS, lambda: self._deliveries(job, alert, "firing"))
        paged_after = time.time() - began if arrived else _NEVER
        problems = list(self._checked(incident, expected, arrived or [], job, alert))
        self.training.start(job, ())  # the runbook's: restart it elsewhere
        over = _await(RESOLVED_SECONDS, lambda: self._is_over(job, incident["id"], alert, expected))
        resolved_after = time.time() - began if over else _NEVER
        if not over:
            problems.append("it is not over")
        self.training.stop()
        pages = len(self._deliveries(job, alert, "firing"))
        if pages > 1:
            problems.append(f"{pages} notifications for one incident")
        assert first <= began
        return Row(
            drill.name, incident["kind"], incident["cause"], incident["rank"], expected.severity,
            found_after, paged_after, resolved_after, pages, tuple(problems),
        )  # fmt: skip

    def healthy(self, seconds: float) -> int:
        """Train without a fault, and restart in between; returns how many notifications came."""
        before = len(self.notifications())
        until = time.time() + seconds
        while time.time() < until:
            self.training.start("drill-healthy", (), ("--checkpoint-every", "20"))
            self._reached("drill-healthy", 1)
            time.sleep(min(120.0, max(1.0, until - time.time())))
        self.training.stop()
        return len(self.notifications()) - before

    def incidents(self, job: str) -> list[dict[str, Any]]:
        """Incidents of a job."""
        found: list[dict[str, Any]] = self._get("/v1/incidents", job=job)["incidents"]
        return found

    def notifications(self) -> list[tuple[str, str, str, str]]:
        """All that arrived: path, job, alert, and whether it fires or is resolved."""
        return [
            (path, each["labels"].get("job_name", ""), each["labels"]["alertname"], each["status"])
            for path in (f"/{PAGE}", f"/{TICKET}")
            for body in self.pager.at(path)
            for each in body["alerts"]
        ]

    def _checked(
        self, incident: dict[str, Any], expected: Expected, arrived: list[str], job: str, alert: str
    ) -> Iterator[str]:
        if not expected.is_right(incident):
            yield f"because of {incident['cause']} at rank {incident['rank']}"
        if not arrived:
            yield f"{alert} did not arrive"
        elif arrived != [f"/{expected.severity}"]:
            yield f"it arrived at {', '.join(arrived)}"
        page = f"{self.collectors[0].url}/v1/runbooks/{alert}?job={job}"
        if httpx.get(page, timeout=20.0, follow_redirects=True).status_code != 200:
            yield "its runbook does not open"
        query = {"query": f'stepwatch_incident_open{{job_name="{job}"}}'}
        asked = httpx.get(f"{self.servers.prometheus}/api/v1/query", params=query, timeout=20.0)
        if not asked.json()["data"]["result"]:
            yield "its dashboard has no data"

    def _deliveries(self, job: str, alert: str, status: str) -> list[str]:
        found = self.notifications()
        return [
            path for path, of, name, state in found if (of, name, state) == (job, alert, status)
        ]

    def _is_over(self, job: str, incident: str, alert: str, expected: Expected) -> bool:
        """Whether an incident is resolved and, of a page, its end has arrived: ends of tickets wait
        five minutes for each other, and no drill waits for that."""
        if expected.severity == PAGE and not self._deliveries(job, alert, "resolved"):
            return False
        states = [each["state"] for each in self.incidents(job) if each["id"] == incident]
        return states == ["resolved"]

    def _incident(self, job: str, drill: Drill) -> tuple[dict[str, Any], Expected] | None:
        for incident in self.incidents(job):
            for expected in drill.expected:
                if expected.fits(incident):
                    return incident, expected
        return None

    def _reached(self, job: str, step: int) -> float:
        """The moment at which a job has made a step, Unix seconds.

        Raises:
            DrillError: it never does.
        """

        def there() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return int(self._get(f"/v1/jobs/{job}").get("step") or 0) >= step
            return False

        if not _await(START_SECONDS, there):
            raise DrillError(f"{job} did not reach step {step}; see {self.folder / job}")
        return time.time()

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        answer = httpx.get(f"{self.collectors[0].url}{path}", params=query, timeout=20.0)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def _site(self) -> dict[str, Any]:
        def webhook(name: str) -> dict[str, Any]:
            return {"webhook": {"url": f"{self.pager.url}/{name}", "without_secret": True}}

        return {
            "alerting": {
                "receivers": {name: webhook(name) for name in (PAGE, TICKET, "dead-man")},
                "default": {"page": PAGE, "ticket": TICKET},
                "dead_man": {"receiver": "dead-man", "every": "30s"},
            }
        }


_NEVER = float("nan")


def _await(seconds: float, holds: Callable[[], T | None]) -> T | None:
    """The first true answer, None if there is none in so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := holds():
            return found
        time.sleep(0.2)
    return None
