"""A real Alertmanager on free ports, with its data in a folder of the test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import free_port
from tests.waiting import until

_SILENT = "route:\n  receiver: nobody\nreceivers:\n  - name: nobody\n"


class Alertmanager:
    """Asks one that runs at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        """JSON of a path of its API v2."""
        return httpx.get(f"{self.url}/api/v2/{path}", timeout=10.0).raise_for_status().json()

    def answers(self) -> bool:
        """Whether it does."""
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=1.0).status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def running(
    folder: Path, configuration: str = _SILENT, address: str = "", *options: str
) -> Iterator[Alertmanager]:
    """One that answers, with a configuration, at any address where none is given; killed at the
    end."""
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        pytest.skip("Alertmanager is not installed; tests/install-tools installs it")
    file = folder / "alertmanager.yml"
    file.write_text(configuration)
    address = address or f"127.0.0.1:{free_port()}"
    words = [program, f"--config.file={file}", f"--storage.path={folder / 'alertmanager'}"]
    words += [f"--web.listen-address={address}", "--cluster.listen-address=", *options]
    with open(folder / "alertmanager.log", "ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        alertmanager = Alertmanager(f"http://{address}")
        until("Alertmanager to answer", alertmanager.answers, 60.0)
        yield alertmanager
    finally:
        process.kill()
        process.wait(20)
