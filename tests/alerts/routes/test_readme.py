"""Alertmanager accepts the README's site file."""

from __future__ import annotations

import re
from pathlib import Path

from stepwatch.cli.main import OK, main
from tests.alerts.routes.sites import amtool

README = Path(__file__).parents[3] / "alerts/README.md"


def test_the_site_file_that_is_shown_is_built_and_accepted(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "site.yaml").write_text(shown)
    words = ["build", "all", "--site", str(tmp_path / "site.yaml"), "--out", str(tmp_path)]
    assert main(words) == OK
    result = amtool("check-config", str(tmp_path / "alertmanager.yaml"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "cluster: eu-1" in (tmp_path / "training.rules.yaml").read_text()
