"""The hooks' one log line is one line that no terminal obeys, whatever the error's text is."""

from __future__ import annotations

import pytest

from stepwatch.hooks.guard import Guard
from stepwatch.hooks.links.announcement import _print


def test_an_error_with_commands_in_its_text_is_one_plain_line(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = Guard()
    guard.caught("Watch.step", RuntimeError("\x1b]52;c;ZQ==\x07\nstepwatch: all is well"))
    (record,) = caplog.records
    assert record.getMessage() == (
        "stepwatch: Watch.step: RuntimeError: \ufffd]52;c;ZQ==\ufffd stepwatch: all is well; "
        "the hook is skipped"
    )
    _print("page: http://x/\x1b[2J")
    assert capsys.readouterr().err == "stepwatch: page: http://x/\ufffd[2J\n"
