"""An agent's messages when a collector accepts nothing: one line each, without loss."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.access import Role, TokenFiles
from stepwatch.collector.web.access.certificate import Certificate
from stepwatch.collector.web.api import make_api
from stepwatch.signals.access import Access
from tests.agent.conftest import (
    Rank,
    give_up,
    make_agent,
    once,
    rank,
    round_of,
    serving,
    stored_steps,
)
from tests.ports import free_port

from .certificates import DAY, NOW, Authority, secret

__all__ = ["make_agent", "rank"]

TOKEN, READER, ELSEWHERE = "the-token-of-agents", "the-token-of-readers", "the-token-of-node-9"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    new_authority = Authority(tmp_path / "pki")
    new_authority.sign("127.0.0.1")
    return new_authority


class Place:
    """A collector that serves one port in several ways, over one store."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.store, self.port, self._authority = folder / "store.db", free_port(), authority
        ingest = secret(folder / "ingest", f"{TOKEN}\nnode-9 {ELSEWHERE}\n")
        readers = secret(folder / "readers", READER)
        self.files = [(ingest, frozenset({Role.INGEST})), (readers, frozenset({Role.READ}))]

    @contextmanager
    def serve(self, tls: bool = True) -> Iterator[str]:
        store = Store.sqlite(self.store)
        files = TokenFiles(self.files)
        pair = Certificate(self._authority.chain, self._authority.key)
        api = make_api(Service(store), lambda: files.tokens)
        try:
            with serving(api, self.port, pair.context if tls else None) as url:
                yield url
        finally:
            store.close()


@pytest.fixture
def place(tmp_path: Path, authority: Authority) -> Place:
    return Place(tmp_path, authority)


def problem_shown(agent: Agent) -> str:
    lines = generate_latest(agent.registry).decode().splitlines()
    name = 'stepwatch_agent_collector_problem{node="n1",reason="'
    values = [line.removeprefix(name) for line in lines if line.startswith(name)]
    return values[0].removesuffix('"} 1.0') if values else ""


def expire_certificate(authority: Authority) -> None:
    authority.sign_expired("127.0.0.1")


def not_yet(authority: Authority) -> None:
    authority.sign("127.0.0.1", begins=NOW + DAY)


def other_name(authority: Authority) -> None:
    authority.sign("collector.example")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (expire_certificate, "has expired: renew it at the collector, or set this node's clock"),
        (not_yet, "is not valid yet: set the clock of this node or of who signed it"),
        (other_name, "is for another name: use that name in --collector"),
    ],
)
def test_a_bad_certificate_is_said_once_and_what_waits_is_sent_later(
    rank: Rank,
    place: Place,
    authority: Authority,
    tmp_path: Path,
    make_agent: Callable[..., Agent],
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Authority], None],
    message: str,
) -> None:
    change(authority)
    access = Access(secret(tmp_path / "token", TOKEN), authority.ca)
    agent = make_agent(f"https://127.0.0.1:{place.port}", access=access)
    with place.serve():
        for _ in range(3):
            rank.steps(2)
            round_of(agent)
            agent.relay.drain(give_up)
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert message in line.getMessage() and "\n" not in line.getMessage()
    assert problem_shown(agent) == "certificate"
    assert agent.relay.failures == 3 and agent.spool.dropped == 0
    authority.sign("127.0.0.1")
    with place.serve():
        agent.relay.drain(give_up)
    assert stored_steps(place.store) == once(1, 6) and not len(agent.spool)
    assert problem_shown(agent) == "" and not agent.spool.held_segments


def test_a_signer_that_is_not_trusted_may_be_added_while_the_agent_runs(
    rank: Rank,
    place: Place,
    authority: Authority,
    tmp_path: Path,
    make_agent: Callable[..., Agent],
    caplog: pytest.LogCaptureFixture,
) -> None:
    trusted = tmp_path / "trusted.pem"
    second_authority = Authority(tmp_path / "other")
    trusted.write_bytes(second_authority.ca.read_bytes())
    agent = make_agent(
        f"https://127.0.0.1:{place.port}",
        access=Access(secret(tmp_path / "token", TOKEN), trusted),
    )
    with place.serve():
        rank.steps(2)
        round_of(agent)
        agent.relay.drain(give_up)
        assert "has no trusted signer: pass --ca FILE" in caplog.messages[-1]
        trusted.write_bytes(second_authority.ca.read_bytes() + authority.ca.read_bytes())
        agent.relay.drain(give_up)
    assert stored_steps(place.store) == once(1, 2)


