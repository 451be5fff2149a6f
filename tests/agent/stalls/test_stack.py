"""The stack of a rank's process, or in words why there is none."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stepwatch.agent.stalls import stack

from .workers import HELD, JSON, STOPPED, needs_py_spy, running

PATIENCE = 60.0
"""Seconds in which a busy machine answers, too."""


def test_a_deep_stack_keeps_whole_frames_and_says_that_it_goes_on() -> None:
    frames = [{"name": f"call_{n}", "short_filename": "loop.py", "line": n} for n in range(60)]
    body = json.dumps([{"thread_name": "MainThread", "frames": frames}]).encode()
    kept_frames = stack.parse(body).text.split(" < ")
    assert kept_frames[-1] == "..." and len(" < ".join(kept_frames)) <= 512
    assert kept_frames[:-1] == [f"call_{n} loop.py:{n}" for n in range(len(kept_frames) - 1)]
    assert len(kept_frames) > 20
    short = json.dumps([{"thread_name": "MainThread", "frames": frames[:2]}]).encode()
    assert stack.parse(short).text == "call_0 loop.py:0 < call_1 loop.py:1"


@needs_py_spy
def test_the_line_of_a_process_that_holds_its_lock(tmp_path: Path) -> None:
    with running(tmp_path, HELD) as child:
        dumped = stack.dump(child.pid, stack.find_py_spy(), PATIENCE)
    assert (dumped.function, dumped.line, dumped.owner) == ("load_shard", "train.py:5", True)
    assert dumped.text.endswith("<module> train.py:6")


@needs_py_spy
def test_the_line_of_a_stopped_process(tmp_path: Path) -> None:
    with running(tmp_path, STOPPED) as child:
        child.send_signal(signal.SIGSTOP)
        dumped = stack.dump(child.pid, stack.find_py_spy(), PATIENCE)
        child.send_signal(signal.SIGCONT)
    assert dumped.function == "wait_here"
    assert dumped.line in ("train.py:4", "train.py:5"), "it may not have left the print"


def test_why_there_is_no_stack_is_said_in_words(tmp_path: Path) -> None:
    assert "pip install" in stack.dump(1, None).note
    slow, refuse = tmp_path / "slow", tmp_path / "refuse"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    refuse.write_text("#!/bin/sh\necho 'Permission Denied: Try running again' >&2; exit 1\n")
    for program in (slow, refuse):
        program.chmod(0o700)
    assert "did not answer" in stack.dump(1, str(slow), seconds=0.2).note
    assert stack.dump(1, str(refuse), PATIENCE).note == stack.REFUSED
    assert "cannot run" in stack.dump(1, str(tmp_path / "missing"), PATIENCE).note


@given(JSON | st.lists(st.fixed_dictionaries({"frames": st.lists(JSON, max_size=3)})))
def test_any_stack_is_read_or_refused(document: object) -> None:
    parsed = stack.parse(json.dumps(document).encode())
    assert (parsed.owner is None) == bool(parsed.note)
