"""Every query of every dashboard on a real Prometheus that scraped a collector and an agent."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.alerts.links import DEFAULT_GRAFANA, DEFAULT_RUNBOOKS, Links
from stepwatch.cli import artefacts
from tests.agent.probes.nvml import scripted
from tests.dashboards.served.grafana import Source, Target, filled, targets
from tests.drill.servers import Servers
from tests.ports import free_port
from tests.services import Services
from tests.soak.processes import CLI, end, spawn
from tests.waiting import until

EMPTY: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("empty.toml").read_text(encoding="utf-8")
)
"""Panels that may be empty here, by file of the dashboard, each with the reason."""
BOARDS = {
    artefact.name: artefact.text
    for artefact in artefacts.build(
        Links(DEFAULT_RUNBOOKS, DEFAULT_GRAFANA), [artefacts.DASHBOARDS]
    )
}
_SIMULATED = ("--ranks", "16", "--step-seconds", "0.5", "--seconds", "600")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    folder = tmp_path_factory.mktemp("served")
    scripted.build(folder)
    scripted.Driver(folder / "driver", devices=2)
    environ = {
        "LD_LIBRARY_PATH": str(folder),
        scripted.ENV_SCRIPT: str(folder / "driver"),
    }
    port = free_port()
    words = ["--port", str(port), "--kernel-log", "/dev/null", "--node", "node-0"]
    services = Services(folder, folder / "rings", sys.path, agent_options=words, environ=environ)
    addresses = {
        "collector": [services.url.removeprefix("http://")],
        "agent": [f"127.0.0.1:{port}"],
    }
    servers = Servers(folder, addresses)
    found = Source(servers.prometheus)
    simulation: list[subprocess.Popen[bytes]] = []
    try:
        services.start()
        servers.start_prometheus()
        simulate = [*CLI, "simulate", "--collector", services.url, *_SIMULATED]
        simulation.append(spawn(folder / "simulate.log", *simulate))
        until("rates of tokens", lambda: _has(found, "rate(stepwatch_phase_seconds_total[20s])"))
        until("coverage", lambda: _has(found, "stepwatch_job_telemetry_coverage_ratio"))
        until("devices", lambda: _has(found, "stepwatch_node_device_busy_ratio"))
        yield found
    finally:
        found.close()
        for each in simulation:
            end(each, 9)
        servers.close()
        services.close()


def _has(source: Source, expr: str) -> bool:
    return bool(source.ask(expr, True, time.time())[1])


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_every_panel_has_data_or_a_reason(source: Source, board: str) -> None:
    variables = source.variables(BOARDS[board])
    now = time.time()
    found: dict[str, bool] = {}
    for target in targets(board, BOARDS[board]):
        series = _answer(source, target, filled(target.expr, variables), now)
        found[target.title] = found.get(target.title, False) or series > 0
    empty = {title for title, has in found.items() if not has}
    excused = set(EMPTY.get(board, {}))
    missing = ", ".join(sorted(empty - excused))
    assert not missing, f"empty without a reason in empty.toml: {missing}"
    assert excused <= set(found), "empty.toml excuses panels that do not exist"


def _answer(source: Source, target: Target, expr: str, now: float) -> int:
    assert "$" not in expr, expr
    kind, series = source.ask(expr, target.instant, now)
    assert kind == ("vector" if target.instant else "matrix"), expr
    # Per rank there would be sixteen; a table holds twenty rows, a line panel far fewer.
    assert len(series) <= 20, f"{target.title}: {len(series)} series"
    return len(series)


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_prometheus_takes_the_annotations(source: Source, board: str) -> None:
    variables = source.variables(BOARDS[board])
    for each in json.loads(BOARDS[board]).get("annotations", {}).get("list", []):
        if "expr" in each:
            kind, _ = source.ask(filled(each["expr"], variables), False, time.time())
            assert kind == "matrix"


def test_values_of_several_are_alternatives_and_taken_literally() -> None:
    assert filled('a{b=~"$job"}', {"job": ["x.y", "z"]}) == 'a{b=~"(x\\\\.y|z)"}'
    assert filled('a{b=~"$job"}', {"job": ["one"]}) == 'a{b=~"one"}'
