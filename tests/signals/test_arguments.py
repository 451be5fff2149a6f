"""Wrong usage is one line with the closest option and the command that lists all."""

from __future__ import annotations

import pytest

from stepwatch.signals.arguments import Parser
from stepwatch.signals.errors import UsageError


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["--collectr", "x"],
            "unrecognized arguments: --collectr x; did you mean '--collector'?; see `x --help`",
        ),
        (["--zzz"], "unrecognized arguments: --zzz; see `x --help`"),
        (["--port", "x"], "argument --port: invalid int value: 'x'; see `x --help`"),
    ],
)
def test_the_line_says_what_to_do(words: list[str], line: str) -> None:
    parser = Parser(prog="x", allow_abbrev=False)
    parser.add_argument("--collector")
    parser.add_argument("--port", type=int)
    with pytest.raises(UsageError) as raised:
        parser.parse_args(words)
    assert str(raised.value) == line
