"""A machine without any network has the whole page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long("tests/collector/web/test_accessible.py::test_every_view_is_accessible")
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"),
    reason="a network namespace needs root, unshare and ip",
)
def test_every_view_needs_no_network(tmp_path: Path) -> None:
    words = ["unshare", "--net", sys.executable, "-m", f"{__package__}.offline", str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    said = json.loads(ran.stdout)
    assert len(said) == 12
    assert said == {path: [] for path in said}
