"""A collector with TLS, as a process: accepted clients, and the renewal of its certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from stepwatch.cli.main import PROBLEM, USAGE, main
from stepwatch.collector.web.access.certificate import Certificate
from stepwatch.signals.errors import ConfigurationError
from tests.waiting import until

from .certificates import Authority, secret, shakes_hands
from .processes import Collector

READER, NEXT, ADMIN = "the-token-of-readers", "the-next-token-of-readers", "the-token-of-admins"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    new_authority = Authority(tmp_path / "pki")
    new_authority.sign("localhost", "127.0.0.1")
    return new_authority


@pytest.fixture
def collector(tmp_path: Path, authority: Authority) -> Iterator[Collector]:
    readers = secret(tmp_path / "readers", READER)
    admins = secret(tmp_path / "admins", ADMIN)
    words = ["--read-token-file", str(readers), "--admin-token-file", str(admins)]
    new_collector = Collector(tmp_path, *authority.options, *words)
    yield new_collector
    new_collector.kill()


def shown_by(port: int, ca: Path, version: ssl.TLSVersion | None = None) -> bytes:
    """The certificate that a new connection sees, DER."""
    context = ssl.create_default_context(cafile=ca)
    if version is not None:
        context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        certificate = wrapped.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def test_verbs_ask_over_tls_with_the_ca_and_the_token(
    tmp_path: Path,
    authority: Authority,
    collector: Collector,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def verb(*words: str) -> tuple[int, str, str]:
        code = main([*words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    ca, reader = str(authority.ca), str(tmp_path / "readers")
    options = ["--collector", collector.url]
    code, out, err = verb("incidents", "--json", *options, "--ca", ca, "--token-file", reader)
    assert (code, out.strip(), err) == (0, "[]", ""), (out, err)

    code, _, err = verb("incidents", *options, "--token-file", reader)
    assert code == PROBLEM and "has no trusted signer: pass --ca FILE" in err
    code, _, err = verb("incidents", *options, "--ca", ca)
    assert code == PROBLEM and "pass --token-file FILE, or set STEPWATCH_TOKEN_FILE" in err
    plain = ["--collector", f"http://localhost:{collector.port}"]
    code, _, err = verb("incidents", *plain, "--token-file", reader)
    assert code == PROBLEM and "speaks TLS only: pass --collector https://localhost" in err
    assert err.count("\n") == 1

    monkeypatch.setenv("STEPWATCH_CA", ca)
    monkeypatch.setenv("STEPWATCH_COLLECTOR", collector.url)
    monkeypatch.setenv("STEPWATCH_TOKEN_FILE", reader)
    code, out, err = verb("status", "--json")
    assert code == 0, err
    silence = ["silence", "--job", "llama", "--for", "1h", "--why", "planned"]
    code, _, err = verb(*silence)
    assert code == PROBLEM and "--admin-token-file" in err and err.count("\n") == 1
    monkeypatch.setenv("STEPWATCH_TOKEN_FILE", str(tmp_path / "admins"))
    code, _, err = verb(*silence)
    assert code == 0, err
    assert not any(token in collector.log.read_text() for token in (READER, ADMIN))
    assert READER.encode() not in collector.command_line


def test_tokens_and_certificate_are_renewed_without_a_restart(
    tmp_path: Path, authority: Authority, collector: Collector
) -> None:
    old_certificate = shown_by(collector.port, authority.ca)
    open_client = httpx.Client(verify=ssl.create_default_context(cafile=authority.ca))
    open_client.headers["authorization"] = f"Bearer {READER}"
    assert open_client.get(f"{collector.url}/v1/jobs").status_code == 200

    secret(tmp_path / "readers", f"{READER}\n{NEXT}\n")
    collector.wait_for("read the tokens again: 1 admin, 2 read")
    for token in (READER, NEXT):
        assert collector.get("/v1/jobs", authority.ca, token).status_code == 200
    secret(tmp_path / "readers", NEXT)
    until(
        "the old token to be refused",
        lambda: collector.get("/v1/jobs", authority.ca, READER).status_code == 401,
    )
    assert collector.get("/v1/jobs", authority.ca, NEXT).status_code == 200

    authority.sign("localhost")
    collector.wait_for(f"read the certificate {authority.chain} again")
    assert shown_by(collector.port, authority.ca) != old_certificate
    assert collector.get("/v1/jobs", authority.ca, NEXT).status_code == 200
    open_client.close()


def test_a_certificate_without_its_key_changes_nothing_until_the_key_is_there(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(authority.chain, authority.key)
    old_key = authority.key.read_bytes()
    authority.sign("localhost")
    new_key = authority.key.read_bytes()
    authority.key.write_bytes(old_key)
    certificate.refresh()
    certificate.refresh()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "the certificate read before stays in use" in message and "of another" in message
    assert shakes_hands(certificate, authority.ca), "what was read before is whole"
    authority.key.write_bytes(new_key)
    certificate.refresh()
    assert len(caplog.records) == 1 and shakes_hands(certificate, authority.ca)


def test_old_versions_of_tls_are_refused(authority: Authority, collector: Collector) -> None:
    shown_by(collector.port, authority.ca, ssl.TLSVersion.TLSv1_2)
    with pytest.raises((ssl.SSLError, OSError)), pytest.warns(DeprecationWarning):
        shown_by(collector.port, authority.ca, ssl.TLSVersion.TLSv1_1)


def test_who_speaks_no_tls_is_no_line_in_the_log(
    authority: Authority, collector: Collector
) -> None:
    for _ in range(3):
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{collector.port}/v1/jobs", timeout=30.0)
    with socket.create_connection(("127.0.0.1", collector.port)) as connection:
        connection.sendall(b"\x16\x03\x01garbage" * 100)
    assert collector.get("/healthz", authority.ca).status_code == 200
    assert len(collector.log.read_text().splitlines()) <= 2, collector.log.read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--tls-cert", "{chain}"], USAGE, "--tls-cert and --tls-key go together"),
        (["--tls-key", "{key}"], USAGE, "--tls-cert and --tls-key go together"),
        (["--tls-cert", "{chain}", "--tls-key", "/nowhere"], PROBLEM, "No such file"),
        (["--tls-cert", "{key}", "--tls-key", "{key}"], PROBLEM, "one of them is not a PEM file"),
        (["--tls-cert", "{chain}", "--tls-key", "{other}"], PROBLEM, "of another certificate"),
        (["--host", "0.0.0.0", "--tls-cert", "{chain}", "--tls-key", "{key}"], PROBLEM, "token"),
        (["--read-token-file", "/nowhere"], PROBLEM, "cannot read the token file /nowhere"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(
    tmp_path: Path,
    authority: Authority,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    second_authority = Authority(tmp_path / "other")
    second_authority.sign("localhost")
    named = {"chain": authority.chain, "key": authority.key, "other": second_authority.key}
    options = [word.format(**named) for word in words]
    store = ["--store", str(tmp_path / "s.db"), "--port", "0"]
    assert main(["collector", *store, *options]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_key_with_a_password_asks_nobody(tmp_path: Path, authority: Authority) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(authority.key.read_bytes(), None)
    authority.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    with pytest.raises(ConfigurationError, match="the key has a password"):
        Certificate(authority.chain, authority.key)
