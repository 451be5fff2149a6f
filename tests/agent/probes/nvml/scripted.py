"""A driver that a test scripts: compiled, and loaded by the real binding under its real name."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

ENV_SCRIPT = "STEPWATCH_TEST_DRIVER"
COMPILER = shutil.which("gcc") or shutil.which("cc")
HEALTHY = {
    "busy": 97, "memory_used": 40 << 30, "memory_total": 80 << 30, "throttle": 0, "clock": 1900,
    "clock_limit": 1980, "power": 650_000, "power_limit": 700_000, "temperature": 61,
    "ecc_corrected": 3, "ecc_uncorrected": 0, "pcie_replays": 2, "nvlink": 1,
}  # fmt: skip


def build(folder: Path) -> Path:
    """Compile the library into `folder`; on LD_LIBRARY_PATH it is the driver that is found.

    Raises:
        FileNotFoundError: there is no C compiler.
    """
    if COMPILER is None:
        raise FileNotFoundError("no C compiler: the scripted driver cannot be built")
    place = folder / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("driver.c")
    name = "-Wl,-soname,libnvidia-ml.so.1"
    words = [COMPILER, "-shared", "-fPIC", "-O1", "-Wall", name, "-o", str(place), str(source)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return place


_WRITES = itertools.count(1)
"""One for each script that this process writes: a library that is loaded once reads several."""


class Driver:
    """What the scripted driver answers; events are handed out once."""

    def __init__(self, script: Path, devices: int) -> None:
        self._script = script
        self.devices: list[dict[str, int]] = [dict(HEALTHY) for _ in range(devices)]
        self.events: list[str] = []
        self.generation = 1
        self.write()

    def write(self) -> None:
        lines = [f"0 count {len(self.devices)}", f"0 generation {self.generation}"]
        for number, values in enumerate(self.devices):
            lines += [f"{number} {key} {value}" for key, value in values.items()]
        self._script.write_text("\n".join([*lines, *self.events]) + "\n")
        # The library reads the script anew when its time differs: two writes in one tick of the
        # kernel's clock would not.
        moment = 1000 * next(_WRITES)
        os.utime(self._script, ns=(moment, moment))
