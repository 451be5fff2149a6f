"""The client against a server that sends any bytes, over real sockets."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterable, Iterator
from functools import partial

import pytest

from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.http import (
    Address,
    AnswerError,
    AnswerTimeout,
    Client,
    ConnectError,
    CutOffError,
    HttpError,
    connections,
)
from tests.ports import free_port
from tests.waiting import until

from .raw import answer, raw_server, trickled


def one(*pieces: bytes) -> Iterable[bytes]:
    """An answer, after which the connection ends."""
    yield from pieces
    yield b""


def test_a_request_has_path_query_token_and_document() -> None:
    tokens = iter(["Bearer a", "Bearer b"])
    with (
        raw_server(lambda _: [answer(b'{"a": 1}')]) as server,
        Client(server.url + "/below/", authorization=lambda: next(tokens)) as client,
    ):
        received = client.get("/v1/jobs", {"job": "a b&c", "n": "ü"})
        client.request("POST", "/v1/x y", json={"k": [1, None]}, headers={"x-own": "1"})
    assert (received.status_code, received.json(), received.text) == (200, {"a": 1}, '{"a": 1}')
    first, second = server.heads
    assert first[0] == "GET /below/v1/jobs?job=a+b%26c&n=%C3%BC HTTP/1.1"
    assert f"Host: {server.place}" in first and "authorization: Bearer a" in first
    assert "accept-encoding: identity" in first
    assert not any(line.lower().startswith("content-") for line in first)
    assert second[0] == "POST /below/v1/x%20y HTTP/1.1"
    assert {"authorization: Bearer b", "x-own: 1", "content-type: application/json"} <= {*second}
    assert json.loads(server.requests[1].partition(b"\r\n\r\n")[2]) == {"k": [1, None]}


def test_an_empty_post_says_its_length() -> None:
    with raw_server(lambda _: [answer()]) as server, Client(server.url) as client:
        client.request("POST", "/", content=b"")
    assert "content-length: 0" in server.heads[0]


BODIES = {
    "length": answer(b"whole"),
    "chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"2\r\nwh\r\n3;x=y\r\nole\r\n0\r\nx-trailer: 1\r\n\r\n",
    "1xx first": b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"whole"),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("slow", [False, True])
def test_a_connection_is_kept_after_a_whole_answer(name: str, slow: bool) -> None:
    with (
        raw_server(lambda _: trickled(BODIES[name], 0.001) if slow else [BODIES[name]]) as server,
        Client(server.url) as client,
    ):
        assert [client.get("/").content for _ in range(3)] == [b"whole"] * 3
    assert server.connections == 1


def test_an_answer_without_length_lasts_until_the_connection_ends() -> None:
    with (
        raw_server(lambda _: one(b"HTTP/1.1 200 OK\r\n\r\n", b"who", b"le")) as server,
        Client(server.url) as client,
    ):
        assert [client.get("/").content for _ in range(2)] == [b"whole"] * 2
    assert server.connections == 2


def test_an_answer_without_body_keeps_the_connection() -> None:
    with (
        raw_server(lambda _: [b"HTTP/1.1 204 No Content\r\n\r\n"]) as server,
        Client(server.url) as client,
    ):
        assert [client.request("DELETE", "/").status_code for _ in range(2)] == [204, 204]
    assert server.connections == 1


def test_a_connection_with_an_unread_answer_is_not_used_again() -> None:
    with raw_server(lambda _: [answer(b"x" * 100_000)]) as server, Client(server.url) as client:
        with client.stream("GET", "/") as partly:
            next(partly.pieces())
        assert len(client.get("/").content) == 100_000
    assert server.connections == 2


def test_a_server_that_closes_an_idle_connection_costs_no_request() -> None:
    with raw_server(lambda _: one(answer())) as server, Client(server.url) as client:
        for _ in range(5):
            assert client.get("/").status_code == 200
            ((connection, _since),) = client._connections._idle
            until("the end of the connection", partial(connections._has_ended, connection))
    assert server.connections == 5


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.0)
    with raw_server(lambda _: [answer()]) as server, Client(server.url) as client:
        client.get("/")
        client.get("/")
    assert server.connections == 2


def test_threads_share_a_client_and_no_connection() -> None:
    together = threading.Barrier(4)

    def echo(request: bytes) -> Iterator[bytes]:
        together.wait(20)  # each answer waits for all requests
        yield answer(request.split(b" ")[1])

    received: dict[int, list[bytes]] = {}
    with raw_server(echo) as server, Client(server.url) as client:

        def ask(number: int) -> None:
            received[number] = [client.get(f"/{number}/{turn}").content for turn in range(5)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert received == {n: [f"/{n}/{turn}".encode() for turn in range(5)] for n in range(4)}
    assert server.connections == 4


def test_no_redirect_is_followed() -> None:
    with (
        raw_server(lambda _: [answer(b"", "302 Found", "location: http://127.0.0.1:9/")]) as server,
        Client(server.url) as client,
    ):
        assert client.get("/").status_code == 302
    assert len(server.requests) == 1


HEAD = b"HTTP/1.1 200 OK\r\n"
CUT: dict[str, list[bytes]] = {
    "no answer": [],
    "half a head": [b"HTTP/1.1 20"],
    "no HTTP": [b"SSH-2.0-OpenSSH\r\n"],
    "TLS": [b"\x15\x03\x01\x00\x02\x02\x46"],
    "half a body": [HEAD + b"content-length: 10\r\n\r\nhalf"],
    "no chunk": [HEAD + b"transfer-encoding: chunked\r\n\r\n"],
    "half a chunk": [HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nab"],
    "no last chunk": [HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n"],
    "no size": [HEAD + b"transfer-encoding: chunked\r\n\r\nxyz\r\nab\r\n"],
    "a long line": [HEAD + b"x: " + b"y" * 100_000 + b"\r\n\r\n"],
    "many headers": [HEAD + b"x: y\r\n" * 1000 + b"\r\n"],
}


@pytest.mark.parametrize("name", CUT)
def test_an_answer_that_is_cut_off_or_no_http_is_an_error(name: str) -> None:
    with (
        raw_server(lambda _: one(*CUT[name])) as server,
        Client(server.url) as client,
        pytest.raises(CutOffError) as raised,
    ):
        client.get("/")
    assert str(raised.value)


ENDLESS: dict[str, bytes] = {
    "head": HEAD + b"x: y\r\n" * 1000,
    "body": HEAD + b"content-length: 10000\r\n\r\n" + b"x" * 1000,
    "trailers": HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 1000,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_answer_that_trickles_ends_at_the_deadline(name: str) -> None:
    with (
        raw_server(lambda _: trickled(ENDLESS[name])) as server,
        Client(server.url, seconds=0.3) as client,
        pytest.raises(AnswerTimeout, match=r"has not ended within 0\.[13] s"),
        client.stream("GET", "/") as received,
    ):
        list(received.pieces(0.1))


def test_a_silent_server_is_given_up() -> None:
    ended = threading.Event()

    def silent(_: bytes) -> Iterator[bytes]:
        ended.wait(20)
        yield b""

    with raw_server(silent) as server, Client(server.url, seconds=20.0) as client:
        with pytest.raises(AnswerTimeout), client.stream("GET", "/", seconds=0.1):
            raise AssertionError("no answer came")
        ended.set()


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br", "zstd", "deflate", "x-own"])
def test_a_compressed_answer_is_refused_before_its_body(coding: str) -> None:
    bomb = gzip.compress(bytes(16 << 20))
    with (
        raw_server(lambda _: [answer(bomb, "200 OK", f"content-encoding: {coding}")]) as server,
        Client(server.url) as client,
        pytest.raises(AnswerError, match=r"the answer is compressed \(.*not asked for"),
    ):
        client.get("/")


def test_a_coding_in_a_second_header_is_refused() -> None:
    headers = ["content-encoding: identity", "content-encoding: gzip"]
    with (
        raw_server(lambda _: [answer(b"", "200 OK", *headers)]) as server,
        Client(server.url) as client,
        pytest.raises(AnswerError),
    ):
        client.get("/")


def test_an_answer_beyond_the_bound_is_not_held() -> None:
    sent: list[int] = []

    def endless(_: bytes) -> Iterator[bytes]:
        yield HEAD + b"\r\n"
        while True:
            sent.append(1)
            yield bytes(100_000)

    with (
        raw_server(endless) as server,
        Client(server.url, most_bytes=5000) as client,
        pytest.raises(AnswerError, match="longer than 5000 bytes"),
    ):
        client.get("/")
    assert len(sent) < 1000, "its sender soon learns of it"
    with (
        raw_server(lambda _: [answer(b"x" * 5000)]) as server,
        Client(server.url, most_bytes=5000) as client,
    ):
        assert len(client.get("/").content) == 5000


def test_a_refusal_in_the_middle_of_an_upload_is_read() -> None:
    refusal = answer(b"too long", "413 Content Too Large", "connection: close")
    with (
        raw_server(lambda _: one(refusal), reads_body=False) as server,
        Client(server.url) as client,
    ):
        received = client.request("POST", "/", content=bytes(64 << 20))
    assert (received.status_code, received.content) == (413, b"too long")


def test_without_a_listener_there_is_no_connection() -> None:
    with pytest.raises(ConnectError, match="refused"):
        Client(f"http://127.0.0.1:{free_port()}").get("/")
    with pytest.raises(ConnectError):
        Client("http://no-such-host.invalid").get("/")


def test_a_closed_client_sends_nothing() -> None:
    with raw_server(lambda _: [answer()]) as server:
        client = Client(server.url)
        client.get("/")
        client.close()
        with pytest.raises(HttpError, match="closed"):
            client.get("/")


@pytest.mark.parametrize(
    "url",
    ["", "host:80", "http://", "ftp://host", "http://[::1", "http://h:x", "http://h:99999",
     "http://h:0", "http://a b", "http://a\nb", "http://" + "a" * 64, "http://a..b", "/path"],
)  # fmt: skip
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        Client(url)


def test_an_address_has_its_parts() -> None:
    parsed = Address.parse("https://me:a%20b@[::1]:8443/below/")
    assert parsed == Address("https", "::1", 8443, "/below", "me:a b")
    assert (parsed.place, parsed.origin) == ("[::1]:8443", "https://[::1]:8443")
    assert parsed.basic == "Basic bWU6YSBi"
    plain = Address.parse("http://bücher.example")
    assert (plain.place, plain.basic, plain.target("", None)) == (
        "xn--bcher-kva.example",
        None,
        "/",
    )


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{scheme}_proxy", raising=False)
        monkeypatch.delenv(f"{scheme}_proxy".upper(), raising=False)


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_gets_the_whole_url_and_its_own_login(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(lambda _: [answer(b"[]")]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:pw@{proxy.place}")
        with Client("http://collector.example:8480", authorization=lambda: "Bearer t") as client:
            assert client.get("/v1/jobs").json() == []
    (head,) = proxy.heads
    assert head[0] == "GET http://collector.example:8480/v1/jobs HTTP/1.1"
    assert {"Host: collector.example:8480", "authorization: Bearer t"} <= {*head}
    assert "proxy-authorization: Basic bWU6cHc=" in head


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_opens_a_tunnel_for_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(lambda _: one(answer(b"", "407 Login"))) as proxy:
        monkeypatch.setenv("all_proxy", proxy.place)
        with pytest.raises(ConnectError, match="407"):
            Client("https://collector.example", authorization=lambda: "Bearer t").get("/")
    (head,) = proxy.heads
    assert head[0].startswith("CONNECT collector.example:443 ")
    assert not any("Bearer" in line for line in head), "the token is inside the tunnel only"


@pytest.mark.usefixtures("no_proxies")
def test_no_proxy_is_used_where_none_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with raw_server(lambda _: [answer()]) as server, Client(server.url) as client:
        assert client.get("/").status_code == 200
        monkeypatch.setenv("no_proxy", "other.example,.invalid")
        with pytest.raises(ConnectError, match=r"resolution|known|address"):
            Client("http://collector.invalid").get("/")


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "https://proxy", "http://", "a b"])
def test_a_proxy_of_another_kind_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ConfigurationError, match="must be http://HOST:PORT"):
        Client("http://collector.example")
