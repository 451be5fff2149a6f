"""`stepwatch build dashboards --push`, against a server that keeps to Grafana's documented API.

The server is not Grafana: it holds folders and dashboards and answers as the reference of its HTTP
API says (200, 401, 404, the fields of each answer). What Grafana changes in a dashboard that it
keeps is not covered.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli.main import OK, PROBLEM, USAGE, main

TOKEN = "glsa_of-a-test"
UID = "stepwatch-training-job"


class Server:
    """Dashboards by uid and folders, on a free port of loopback until it is closed."""

    def __init__(self) -> None:
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.folders: list[dict[str, str]] = []
        self.writes = 0
        self.reason = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def read(self, path: str) -> tuple[int, Any]:
        """Status and body that answer a GET."""
        if path.startswith("/api/folders"):
            return 200, self.folders
        stored_dashboard = self.dashboards.get(path.removeprefix("/api/dashboards/uid/"))
        return (
            (200, stored_dashboard)
            if stored_dashboard
            else (404, {"message": "Dashboard not found"})
        )

    def write(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Status and body that answer a POST."""
        if self.reason:
            return 400, {"message": self.reason}
        self.writes += 1
        if path == "/api/folders":
            self.folders.append({"uid": f"f{self.writes}", "title": body["title"]})
            return 200, self.folders[-1]
        uid = body["dashboard"]["uid"]
        new_dashboard = {**body["dashboard"], "id": 7, "version": self.writes}
        self.dashboards[uid] = {
            "dashboard": new_dashboard,
            "meta": {"folderUid": body["folderUid"]},
        }
        return 200, {"uid": uid, "status": "success"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Look something up."""
                self._answer(*server.read(self.path))

            def do_POST(self) -> None:
                """Write something."""
                body = self.rfile.read(int(self.headers["content-length"]))
                if self._is_authorized():
                    self._answer(*server.write(self.path, json.loads(body)))
                else:
                    self._answer(401, {"message": "Unauthorized"})

            def _is_authorized(self) -> bool:
                return self.headers["authorization"] == f"Bearer {TOKEN}"

            def _answer(self, status: int, body: Any) -> None:
                is_authorized = self._is_authorized()
                self.send_response(status if is_authorized else 401)
                self.end_headers()
                self.wfile.write(json.dumps(body if is_authorized else {"message": "no"}).encode())

            def log_message(self, *words: Any) -> None:
                """Quiet."""

        return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


@pytest.fixture
def words(server: Server, tmp_path: Path) -> list[str]:
    """The command, with a token that the server knows."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    return ["build", "dashboards", "--push", server.url, "--token-file", str(token)]


def test_a_second_push_writes_nothing(
    server: Server, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--folder", "Training"]) == OK
    assert f"{UID}: made" in capsys.readouterr().out.splitlines()
    assert server.dashboards[UID]["meta"]["folderUid"] == server.folders[0]["uid"]
    written = server.writes
    assert main([*words, "--folder", "Training"]) == OK
    assert main(words) == OK
    shown = capsys.readouterr().out.splitlines()
    assert f"{UID}: unchanged" in shown
    assert all(line.endswith(": unchanged") for line in shown)
    assert server.writes == written


def test_a_changed_dashboard_is_written_over_where_it_lies(
    server: Server, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--folder", "Training"]) == OK
    server.dashboards[UID]["dashboard"]["title"] = "edited by hand"
    capsys.readouterr()
    written = server.writes
    assert main([*words, "--dry-run"]) == OK
    shown = capsys.readouterr().out.splitlines()
    assert f"{UID}: would be written over" in shown
    assert '-  "title": "edited by hand",' in shown
    assert server.writes == written
    assert main(words) == OK
    assert server.dashboards[UID]["dashboard"]["title"] == "Training: job"
    assert server.dashboards[UID]["meta"]["folderUid"] == server.folders[0]["uid"]


def test_a_dry_run_on_an_empty_server_makes_nothing(
    server: Server, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--folder", "Training", "--dry-run"]) == OK
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "folder Training: to be made"
    assert f"{UID}: would be made" in shown
    assert (server.writes, server.folders, server.dashboards) == (0, [], {})


def test_a_refusal_is_one_line_without_the_token(
    server: Server, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reason = "Cannot save\nprovisioned dashboard"
    assert main(words) in (PROBLEM, USAGE)
    (line,) = capsys.readouterr().err.splitlines()
    assert "refused with 400: Cannot save provisioned dashboard; look at its log" in line
    (tmp_path / "token").write_text("glsa_of-nobody")
    assert main(words) in (PROBLEM, USAGE)
    (line,) = capsys.readouterr().err.splitlines()
    assert "refused with 401" in line
    assert "--token-file" in line
    assert "glsa" not in line


@pytest.mark.parametrize("extra", [["--out", "x"], ["--token-file", ""]])
def test_what_does_not_fit_push_is_wrong_usage(words: list[str], extra: list[str]) -> None:
    assert main([*words, *extra]) == USAGE


def test_nobody_there_is_one_line(
    server: Server, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.close()
    assert main(words) in (PROBLEM, USAGE)
    (line,) = capsys.readouterr().err.splitlines()
    assert "no answer of" in line
