"""A probe is added by adding its folder: its rows travel and its gauges are exported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from stepwatch.agent import probes
from stepwatch.agent.app import Agent
from stepwatch.agent.probes.registry import discover
from stepwatch.signals.records import Kind
from tests.agent.conftest import Rank, round_of, spooled

FAN = '''
"""The `fan` probe: speed of the node's fans."""
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from stepwatch.agent.probes.probe import Gauge, Probe, ProbeContext
from stepwatch.signals.names import Metric, MetricKind
from stepwatch.signals.records import DTYPES, UNKNOWN_RANK, Kind
from stepwatch.signals.wire import Rows

FAN_SPEED = Metric("stepwatch_node_fan_speed", MetricKind.GAUGE, "Speed.", ("node", "fan"))
FILE = Path(__file__).with_name("speed")


class FanProbe(Probe):
    """Reads a file with one number."""

    name = "fan"
    kind = Kind.FLIGHT
    expendable = True

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Make the probe."""
        return cls()

    def supported(self) -> bool:
        """Whether the file is there."""
        return FILE.exists()

    def read(self) -> Rows:
        """One row."""
        rows = np.zeros(1, dtype=DTYPES[Kind.FLIGHT])
        rows["rank"], rows["op"] = UNKNOWN_RANK, b"fan0"
        rows["collective_seq"] = int(FILE.read_text())
        return rows

    def gauges(self, rows: Rows) -> Iterator[Gauge]:
        """The speed of each fan."""
        for row in rows:
            yield Gauge(FAN_SPEED, (row["op"].decode(),), float(row["collective_seq"]))

    def close(self) -> None:
        """Note that it was closed."""
        FILE.with_name("closed").touch()
'''


@pytest.fixture
def add_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Adds a folder below `probes` that goes away with the test."""
    place = tmp_path / "more_probes"
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(place)])
    names = []

    def add(name: str, text: str) -> Path:
        folder = place / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(text)
        names.append(name)
        return folder

    yield add
    for name in names:
        sys.modules.pop(f"{probes.__name__}.{name}", None)
        vars(probes).pop(name, None)


def test_the_probes_of_this_repository() -> None:
    names = [probe.name for probe in discover()]
    assert {"host", "nic", "nvml", "ranks"} <= set(names)
    assert names == sorted(names)


def test_a_folder_is_all_that_a_probe_needs(
    tmp_path: Path, make_agent: Callable[..., Agent], add_probe: Callable[..., Path]
) -> None:
    folder = add_probe("fan", FAN)
    (folder / "speed").write_text("1200")
    rank = Rank(tmp_path / "rings")
    agent = make_agent()
    rank.steps(3)
    round_of(agent)
    (tables,) = spooled(agent)
    assert tables[Kind.FLIGHT][["op", "collective_seq"]].tolist() == [(b"fan0", 1200)]
    page = generate_latest(agent.registry).decode()
    assert 'stepwatch_node_fan_speed{fan="fan0",node="n1"} 1200.0' in page
    assert 'stepwatch_agent_probe_up{node="n1",probe="fan"} 1.0' in page
    (folder / "speed").unlink()
    round_of(agent)
    page = generate_latest(agent.registry).decode()
    assert "stepwatch_node_fan_speed{" not in page
    assert 'probe="fan",reason="no-source"' in page
    agent.close()
    assert (folder / "closed").exists()
    rank.ring.close()


def test_a_full_spool_may_drop_the_rows_of_a_probe_that_says_so(
    tmp_path: Path, make_agent: Callable[..., Agent], add_probe: Callable[..., Path]
) -> None:
    lasting = FAN.replace("expendable = True", "expendable = False")
    (add_probe("fan", lasting) / "speed").write_text("7")
    rank = Rank(tmp_path / "rings", capacity=4096)
    agent = make_agent(spool_limit_bytes=30_000)
    for _ in range(60):
        rank.steps(40)
        round_of(agent)
    assert agent.spool.dropped > 0
    segments = spooled(agent)
    assert all(Kind.FLIGHT in tables for tables in segments)
    assert Kind.NIC not in segments[0] and Kind.NIC in segments[-1]
    rank.ring.close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "defines 0 probes instead of one"),
        (FAN + "\n\nclass Second(FanProbe):\n    name = 'second'\n", "defines 2 probes"),
        (FAN.replace('name = "fan"', 'name = "host"'), "a second probe named 'host'"),
        (FAN.replace("Kind.FLIGHT", "Kind.HOST"), "reads HOST, as probe 'host' does: .* one value"),
    ],
)
def test_a_folder_without_one_probe_of_its_own_name_and_kind_is_refused(
    add_probe: Callable[..., Path], text: str, reason: str
) -> None:
    add_probe("zzz", text)
    with pytest.raises(TypeError, match=reason):
        discover()
