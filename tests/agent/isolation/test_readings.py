"""A reading is fresh or unknown, and every probe is closed in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client import generate_latest

from stepwatch.agent.app import Agent
from stepwatch.agent.probes.host import HostProbe
from stepwatch.signals import names
from tests.agent.conftest import round_of, use_probe
from tests.agent.fake_proc import Proc
from tests.waiting import until


@pytest.mark.parametrize(
    "content", ["", "\n", "garbage", "cpu", "cpu x y z w", "cpu 1 2", "\0" * 99]
)
@pytest.mark.parametrize("name", ["stat", "loadavg", "meminfo", "vmstat", "pressure/cpu"])
def test_garbage_in_proc_is_never_more_than_an_unreadable_probe(
    proc: Proc, make_agent: Callable[..., Agent], name: str, content: str
) -> None:
    agent = make_agent()
    use_probe(agent, HostProbe(agent.clock, proc.folder))

    def reads(*, up: bool) -> bool:
        """Whether a round leaves the probe so; on a busy machine its process may answer late."""
        round_of(agent)
        return agent.readings.up.get("host") is up

    until("a good reading", lambda: reads(up=True))
    (proc.folder / name).write_text(content)
    if name == "stat":
        until("an unreadable probe", lambda: reads(up=False))
        assert b"stepwatch_node_cpu_busy_ratio{" not in generate_latest(agent.registry)
    round_of(agent)
    proc.set(busy=150, idle=920, steal=30, faults=40)
    until("a good reading", lambda: reads(up=True))


class Closing(HostProbe):
    """Notes beside `/proc/stat` that it was closed."""

    def close(self) -> None:
        """Add a line."""
        with (self._proc / "closed").open("a") as closed:
            closed.write("once\n")


def test_every_probe_is_closed_with_the_agent(proc: Proc, make_agent: Callable[..., Agent]) -> None:
    agent = make_agent()
    use_probe(agent, Closing(agent.clock, proc.folder))
    round_of(agent)
    agent.close()
    assert (proc.folder / "closed").read_text() == "once\n"


def test_a_source_that_disappears_leaves_no_reading_behind(
    proc: Proc, make_agent: Callable[..., Agent], caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent()
    use_probe(agent, HostProbe(agent.clock, proc.folder))
    round_of(agent)
    assert names.NODE_MEMORY_AVAILABLE.name + "{" in generate_latest(agent.registry).decode()
    (proc.folder / "stat").unlink()
    for _ in range(3):
        round_of(agent)
    text = generate_latest(agent.registry).decode()
    assert names.NODE_MEMORY_AVAILABLE.name + "{" not in text, "an old reading is not a fresh one"
    assert 'stepwatch_agent_probe_up{node="n1",probe="host"} 0.0' in text
    unknown = 'stepwatch_agent_probe_unknown{node="n1",probe="host",reason="no-source"} 1.0'
    assert unknown in text and caplog.text.count("probe host is unknown") == 1
    proc.set(busy=150, idle=920, steal=30, faults=40)
    round_of(agent)
    text = generate_latest(agent.registry).decode()
    assert 'stepwatch_agent_probe_up{node="n1",probe="host"} 1.0' in text
    assert unknown not in text
