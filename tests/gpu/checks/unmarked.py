"""`stepwatch run` with scripts that do not use stepwatch, on a GPU."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from stepwatch.signals.records import Kind
from tests.gpu.finding import Finding
from tests.gpu.place import Place
from tests.gpu.rings import rows_of
from tests.services import ROOT

PYTHON = (sys.executable, "-m")
TORCHRUN = (*PYTHON, "torch.distributed.run", "--standalone", "--nproc-per-node=1", "-m")
PHASES = ("forward", "backward", "optimizer")


def check(place: Place) -> Iterator[Finding]:
    """DistributedDataParallel under torchrun, then a Trainer of Hugging Face."""
    yield from _script(place, "plain", TORCHRUN)
    if importlib.util.find_spec("transformers") is None:
        yield Finding("stepwatch run, Hugging Face", "transformers is not installed here")
    else:
        yield from _script(place, "huggingface", PYTHON)


def _script(place: Place, name: str, launcher: Sequence[str]) -> Iterator[Finding]:
    run = (*PYTHON, "stepwatch.cli", "run", "--job", name, "--")
    with tempfile.TemporaryDirectory() as folder:
        losses_of_runs = []
        for prefix in ((), run):
            losses = Path(folder) / f"{len(prefix)}.json"
            words = [*prefix, *launcher, f"tests.gpu.{name}", place.kind, str(losses)]
            ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
            if ended.returncode:
                yield Finding(f"stepwatch run, {name}", ended.stderr[-600:], "trains", False)
                return
            losses_of_runs.append(json.loads(losses.read_text()))
    equal = losses_of_runs[0] == losses_of_runs[1]
    yield Finding(
        f"stepwatch run, {name}: losses of {len(losses_of_runs[0])} steps, with and without",
        "equal" if equal else "different",
        "equal",
        equal,
    )
    steps, device = rows_of(name, Kind.STEP), rows_of(name, Kind.DEVICE_STEP)
    spent = {phase: float(device[f"{phase}_seconds"].sum()) for phase in PHASES}
    text = ", ".join(f"{phase} {seconds * 1e3:.1f} ms" for phase, seconds in spent.items())
    yield Finding(
        f"stepwatch run, {name}: steps found, and timed on the device",
        f"{len(steps)}, {len(device)} of them on the device: {text}",
        f"{len(losses_of_runs[0])}, each phase known",
        (
            len(steps) == len(device) == len(losses_of_runs[0])
            and all(seconds > 0 for seconds in spent.values())
        )
        if place.is_gpu
        else None,
        {"steps": len(steps), "device_steps": len(device), **spent},
    )
