"""Where nobody wants them, hooks import, start, write and change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.signals.blackbox import find_rings
from stepwatch.signals.records import Kind

from .conftest import Run, only_ring, rows_in

IMPORTED = """
import json, sys, threading
import numpy
before = set(sys.modules)
import stepwatch.hooks
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([sorted(new - set(sys.stdlib_module_names)), threading.active_count()]))
"""


def test_importing_the_hooks_brings_in_numpy_and_nothing_else(run: Run) -> None:
    ended = run(IMPORTED)
    assert json.loads(ended.stdout) == [["stepwatch"], 1], ended.stderr


SLOW_TO_IMPORT = ("asyncio", "concurrent", "email", "http", "multiprocessing", "ssl", "unittest")


def test_importing_the_hooks_brings_in_no_slow_part_of_the_standard_library(run: Run) -> None:
    program = (
        "import sys, numpy\nbefore = set(sys.modules)\nimport stepwatch.hooks\n"
        f"print([name for name in {SLOW_TO_IMPORT} if name in set(sys.modules) - before])"
    )
    assert run(program).stdout.strip() == "[]"


USED = """
import sys, threading
from stepwatch.hooks import Watch
before = set(sys.modules)
watch = Watch.from_env(job="job")
for number in range(20):
    with watch.step(tokens=1) as step:
        for name in ("data", "forward", "backward", "optimizer"):
            with step.phase(name):
                pass
        with watch.collective("all_reduce", nbytes=8):
            pass
        step.record(loss=1.0, grad_norm=2)
    with watch.checkpoint(number) as saved:
        pass
    saved.written(nbytes=1, durable_seconds=0.1)
    saved.verified()
watch.resumed(from_step=1, checkpoint="step-1")
watch.attach()
for batch in watch.batches([1, 2]):
    pass
threads = threading.active_count()
watch.preempted()
watch.finish()
watch.close()
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(watch.guard.errors, threads, sorted(tops - {"stepwatch", *sys.stdlib_module_names}))
"""


@pytest.mark.parametrize("value", ["1", "yes", "0", ""])
def test_the_variable_switches_every_hook_off(run: Run, rings: Path, value: str) -> None:
    ended = run(USED, STEPWATCH_DISABLE=value, STEPWATCH_QUIET="1")
    off = value not in ("", "0")
    assert ended.stdout.split(" ", 2)[:2] == ["0", "1" if off else "2"], ended.stderr
    assert rings.exists() is not off
    assert ended.stderr == ""


def test_a_base_install_without_torch_or_anything_else_works(run: Run, rings: Path) -> None:
    refuse = """
import importlib.abc, sys
class OnlyNumpy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ("numpy", "stepwatch", *sys.stdlib_module_names):
            raise ImportError(name)
sys.meta_path.insert(0, OnlyNumpy())
"""
    ended = run(refuse + USED)
    assert ended.stdout.strip() == "0 2 []", ended.stderr
    assert len(rows_in(rings, Kind.STEP)) == 20


def test_without_an_agent_the_ring_wraps_and_the_trainer_goes_on(run: Run, rings: Path) -> None:
    program = """
from stepwatch.hooks import Watch
watch = Watch.from_env(job="job")
for number in range(9000):
    with watch.step():
        pass
print(watch.guard.errors)
watch.close()
"""
    assert run(program).stdout.strip() == "0"
    ring = only_ring(rings)
    assert ring.head > 2 * ring.identity.capacity
    assert rows_in(rings, Kind.STEP)["step"].max() == 8999


LOADER = """
import json, os, sys, threading
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
from stepwatch.hooks import Watch

watch = Watch.from_env(job="job")

