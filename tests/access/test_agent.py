"""`stepwatch agent` and `stepwatch collector` as processes, while certificate and tokens change."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from tests.agent.conftest import Rank, once, stored_steps
from tests.waiting import until

from .certificates import Authority, secret
from .processes import Collector, Program

TOKEN, NEXT, READER = "the-token-of-agents", "the-next-token-of-agents", "the-token-of-readers"


def test_whatever_is_wrong_is_a_line_and_nothing_is_lost(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    authority.sign_expired("localhost")
    ingest = secret(tmp_path / "ingest", TOKEN)
    readers = secret(tmp_path / "readers", READER)
    words = ["--ingest-token-file", str(ingest), "--read-token-file", str(readers)]
    collector = Collector(tmp_path, *authority.options, *words)
    presented = secret(tmp_path / "presented", "the-token-of-nobody")
    rank = Rank(tmp_path / "rings", capacity=4096)
    agent = Program(
        tmp_path, "agent", "--collector", collector.url, "--ca", str(authority.ca),
        "--token-file", str(presented), "--ring-dir", str(tmp_path / "rings"), "--port", "0",
        "--spool", str(tmp_path / "spool"), "--kernel-log", str(tmp_path / "kmsg"), "--node", "n1",
    )  # fmt: skip
    try:
        (line,) = agent.wait_for("metrics on http://")
        match = re.search(r"metrics on (\S+)/metrics", line)
        assert match
        url = match[1]

        def metrics() -> str:
            return httpx.get(f"{url}/metrics", timeout=30.0).text

        def problem(reason: str) -> bool:
            return f'collector_problem{{node="n1",reason="{reason}"}} 1.0' in metrics()

        rank.steps(10)
        agent.wait_for("has expired: renew it at the collector")
        until("the problem on /metrics", lambda: problem("certificate"))
        assert "(certificate)" in httpx.get(f"{url}/readyz", timeout=30.0).text

        authority.sign("localhost")
        collector.wait_for("read the certificate")
        agent.wait_for("the token is none of this collector's")
        until("the problem on /metrics", lambda: problem("token"))
        rank.steps(10)

        secret(presented, TOKEN)
        agent.wait_for("the collector answers again")
        until("all to be stored", lambda: stored_steps(collector.store) == once(1, 20))
        assert "stepwatch_agent_collector_problem{" not in metrics()

        secret(ingest, f"{TOKEN}\n{NEXT}\n")
        collector.wait_for("read the tokens again: 2 ingest, 1 read")
        secret(presented, NEXT)
        secret(ingest, NEXT)
        collector.wait_for("read the tokens again: 1 ingest, 1 read")
        rank.steps(10)
        until("all to be stored", lambda: stored_steps(collector.store) == once(1, 30))
        ready = lambda: httpx.get(f"{url}/readyz", timeout=30.0).status_code == 200  # noqa: E731
        until("the agent to be ready", ready)

        assert agent.end() == 0 and collector.end() == 0
        assert (
            len(agent.log_lines("has expired")) == 1
            and len(agent.log_lines("is none of this")) == 1
        )
        for program in (agent, collector):
            log = program.log.read_text()
            assert not any(token in log for token in (TOKEN, NEXT, READER)), log
            assert "Traceback" not in log
        spooled = b"".join(f.read_bytes() for f in (tmp_path / "spool").rglob("*") if f.is_file())
        stored = b"".join(file.read_bytes() for file in tmp_path.glob("store.db*"))
        assert not any(token.encode() in spooled + stored for token in (TOKEN, NEXT, READER))
    finally:
        agent.kill()
        collector.kill()
        rank.ring.close()
