"""The import of the hooks: cheap where torch is loaded; the collector stays as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

COUNT = """
import gc
generations = []
gc.callbacks.append(lambda phase, info: generations.append(info["generation"]))
gc.collect()
gc.set_threshold(700, 3, 3)
{before}
enabled = gc.isenabled()
del generations[:]
import stepwatch.hooks
assert not any(generations), generations
assert gc.isenabled() is enabled
"""


@pytest.mark.parametrize("before", ["", "gc.disable()"])
def test_no_older_objects_are_collected_during_the_import(before: str) -> None:
    subprocess.run([sys.executable, "-c", COUNT.format(before=before)], check=True)


def test_a_failed_import_leaves_the_collector_running() -> None:
    program = """
import gc, sys
sys.modules["stepwatch.hooks.watch"] = None
try:
    import stepwatch.hooks
except ImportError:
    assert gc.isenabled()
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_parsers_and_patterns_are_loaded_only_where_a_rank_fails() -> None:
    program = (
        "import sys, stepwatch.hooks\n"
        "late = {'tomllib', 'stepwatch.signals.secrets', 'stepwatch.signals.exits', 'torch'}\n"
        "assert not late & sys.modules.keys(), late & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