class Seen(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        mine = Watch.from_env(job="job")
        with watch.step() as step, step.phase("data"), mine.phase("eval"):
            step.record(loss=index)
        threads = [thread.name for thread in threading.enumerate()]
        return json.dumps([os.getpid(), watch.enabled, mine.enabled, watch.guard.errors,
                           "stepwatch-heartbeat" in threads])

if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(Seen(), batch_size=None, num_workers=2, multiprocessing_context=sys.argv[1])
    seen = []
    for item in watch.batches(loader):
        with watch.step():
            seen.append(json.loads(item))
    watch.close()
    print(json.dumps([os.getpid(), watch.guard.errors, seen]))
"""


LONG = pytest.mark.long("tests/hooks/test_inactive.py::test_workers_of_a_data_loader_are_no_ranks")


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=LONG)])
def test_workers_of_a_data_loader_are_no_ranks(
    run: Run, rings: Path, tmp_path: Path, method: str
) -> None:
    pytest.importorskip("torch", reason="the DataLoader is torch's")
    program = tmp_path / "loader.py"
    program.write_text(LOADER)
    # As a script: spawned children import it again, as `__mp_main__`.
    as_script = f"runpy.run_path({str(program)!r}, run_name='__main__')"
    ended = run(f"import runpy, sys\nsys.argv = ['x', {method!r}]\n{as_script}")
    assert ended.returncode == 0, ended.stderr[-3000:]
    rank, errors, open_rings = json.loads(ended.stdout)
    assert errors == 0, ended.stderr
    assert len(open_rings) == 4
    assert rank not in {pid for pid, *_ in open_rings}
    assert [facts for _, *facts in open_rings] == [[False, False, 0, False]] * 4
    assert len(list(find_rings(rings))) == 1
    assert only_ring(rings).identity.pid == rank
    assert rows_in(rings, Kind.STEP)["step"].tolist() == [0, 1, 2, 3]
    assert (rows_in(rings, Kind.STEP)["data_ns"] > 0).all()


COMPILED = """
import json, os, sys
import torch
from torch._dynamo.utils import counters
from stepwatch.hooks import Watch

def build():
    torch.manual_seed(3)
    torch._dynamo.reset()
    counters.clear()
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

def train(watch, inside):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch.attach(model=model, optimizer=optimizer)
    forward = torch.compile(model, backend="aot_eager", fullgraph=True) if not inside else model
    def one(x):
        with watch.step(tokens=4) as step:
            with step.phase("forward"):
                loss = forward(x).square().mean()
            with step.phase("backward"):
                loss.backward()
            step.record(loss=loss)
        return loss
    call = torch.compile(one, backend="aot_eager") if inside else one
    losses = []
    for number in range(5):
        losses.append(float(call(torch.ones(4, 8) * number).detach()).hex())
        optimizer.step()
        optimizer.zero_grad()
    breaks = sum(counters["graph_break"].values())
    return losses, counters["stats"]["unique_graphs"], breaks

inside = sys.argv[-1] == "inside"
os.environ["STEPWATCH_DISABLE"] = "1"
plain = train(Watch.from_env(), inside)
del os.environ["STEPWATCH_DISABLE"]
watch = Watch.from_env(job="job")
watched = train(watch, inside)
watch.close()
print(json.dumps([plain, watched, watch.guard.errors]))
"""


def compiled(run: Run, where: str) -> Any:
    """Losses, graphs and graph breaks without and with hooks, and the hooks' errors."""
    pytest.importorskip("torch", reason="torch.compile is torch's")
    ended = run(f"import sys; sys.argv = ['x', {where!r}]\n" + COMPILED)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


def test_a_compiled_model_stays_whole_inside_a_step(run: Run, rings: Path) -> None:
    plain, watched, errors = compiled(run, "outside")
    assert (watched, errors) == (plain, 0)
    losses, graphs, breaks = watched
    assert (len(set(losses)), graphs, breaks) == (5, 1, 0)
    steps = rows_in(rings, Kind.STEP)
    assert (steps["forward_ns"] > 0).all() and (steps["backward_ns"] > 0).all()


def test_hooks_inside_a_compiled_function_change_no_loss(run: Run, rings: Path) -> None:
    (plain, *_), (losses, *_), errors = compiled(run, "inside")
    assert (losses, errors) == (plain, 0)
    steps = rows_in(rings, Kind.STEP)
    assert steps["step"].tolist() == list(range(5))
    assert (steps["forward_ns"] > 0).all() and (steps["backward_ns"] > 0).all()
    assert [float(loss).hex() for loss in steps["loss"].astype(float)] == losses
