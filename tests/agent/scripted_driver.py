"""A driver that a test scripts, for all tests that read devices: a process loads one library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.agent.probes.nvml.scripted import COMPILER, ENV_SCRIPT, Driver, build


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripted driver, compiled and loaded under the name that the binding asks for."""
    if COMPILER is None:
        pytest.skip("no C compiler: the scripted driver cannot be built")
    place = build(tmp_path_factory.mktemp("driver"))
    ctypes.CDLL(str(place), mode=ctypes.RTLD_GLOBAL)
    return place


@pytest.fixture
def driver(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    script = tmp_path / "driver.txt"
    monkeypatch.setenv(ENV_SCRIPT, str(script))
    # Processes of probes are fresh ones: the loader finds it there.
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    delivered = ctypes.CDLL(str(library)).stepwatch_delivered
    delivered.restype = None
    delivered()
    return Driver(script, 2)
