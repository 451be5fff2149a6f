"""The README's session runs as printed."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_session_in_the_readme_runs() -> None:
    readme = Path(__file__).resolve().parents[2] / "runbooks" / "README.md"
    result = doctest.testfile(str(readme), module_relative=False)
    assert result.attempted >= 4
    assert result.failed == 0
