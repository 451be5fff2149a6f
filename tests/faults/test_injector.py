"""Faults trigger exactly where they are addressed, once or always."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.rings.processes import process_facts
from stepwatch.faults import Injector, parse_fault
from stepwatch.faults.specs import WrongOrder, WrongShape
from stepwatch.signals import places
from stepwatch.signals.errors import UsageError
from stepwatch.signals.records import ProcessState
from tests.ranks.forked import ForkedRanks
from tests.waiting import until

POINTS = ("step", "data", "forward", "backward", "optimizer", "collective", "transfer")
SAVING = ("checkpoint:begin", "checkpoint:write")


def injector(*texts: str, rank: int = 1, attempt: int = 0, **more: Any) -> Injector:
    faults = [fault for text in texts if (fault := parse_fault(text)) is not None]
    return Injector(faults, rank=rank, attempt=attempt, **more)


def sleeps_of(faults: Injector, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float]]:
    """(point, step, seconds) of every sleep in six steps."""
    sleeps: list[tuple[str, int, float]] = []
    where: tuple[str, int] = ("", 0)
    monkeypatch.setattr(time, "sleep", lambda seconds: sleeps.append((*where, seconds)))
    for step in range(6):
        for point in POINTS + SAVING:
            where = (point, step)
            faults.reach(point, step)
    return sleeps


def test_slowness_triggers_at_its_point_in_each_of_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = injector("slow-compute:rank=1,step=2,until=4,seconds=0.5", "slow-data:rank=1,step=5")
    assert sleeps_of(faults, monkeypatch) == [
        ("forward", 2, 0.5),
        ("forward", 3, 0.5),
        ("data", 5, 0.5),
    ]


def test_intermittent_slowness_triggers_in_each_nth_step(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = injector("slow-compute:rank=1,step=1,every=3,seconds=0.5")
    assert sleeps_of(faults, monkeypatch) == [("forward", 1, 0.5), ("forward", 4, 0.5)]


def test_a_slow_collective_triggers_inside_it_and_a_stalled_checkpoint_where_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = injector("slow-collective:rank=1,step=5", "checkpoint-stall:rank=1,step=5,seconds=2")
    assert sleeps_of(faults, monkeypatch) == [("transfer", 5, 0.3), ("checkpoint:begin", 5, 2.0)]


@pytest.mark.parametrize(("rank", "hit"), [(2, True), (3, True), (0, False)])
def test_an_imbalance_triggers_every_rank_of_the_stage(
    monkeypatch: pytest.MonkeyPatch, rank: int, hit: bool
) -> None:
    stage = range(2, 4) if rank >= 2 else range(2)
    faults = injector("stage-imbalance:rank=3,step=5,seconds=1", rank=rank, stage_ranks=stage)
    assert sleeps_of(faults, monkeypatch) == ([("forward", 5, 1.0)] if hit else [])


def test_memory_grows_with_every_step_and_stays() -> None:
    faults = injector("memory-growth:rank=1,step=2,nbytes=1000000")
    for step in range(5):
        faults.reach("step", step)
    assert [len(block) for block in faults._grown_memory] == [1_000_000] * 3
    assert faults._grown_memory[0][4096] == 1


def test_a_trainer_commits_once_what_only_it_can() -> None:
    faults = injector("wrong-order:rank=1,step=2", "wrong-shape:rank=1,step=3")
    assert [faults.due(WrongOrder, step) is not None for step in range(5)] == [
        step == 2 for step in range(5)
    ]
    assert [faults.due(WrongShape, step) is not None for step in range(5)] == [
        step == 3 for step in range(5)
    ]


def test_a_skewed_shard_stays_skewed() -> None:
    faults = injector("skewed-shard:rank=1,step=2,until=4,ratio=1.5")
    assert [faults.skew(step) for step in range(5)] == [1.0, 1.0, 1.5, 1.5, 1.0]
    assert injector("skewed-shard:rank=0,step=0").skew(1) == 1.0


def test_the_log_has_when_a_fault_first_triggered(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environ = {places.ENV_FAULTS: "slow-data:rank=1,step=2,seconds=0"}
    faults = Injector.from_env(rank=1, environ={**environ, places.ENV_FAULT_LOG: str(log)})
    began = time.time()
    for step in range(5):
        faults.reach("data", step)
    fact = json.loads(log.read_text())
    assert (fact["fault"], fact["rank"], fact["step"]) == ("slow-data", 1, 2)
    assert began <= fact["at"] <= time.time()


def test_a_hang_triggers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = injector("hang:rank=1,step=2,seconds=9")
    assert sleeps_of(faults, monkeypatch) == [("forward", 2, 9.0)]


@pytest.mark.parametrize(("rank", "attempt"), [(0, 0), (1, 1)])
def test_others_are_left_alone(monkeypatch: pytest.MonkeyPatch, rank: int, attempt: int) -> None:
    faults = injector("hang:rank=1,step=0", "kill:rank=1,step=0", rank=rank, attempt=attempt)
    assert sleeps_of(faults, monkeypatch) == []


def test_faults_come_from_the_environment() -> None:
    environ = {places.ENV_FAULTS: "none;hang:rank=1,attempt=2;;", "TORCHELASTIC_RESTART_COUNT": "2"}
    chosen = Injector.from_env(rank=1, environ=environ)
    assert len(chosen._faults) == 1
    assert Injector.from_env(rank=1, environ={})._faults == []
    with pytest.raises(UsageError, match="did you mean 'hang'"):
        Injector.from_env(rank=0, environ={places.ENV_FAULTS: "hung"})
    with pytest.raises(UsageError, match="TORCHELASTIC_RESTART_COUNT"):
        Injector.from_env(rank=0, environ={"TORCHELASTIC_RESTART_COUNT": "twice"})


VICTIM = """
import sys
from stepwatch.faults import Injector, parse_fault
faults = Injector([parse_fault(sys.argv[1])], rank=1, attempt=0)
for step in range(4):
    for point in ("step", "checkpoint:stage", "checkpoint:write"):
        print(point, step, flush=True)
        faults.reach(point, step)
