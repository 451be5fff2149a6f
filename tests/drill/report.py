"""The machine and versions behind a scoreboard."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .chain.servers import program


def facts() -> dict[str, Any]:
    """Return the date, the hardware and the versions of the programs."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "processor": models[0] if models else platform.machine(),
            "kernel": platform.release(),
            "load": os.getloadavg(),
        },
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch"),
            "prometheus": _version(program("prometheus")),
            "alertmanager": _version(program("prometheus-alertmanager", "alertmanager")),
        },
    }


def _version(path: str) -> str:
    completed = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    words = (completed.stdout or completed.stderr).split()
    return words[words.index("version") + 1].rstrip(",") if "version" in words else "unknown"
