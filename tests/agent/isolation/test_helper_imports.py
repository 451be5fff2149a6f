"""What a process of probes imports: it stays in memory on every node, beside the agent."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {"numpy", "zstandard", "prometheus_client", "multiprocessing", "logging", "subprocess"}
MOST_MODULES = 210
"""Bare Python imports about 60; `json`, `dataclasses`, `tomllib` and `ctypes` together 60."""
PROGRAM = """
import json, sys
from pathlib import Path
from stepwatch.agent.isolation.helper import Helper
from stepwatch.agent.isolation.recipe import build_probe, recipe_of
from stepwatch.agent.probes.probe import RankProcesses
for recipe in json.loads(sys.argv[1]):
    build_probe(recipe, RankProcesses()).supported()
print(json.dumps(sorted(sys.modules)))
"""


def test_a_process_of_probes_imports_little() -> None:
    from stepwatch.agent.isolation.recipe import recipe_of
    from stepwatch.agent.probes import ProbeContext
    from stepwatch.agent.probes.registry import discover
    from stepwatch.signals.clock import SystemClock

    context = ProbeContext(SystemClock(), lambda: ())
    kinds = [kind for kind in discover() if kind.isolated and kind.is_enabled(context)]
    recipes = json.dumps([recipe_of(kind.build(context)) for kind in kinds])
    words = [sys.executable, "-c", PROGRAM, recipes]
    modules = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert len(modules) <= MOST_MODULES
