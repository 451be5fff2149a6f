"""The machine behind the figures."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tests.gpu.finding import Finding
from tests.gpu.place import Place


def check(place: Place) -> Iterator[Finding]:
    """The card, its driver, the libraries, and the largest matrix product per second seen here."""
    nccl: Any = getattr(torch.cuda, "nccl", None)
    facts = {
        "device": torch.cuda.get_device_name() if place.is_gpu else platform.processor() or "cpu",
        "driver": _driver(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "nccl": ".".join(map(str, nccl.version())) if place.is_gpu else "none",
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
    }
    text = ", ".join(f"{name} {value}" for name, value in facts.items())
    yield Finding("machine", text, figures=facts)


def _driver() -> str:
    try:
        words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(words, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        version = Path("/proc/driver/nvidia/version")
        return version.read_text().split("\n")[0] if version.exists() else "none"