def test_public_authorities_sign_no_private_collector(
    rank: Rank, place: Place, tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    access = Access(secret(tmp_path / "token", TOKEN))
    agent = make_agent(f"https://127.0.0.1:{place.port}", access=access)
    with place.serve():
        rank.steps(2)
        round_of(agent)
        agent.relay.drain(give_up)
    assert problem_shown(agent) == "certificate" and len(agent.spool) > 0


@pytest.mark.parametrize(
    ("tls", "scheme", "message"),
    [
        (True, "http", "speaks TLS only: pass --collector https://127.0.0.1"),
        (False, "https", "speaks no TLS: pass --collector http://127.0.0.1"),
    ],
)
def test_plain_http_to_a_port_of_tls_and_the_other_way(
    rank: Rank,
    place: Place,
    authority: Authority,
    tmp_path: Path,
    make_agent: Callable[..., Agent],
    caplog: pytest.LogCaptureFixture,
    tls: bool,
    scheme: str,
    message: str,
) -> None:
    access = Access(secret(tmp_path / "token", TOKEN), authority.ca)
    agent = make_agent(f"{scheme}://127.0.0.1:{place.port}", access=access)
    with place.serve(tls):
        for _ in range(3):
            rank.steps(2)
            round_of(agent)
            agent.relay.drain(give_up)
    (line,) = [logged for logged in caplog.messages if "collector refuses segments" in logged]
    assert message in line
    assert problem_shown(agent) == "plain-or-tls"
    with place.serve(not tls):
        agent.relay.drain(give_up)
    assert stored_steps(place.store) == once(1, 6)


@pytest.mark.parametrize(
    ("token", "reason", "message"),
    [
        ("", "token", "HTTP 401: "),
        ("the-token-of-nobody", "token", "is none of this collector's"),
        (READER, "forbidden", "use one of the collector's --ingest-token-file"),
        (ELSEWHERE, "forbidden", "bound to node node-9"),
    ],
)
def test_a_wrong_token_keeps_the_spool_and_the_right_one_is_taken_up(
    rank: Rank,
    place: Place,
    authority: Authority,
    tmp_path: Path,
    make_agent: Callable[..., Agent],
    caplog: pytest.LogCaptureFixture,
    token: str,
    reason: str,
    message: str,
) -> None:
    caplog.set_level(logging.INFO)
    path = secret(tmp_path / "token", token or TOKEN)
    access = Access(path if token else None, authority.ca)
    with place.serve() as url:
        agent = make_agent(url, access=access)
        delays = []
        for _ in range(12):  # enough for all tries with fewer segments in a request
            rank.steps(1)
            round_of(agent)
            delays.append(agent.relay.send_once())
        assert min(delays) > 0 and delays[5] > delays[0]
        (line,) = [logged for logged in caplog.messages if "collector refuses segments" in logged]
        assert message in line and "--token-file" in line and "\n" not in line
        assert token == "" or token not in caplog.text
        assert problem_shown(agent) == reason
        assert (
            agent.relay.failures == 12 and not agent.spool.held_segments and not agent.spool.dropped
        )
        if token:
            secret(path, TOKEN)
        else:
            agent.relay.client.authorization = Access(path, authority.ca).authorization
        agent.relay.drain(give_up)
        agent.relay.drain(give_up)
    assert stored_steps(place.store) == once(1, 12)
    assert problem_shown(agent) == "" and "the collector answers again" in caplog.text


def test_one_segment_of_another_node_holds_up_no_other(
    rank: Rank, place: Place, authority: Authority, tmp_path: Path
) -> None:
    """A spool that was taken over from a node with another name."""
    path = secret(tmp_path / "token", ELSEWHERE)

    def agent_of(node: str) -> Agent:
        return Agent(
            AgentOptions(
                tmp_path / "rings",
                tmp_path / "spool",
                f"https://127.0.0.1:{place.port}",
                node,
                port=None,
                kernel_log=tmp_path / "kmsg",
                access=Access(path, authority.ca),
            ),
            probes=[],
        )

    earlier_agent = agent_of("node-8")
    rank.steps(1)
    round_of(earlier_agent)
    earlier_agent.close()
    agent = agent_of("node-9")
    with place.serve():
        for _ in range(3):
            rank.steps(1)
            round_of(agent)
        for _ in range(20):
            agent.relay.send_once()
        assert stored_steps(place.store) and agent.spool.held_segments
        secret(path, TOKEN)
        agent.relay.retry_failed()
        agent.relay.drain(give_up)
    assert stored_steps(place.store) == once(1, 4)
    agent.close()


def test_a_listener_that_says_nothing_is_away(
    rank: Rank, make_agent: Callable[..., Agent], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def hang_up() -> None:
            listening.settimeout(0.1)
            while not ended.is_set():
                try:
                    listening.accept()[0].close()
                except TimeoutError:
                    continue

        thread = threading.Thread(target=hang_up)
        thread.start()
        agent = make_agent(f"http://127.0.0.1:{listening.getsockname()[1]}")
        rank.steps(1)
        round_of(agent)
        agent.relay.drain(give_up)
        ended.set()
        thread.join(10)
    assert problem_shown(agent) == "away", caplog.text


def test_nothing_turns_verification_off(authority: Authority) -> None:
    for access in (Access(None, authority.ca), Access()):
        context = access.context()
        assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
