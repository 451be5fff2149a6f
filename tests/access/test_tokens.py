"""Token files: their content, their permissions, and their replacement."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

import pytest

from stepwatch.collector.web.access import Role, TokenFiles, Tokens
from stepwatch.collector.web.access.roles import EVERYTHING, allowed
from stepwatch.signals.access import Access, TokenFile, read_token
from stepwatch.signals.errors import ConfigurationError

from .certificates import secret

OLD, NEW = "0123456789abcdef-old", "0123456789abcdef-new"
INGEST = frozenset({Role.INGEST})


def files(path: Path, roles: frozenset[Role] = INGEST) -> TokenFiles:
    return TokenFiles([(path, roles)])


def test_several_tokens_are_in_force_and_one_can_be_taken_away(tmp_path: Path) -> None:
    path = secret(tmp_path / "tokens", f"# agents\n\n{OLD}\n")
    token_files = files(path)
    assert (
        token_files.tokens.find(OLD.encode()) is not None
        and token_files.tokens.find(NEW.encode()) is None
    )
    secret(path, f"{OLD}\n{NEW}\n")
    token_files.refresh()
    assert all(token_files.tokens.find(token.encode()) is not None for token in (OLD, NEW))
    secret(path, f"{NEW}\n")
    token_files.refresh()
    assert token_files.tokens.find(OLD.encode()) is None


@pytest.mark.parametrize("spoilt", ["", "# none\n", "two words\nthree words here\n", "\x00\n"])
def test_a_file_that_is_spoilt_while_it_is_in_force_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoilt: str
) -> None:
    path = secret(tmp_path / "tokens", OLD)
    token_files = files(path)
    secret(path, spoilt)
    token_files.refresh()
    token_files.refresh()
    assert token_files.tokens.find(OLD.encode()) is not None
    (message,) = [
        record.getMessage() for record in caplog.records if record.levelno == logging.ERROR
    ]
    assert message.startswith("the tokens read before stay in force: ") and "\n" not in message


@pytest.mark.parametrize(
    ("text", "roles", "message"),
    [
        ("", INGEST, "is empty; put one token on each line"),
        ("node-1 a-token-of-16-chars", EVERYTHING, "a line is one token"),
        ("node-1 node-2 a-token", INGEST, "a line is one token"),
        ("../node a-token-of-16-chars", INGEST, "must be 1-63 letters"),
        ("t\u00f6ken-of-16-characters", INGEST, "openssl rand -hex 32"),
        ("x" * 513, INGEST, "openssl rand -hex 32"),
        (f"n1 {OLD}\nn2 {OLD}", INGEST, "give each node one of its own"),
        ("x" * (1 << 20) + "\n", INGEST, "it has more than 1048576 bytes"),
    ],
)
def test_what_is_no_token_is_refused_in_one_line(
    tmp_path: Path, text: str, roles: frozenset[Role], message: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        files(secret(tmp_path / "tokens", text), roles)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert OLD not in str(refused.value) and "a-token" not in str(refused.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        files(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        read_token(tmp_path / "pipe")


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_read_or_write_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    path = secret(tmp_path / "tokens", OLD)
    path.chmod(mode)
    read_token(path)
    files(path)
    lines = [record.getMessage() for record in caplog.records]
    assert (
        lines == [f"{path} has mode {mode:04o}: other users see this secret; chmod 600 {path}"] * 2
    )


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_a_file_of_its_user_and_group_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    path = secret(tmp_path / "tokens", OLD)
    path.chmod(mode)
    files(path)
    assert not caplog.records


def test_a_token_that_can_be_guessed_is_warned_about_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files(secret(tmp_path / "tokens", "hunter2"))
    (message,) = [record.getMessage() for record in caplog.records]
    assert "can be guessed" in message and "hunter2" not in message


def test_a_token_in_two_files_has_the_roles_of_both(tmp_path: Path) -> None:
    ingest_file, read_file = secret(tmp_path / "ingest", OLD), secret(tmp_path / "read", OLD)
    token_files = TokenFiles([(ingest_file, INGEST), (read_file, frozenset({Role.READ}))])
    roles = token_files.tokens.find(OLD.encode())
    assert roles is not None and roles.roles == {Role.INGEST, Role.READ}
    assert token_files.tokens.described() == "1 ingest+read"


def test_what_is_held_shows_no_token() -> None:
    tokens = Tokens.single(OLD)
    assert OLD not in repr(vars(tokens)) and OLD not in repr(tokens.find(OLD.encode()))
    assert Tokens.single("").find(b"x") is None


def test_a_client_takes_up_another_token_and_keeps_the_old_one_where_there_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = secret(tmp_path / "token", OLD)
    token_file = TokenFile(path)
    secret(path, NEW)
    assert token_file.current() == NEW
    path.unlink()
    assert token_file.current() == NEW and token_file.current() == NEW
    assert len([record for record in caplog.records if "stays in use" in record.getMessage()]) == 1
    secret(path, OLD)
    assert token_file.current() == OLD


def test_the_environment_names_files_and_options_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWATCH_TOKEN_FILE", str(secret(tmp_path / "a", OLD)))
    assert Access.from_options(None, None).authorization() == f"Bearer {OLD}"
    second_file = str(secret(tmp_path / "b", NEW))
    assert Access.from_options(second_file, None).authorization() == f"Bearer {NEW}"
    monkeypatch.setenv("STEPWATCH_CA", second_file)
    with pytest.raises(ConfigurationError, match="it holds no certificate; pass --ca FILE"):
        Access.from_options(None, None)
    monkeypatch.delenv("STEPWATCH_TOKEN_FILE")
    monkeypatch.delenv("STEPWATCH_CA")
    assert Access.from_options(None, None).authorization() is None
    assert Access.from_options(None, None).context().verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("method", "path", "roles"),
    [
        ("POST", "/v1/segments", {"ingest"}),
        ("GET", "/v1/segments", {"read", "admin"}),
        ("GET", "/v1/incidents", {"read", "admin", "ingest"}),
        ("GET", "/v1/incidents/x", {"read", "admin"}),
        ("GET", "/metrics", {"read", "admin"}),
        ("HEAD", "/v1/jobs", {"read", "admin"}),
        ("POST", "/v1/silences", {"admin"}),
        ("DELETE", "/v1/silences/x", {"admin"}),
        ("POST", "/v1/incidents/x/notes", {"admin"}),
        ("PUT", "/v1/anything/later", {"admin"}),
        ("POST", "/", {"admin"}),
        ("GET", "/", set()),
        ("GET", "/jobs/a", set()),
        ("GET", "/static/job.js", set()),
        ("GET", "/healthz", set()),
        ("GET", "/jobsx", {"read", "admin"}),
    ],
)
def test_who_may_what(method: str, path: str, roles: set[str]) -> None:
    assert allowed(method, path) == roles
