"""A spool is the agent's own folder: one that another user made or may change is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.agent.spool import Spool
from stepwatch.signals.errors import ConfigurationError
from tests.other_users import give_away, needs_root


@needs_root
@pytest.mark.parametrize("place", ["spool", "above"])
def test_a_spool_in_the_hands_of_another_user_is_refused(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "above" / "spool"
    folder.mkdir(parents=True)
    give_away(folder if place == "spool" else folder.parent)
    with pytest.raises(ConfigurationError, match=r"not this user.s alone.*pass --spool"):
        Spool(folder, "node")
    assert list(folder.iterdir()) == []


def test_an_open_spool_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    folder.chmod(0o755)
    Spool(folder, "node").close()
    assert folder.stat().st_mode & 0o777 == 0o700
