"""The file that shows a rank its agent is read whole or not at all, and never makes a wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepwatch.signals import presence
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.presence import CONNECTED, FILE, FRESH_SECONDS, Presence

KNOWN = Presence(os.getpid(), "http://c:8480", "http://page/", CONNECTED, 10**12, {"job": 2})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    presence.write(tmp_path / "rings", KNOWN)
    assert presence.read(tmp_path / "rings") == KNOWN
    assert KNOWN.page_of("job") == "http://page/jobs/job"
    assert [path.name for path in (tmp_path / "rings").iterdir()] == [FILE]
    assert (tmp_path / "rings" / FILE).stat().st_mode & 0o777 == 0o644


def test_an_agent_is_gone_after_a_while_and_after_a_boot() -> None:
    written_ns = KNOWN.written_ns
    expired_ns = written_ns + round((FRESH_SECONDS + 1) * NANOSECONDS)
    assert [KNOWN.is_fresh(now) for now in (written_ns, expired_ns, 5 * NANOSECONDS)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": []}', '{"pid": 1}', "[" * 60000])
def test_what_is_no_presence_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert presence.read(tmp_path) is None


def test_a_pipe_or_a_link_in_its_place_makes_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    assert presence.read(tmp_path) is None
    (tmp_path / FILE).unlink()
    presence.write(tmp_path / "other", KNOWN)
    (tmp_path / FILE).symlink_to(tmp_path / "other" / FILE)
    assert presence.read(tmp_path) is None


def test_nothing_in_it_moves_a_terminal(tmp_path: Path) -> None:
    presence.write(tmp_path, KNOWN._replace(page="http://x/\x1b[2J\nfake: line" + "y" * 2000))
    received = presence.read(tmp_path)
    assert received is not None and "\x1b" not in received.page and "\n" not in received.page
    assert len(received.page) <= 512


def test_only_its_own_agent_removes_it(tmp_path: Path) -> None:
    presence.write(tmp_path, KNOWN)
    presence.remove(tmp_path, KNOWN.pid + 1)
    assert presence.read(tmp_path) == KNOWN
    presence.remove(tmp_path, KNOWN.pid)
    presence.remove(tmp_path, KNOWN.pid)
    assert presence.read(tmp_path) is None
