"""`stepwatch demo` that is short, is interrupted, or refuses to begin."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.demos import demo_rings, demo_words, run_demo
from tests.waiting import until


def test_a_short_run_reports_real_numbers(tmp_path: Path) -> None:
    """No verdict is expected here: tests beside this one take processor time from its ranks."""
    report = run_demo(tmp_path, "--fault", "none", steps=12).report
    assert report["loss_last"] < report["loss_first"] < 6.0
    assert report["tokens_per_second"] > 0 and report["step_seconds"]["p50"] > 0
    assert [rank["stage"] for rank in report["ranks"]] == [0, 0, 1, 1]
    assert all(item["verified"] for item in report["checkpoints"])
    assert [slo["name"] for slo in report["slos"]] == ["goodput"]


def test_ctrl_c_and_a_signal_after_it_leave_nothing_behind(tmp_path: Path) -> None:
    rings_before = demo_rings()
    words = demo_words("--fault", "none", "--keep", str(tmp_path / "kept"))
    demo = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until("ranks to start", lambda: any(path.glob("*/*/0") for path in demo_rings() - rings_before))
    time.sleep(3)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        demo.send_signal(number)
        time.sleep(0.1)
    _, complaint = demo.communicate(timeout=60)
    assert (demo.returncode, complaint) == (130, "stepwatch: interrupted\n")
    assert demo_rings() <= rings_before
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in listed.stdout


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--fault", "slow-compuet"], 2, "no fault 'slow-compuet'; did you mean 'slow-compute'?"),
        (["--fault", "hang:rnak=1"], 2, "fault hang has no option 'rnak'; did you mean 'rank'?"),
        (["--fault", "hang:rank=9"], 2, "fault hang: rank 9; the demo has ranks 0-3"),
        (["--fault", "hang:step=500"], 2, "step 500 is never reached in 60 steps"),
        (["--fault", "flip-bit:rank=1"], 2, "the demo's mesh has no replicas that could differ"),
        (["--steps", "3"], 2, "at least 10 steps"),
        (["--data", "/nowhere/text"], 1, "there is no /nowhere/text; pass --data"),
        (["--port", "99999"], 1, "port 99999 for the page: no such port; pass another --port"),
        (["--port", "-1"], 1, "port -1 for the page: no such port; pass another --port"),
        (["--timeout", "nan"], 2, "'nan' is not a number of seconds above 0"),
        (["--json", "/proc/demo.json"], 1, "cannot write /proc/demo.json: No such file or direc"),
        (["--keep", "/proc/demo"], 1, "cannot write to --keep /proc/demo"),
        (["--nonsense"], 2, "unrecognized arguments: --nonsense; see `stepwatch demo --help`"),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], code: int, complaint: str) -> None:
    rings_before = demo_rings()
    ran = subprocess.run(demo_words(*words), capture_output=True, text=True)
    assert ran.returncode == code
    assert complaint in ran.stderr and ran.stderr.count("\n") == 1
    assert demo_rings() <= rings_before


def test_a_port_in_use_is_refused_in_one_line() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        ran = subprocess.run(demo_words("--port", str(port)), capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (
        1,
        f"stepwatch: port {port} for the page: Address already in use; pass another --port, "
        "or 0 for any free\n",
    )
