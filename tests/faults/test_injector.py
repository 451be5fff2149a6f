"""Faults strike exactly where they say, once or always."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stepwatch.agent.probes.ranks import process_facts
from stepwatch.faults import Injector, parse_fault
from stepwatch.signals import places
from stepwatch.signals.errors import UsageError
from stepwatch.signals.records import ProcessState

POINTS = ("step", "data", "forward", "backward", "optimizer", "collective", "checkpoint:write")


def injector(*texts: str, rank: int = 1, attempt: int = 0) -> Injector:
    faults = [fault for text in texts if (fault := parse_fault(text)) is not None]
    return Injector(faults, rank=rank, attempt=attempt)


def struck(faults: Injector, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float]]:
    """(point, step, seconds) of every sleep in six steps."""
    found: list[tuple[str, int, float]] = []
    where: tuple[str, int] = ("", 0)
    monkeypatch.setattr(time, "sleep", lambda seconds: found.append((*where, seconds)))
    for step in range(6):
        for point in POINTS:
            where = (point, step)
            faults.at(point, step)
    return found


def test_slowness_strikes_at_its_point_in_each_of_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = injector("slow-compute:rank=1,step=2,until=4,seconds=0.5", "slow-data:rank=1,step=5")
    assert struck(faults, monkeypatch) == [
        ("forward", 2, 0.5),
        ("forward", 3, 0.5),
        ("data", 5, 0.5),
    ]


def test_a_hang_strikes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = injector("hang:rank=1,step=2,seconds=9")
    assert struck(faults, monkeypatch) == [("forward", 2, 9.0)]


@pytest.mark.parametrize(("rank", "attempt"), [(0, 0), (1, 1)])
def test_others_are_left_alone(monkeypatch: pytest.MonkeyPatch, rank: int, attempt: int) -> None:
    faults = injector("hang:rank=1,step=0", "kill:rank=1,step=0", rank=rank, attempt=attempt)
    assert struck(faults, monkeypatch) == []


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
        faults.at(point, step)
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
def test_a_kill_strikes_a_real_process_at_its_point(fault: str, last: str) -> None:
    process = victim(fault)
    out, _ = process.communicate(timeout=30)
    assert out.splitlines()[-1] == last
    assert process.returncode == (0 if "rank=0" in fault else -signal.SIGKILL)


def test_a_stop_stops_a_real_process_once() -> None:
    process = victim("stop:rank=1,step=1")
    deadline = time.monotonic() + 20
    while process_facts(process.pid, 0).state is not ProcessState.STOPPED:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out.splitlines()[-1]) == (0, "checkpoint:write 3")


def test_gradients_become_nan_in_that_step_only() -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    faults = injector("nan-gradients:rank=1,step=3")
    for step in range(6):
        first, second = torch.ones(2, 3), torch.ones(2)
        faults.transform("parameters", step, [first, second])
        faults.transform("gradients", step, iter([first, second]))
        broken = torch.isnan(first).sum().item()
        assert broken == (1 if step == 3 else 0)
        assert torch.equal(second, torch.ones(2))


@pytest.mark.parametrize("bit", [0, 22, 30, 31])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_one_bit_flips_once_whatever_the_dtype(bit: int, dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    faults = injector(f"flip-bit:rank=1,step=1,bit={bit}")
    parameter = torch.nn.Parameter(torch.full((3, 4), 1.5, dtype=getattr(torch, dtype)))
    before = raw(parameter)
    for step in range(4):
        faults.transform("parameters", step, [parameter])
    changed = bytes(a ^ b for a, b in zip(before, raw(parameter), strict=True))
    assert int.from_bytes(changed, "little").bit_count() == 1
    assert any(changed[: parameter.element_size()])
    assert math.isfinite(float(parameter.detach()[1, 1]))


def raw(tensor: Any) -> bytes:
    import torch

    return bytes(tensor.detach().contiguous().view(torch.uint8).flatten().tolist())


def test_an_odd_layout_or_no_tensor_is_survived() -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    turned = torch.ones(4, 3).t()
    injector("nan-gradients:rank=1,step=0").transform("gradients", 0, [turned])
    assert torch.isnan(turned).sum().item() == 1
    injector("nan-gradients:rank=1,step=0").transform("gradients", 0, [])
    injector("nan-gradients:rank=1,step=0").transform("gradients", 0, [torch.ones(0)])


def test_the_injector_needs_no_torch_to_be_idle(tmp_path: Path) -> None:
    program = "import sys; sys.modules['torch'] = None; import stepwatch.faults as f; " + (
        "f.Injector([], rank=0, attempt=0).transform('gradients', 1, [])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=30)