"""


def victim(fault: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", VICTIM, fault]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("fault", "last"),
    [
        ("kill:rank=1,step=2", "step 2"),
        ("kill:rank=1,step=1,stage=write", "checkpoint:write 1"),
        ("kill:rank=0,step=1", "checkpoint:write 3"),
    ],
)
def test_a_kill_triggers_a_real_process_at_its_point(fault: str, last: str) -> None:
    process = victim(fault)
    out, _ = process.communicate(timeout=300)
    assert out.splitlines()[-1] == last
    assert process.returncode == (0 if "rank=0" in fault else -signal.SIGKILL)


def test_a_stop_stops_a_real_process_once() -> None:
    process = victim("stop:rank=1,step=1")
    until("the stop", lambda: process_facts(process.pid, 0).state is ProcessState.STOPPED)
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=300)
    assert (process.returncode, out.splitlines()[-1]) == (0, "checkpoint:write 3")


def test_a_rank_s_own_gradient_becomes_nan_in_that_step_only() -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    faults, step = injector("nan-gradients:rank=1,step=3"), 0
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    faults.poison(model, lambda: step)
    for step in range(6):
        model.zero_grad()
        for _ in range(2):  # micro-batches
            model(torch.ones(4, 3)).sum().backward()
        broken = [int(torch.isnan(parameter.grad).sum()) for parameter in model.parameters()]
        assert broken == ([1, 0, 0, 0] if step == 3 else [0, 0, 0, 0])


REDUCED = """
import os, sys
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from stepwatch.faults import Injector, parse_fault
dist.init_process_group("gloo")
faults = Injector([parse_fault("nan-gradients:rank=1,step=0")], rank=dist.get_rank(), attempt=0)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
if sys.argv[1] == "fsdp2":
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
else:
    model = torch.nn.parallel.DistributedDataParallel(model)
faults.poison(model, lambda: 0)
model(torch.ones(3, 4)).sum().backward()
grads = [one.grad for one in model.parameters()]
if sys.argv[1] == "fsdp2":
    grads = [one.full_tensor() for one in grads]
assert [int(torch.isnan(grad).sum()) for grad in grads] == [1, 0, 0, 0], grads
dist.barrier()
os._exit(0)
"""


@pytest.mark.parametrize("how", ["ddp", "fsdp2"])
def test_the_nan_is_there_before_ranks_reduce_their_gradients(
    how: str, tmp_path: Path, forked_ranks: ForkedRanks
) -> None:
    pytest.importorskip("torch", reason="gradients need torch")
    script = tmp_path / "reduced.py"
    script.write_text(REDUCED)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = forked_ranks.run([str(script), how], 2, tmp_path / "logs", environment)
    assert ended.codes == [0, 0], ended.output


def turns_during(fault: str) -> int:
    """Turns of another thread while the fault lasts."""
    turns, over = [0], threading.Event()

    def turn() -> None:
        while not over.wait(0.001):
            turns[0] += 1

    counter = threading.Thread(target=turn)
    counter.start()
    turns_before = turns[0]
    injector(fault).reach("forward", 0)
    counted = turns[0] - turns_before
    over.set()
    counter.join()
    return counted


def test_a_held_lock_stops_every_thread_and_a_hang_stops_one() -> None:
    # The least and the most of three: a busy machine stops a thread at any moment.
    turns_under_lock = min(turns_during("gil-lock:rank=1,step=0,seconds=0.3") for _ in range(3))
    assert (
        turns_under_lock < max(turns_during("hang:rank=1,step=0,seconds=0.3") for _ in range(3)) / 4
    )


@pytest.mark.parametrize("bit", [0, 22, 30, 31])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_one_bit_flips_once_whatever_the_dtype(bit: int, dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    faults = injector(f"flip-bit:rank=1,step=1,bit={bit}")
    parameter = torch.nn.Parameter(torch.full((3, 4), 1.5, dtype=getattr(torch, dtype)))
    raw_before = raw(parameter)
    for step in range(4):
        faults.transform("parameters", step, [parameter])
    changed = bytes(a ^ b for a, b in zip(raw_before, raw(parameter), strict=True))
    assert int.from_bytes(changed, "little").bit_count() == 1
    assert any(changed[: parameter.element_size()])
    assert math.isfinite(float(parameter.detach()[1, 1]))


def raw(tensor: Any) -> bytes:
    import torch

    return bytes(tensor.detach().contiguous().view(torch.uint8).flatten().tolist())


def test_an_odd_layout_or_no_tensor_is_survived() -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    turned = torch.ones(4, 3).t()
    injector("flip-bit:rank=1,step=0").transform("parameters", 0, [torch.ones(0), turned])
    assert (turned != 1).sum().item() == 1
    injector("flip-bit:rank=1,step=0").transform("parameters", 0, [])


def test_the_injector_needs_no_torch_to_be_idle(tmp_path: Path) -> None:
    program = "import sys; sys.modules['torch'] = None; import stepwatch.faults as f; " + (
        "f.Injector([], rank=0, attempt=0).transform('parameters', 1, [])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=300)
