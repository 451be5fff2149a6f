"""`/metrics` of an agent holds declared metrics and no NaN."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.agent.app import Agent
from stepwatch.agent.probes.host import HostProbe
from stepwatch.signals import names
from tests.agent.conftest import Rank, round_of, use_probe
from tests.agent.fake_proc import Proc


def test_metrics_are_the_declared_ones_and_never_nan(
    tmp_path: Path, make_agent: Callable[..., Agent], proc: Proc
) -> None:
    ranks = [Rank(tmp_path / "rings", rank, job=job) for job in ("a", "b") for rank in range(2)]
    agent = make_agent()
    use_probe(agent, HostProbe(agent.clock, proc.folder))
    text_before = generate_latest(agent.registry).decode()
    for rank in ranks:
        rank.steps(3)
    for _ in range(2):
        proc.set(busy=200, idle=1000, steal=0, faults=10)
        round_of(agent)
    text = generate_latest(agent.registry).decode()
    for page in (text_before, text):
        assert "nan" not in page.lower()
        declared = {metric.name: metric for metric in names.METRICS}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                assert set(sample.labels) == set(declared[sample.name].labels)
                assert family.documentation == declared[sample.name].help
    values = {
        (sample.name, sample.labels.get("job_name")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values[names.AGENT_RECORDS.name, None] == 12
    assert values[names.NODE_RANKS.name, "a"] == values[names.NODE_RANKS.name, "b"] == 2
    assert values[names.NODE_MEMORY_AVAILABLE.name, None] == 250 * 1024
    (proc.folder / "meminfo").write_text("")
    round_of(agent)
    assert names.NODE_MEMORY_AVAILABLE.name + "{" not in generate_latest(agent.registry).decode()
    for rank in ranks:
        rank.ring.close()
