"""Five minutes on a laptop: the commands of the guide, word for word, in an empty environment."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides.pages import ROOT, TRAINERS, commands, script
from tests.waiting import until

GUIDE = TRAINERS / "laptop.md"
INSTALLS_S = 3600  # torch on a busy machine
SECONDS = 300
pytestmark = pytest.mark.matrix  # it installs torch


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*build, "-w", str(folder), str(ROOT)], check=True)
    (kubectl_build,) = folder.glob("stepwatch-*.whl")
    return kubectl_build


class Terminal:
    """Runs typed commands as a user would, in a folder without this repository."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        self._wheel = wheel
        self._prelude = ""
        inherited = (
            "PATH",
            "HOME",
            "LANG",
            "PIP_INDEX_URL",
            "PIP_EXTRA_INDEX_URL",
            "PIP_CONFIG_FILE",
        )
        self.environ = {name: os.environ[name] for name in inherited if name in os.environ}
        self.environ["STEPWATCH_RING_DIR"] = str(folder / "rings")

    def words(self, line: str) -> list[str]:
        """Return the command that runs `line` after the lines that this terminal sourced."""
        local_line = line.replace("'stepwatch[", f"'{self._wheel}[")
        return ["bash", "-c", f"{self._prelude}{local_line}"]

    def type(self, line: str) -> str:
        """Run `line` to its end; return its output."""
        ran = subprocess.run(
            self.words(line),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=INSTALLS_S,
        )
        printed = ran.stdout + ran.stderr
        # Asked about a job with an open incident, the answer is 1.
        queried = line.startswith(("stepwatch status", "stepwatch incidents"))
        assert ran.returncode == 0 or (queried and ran.returncode == 1), printed
        if line.startswith(". "):
            self._prelude += f"{line};"
        return printed


@pytest.fixture
def terminal(tmp_path: Path, wheel: Path) -> Terminal:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 8480)) == 0:
            pytest.skip("something listens on port 8480, which the guide uses")
    return Terminal(tmp_path, wheel)


def test_the_guide_ends_with_the_slow_rank_by_name(
    terminal: Terminal, wheel: Path, tmp_path: Path
) -> None:
    typed = commands(GUIDE)
    install, up, (make_script, train), looks = typed[:3], typed[3], typed[4:6], typed[6:-1]
    assert up.startswith("stepwatch up") and train.startswith("stepwatch run")
    for line in install:
        terminal.type(line)
    another = Terminal(tmp_path, wheel)
    (tmp_path / "train.py").write_text(script(GUIDE))
    printed = tmp_path / "up.txt"
    with printed.open("w") as out:
        process = subprocess.Popen(
            terminal.words(up.replace("stepwatch up", "exec stepwatch up")),
            cwd=tmp_path,
            env=terminal.environ,
            stdout=out,
            stderr=out,
        )
    try:
        until("stepwatch up is ready", lambda: "http://" in printed.read_text(), SECONDS)
        another.type(make_script)
        another.type(train)
        until("an incident", lambda: "straggler" in printed.read_text(), SECONDS)
        until("the end of the job", lambda: "finished at step" in printed.read_text(), SECONDS)
        shown = [another.type(line) for line in looks]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
    assert "straggler" in shown[-1] and "rank 1" in shown[-1]
    assert "finished" in shown[0] and "step 99" in shown[1]
    another.type(typed[-1])
    assert not (tmp_path / "watched").exists()
