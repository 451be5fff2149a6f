"""`stepwatch agent` as a process: who may read it, from where, and what it says of its health."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from stepwatch.cli.main import PROBLEM, main
from tests.services import Services
from tests.waiting import until

TOKEN = "of-the-readers"


def url_of(services: Services) -> str:
    """Where the agent listens, as its log says."""

    def port_url() -> str:
        match = re.search(r"metrics on http://\S+:(\d+)/", services.log_of("agent").read_text())
        return f"http://127.0.0.1:{match[1]}" if match else ""

    return until("the agent to listen", port_url)


def test_an_agent_beyond_loopback_is_ready_and_gives_metrics_for_the_token(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN + "\n")
    beyond = ["--host", "0.0.0.0", "--metrics-token-file", str(secret)]
    services = Services(tmp_path, tmp_path / "rings", [], agent_options=beyond)
    try:
        services.start()
        url = url_of(services)
        until("the agent to be ready", lambda: httpx.get(f"{url}/readyz").status_code == 200)
        assert httpx.get(f"{url}/healthz").text == "ok\n"
        assert httpx.get(f"{url}/metrics").status_code == 401
        shown = httpx.get(f"{url}/metrics", headers={"authorization": f"Bearer {TOKEN}"})
        assert "stepwatch_agent_records_total{" in shown.text
        assert TOKEN not in services.log_of("agent").read_text()
    finally:
        services.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_beyond_loopback_a_token_is_needed(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = ["--spool", str(tmp_path / "spool"), "--ring-dir", str(tmp_path / "rings")]
    assert main(["agent", "--host", host, "--port", "0", *spool]) == PROBLEM
    (line,) = [
        output_line
        for output_line in capsys.readouterr().err.splitlines()
        if "stepwatch:" in output_line
    ]
    assert host in line and "--metrics-token-file" in line
