"""A site whose receivers are one small server, for tests of routes."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from stepwatch.alerts.routes import config
from stepwatch.alerts.routes.site import parse_site
from tests.ports import free_port
from tests.waiting import until


class Delivery(NamedTuple):
    """One notification: its path, its credentials, its body, and its arrival in Unix seconds."""

    path: str
    authorization: str
    body: dict[str, Any]
    arrived_at: float = 0.0


class Pager:
    """Takes every notification on a free port of loopback until it is closed."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """Bodies that were sent to a path, in order."""
        return [delivery.body for delivery in list(self.deliveries) if delivery.path == path]

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        pager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """One notification."""
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                document = json.loads(body)
                authorization = self.headers.get("authorization", "")
                sent = Delivery(self.path, authorization, document, time.time())
                pager.deliveries.append(sent)
                self.send_response(202 if self.path == "/pagerduty" else 200)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing is printed."""

        return Handler


def site_of(url: str, secrets: Path) -> dict[str, Any]:
    """A site whose receivers all lead to `url`, with secrets in the folder `secrets`."""
    for name, text in (("key", "routing-key"), ("slack", f"{url}/slack"), ("token", "bearer")):
        (secrets / name).write_text(text)
    token = str(secrets / "token")
    return {
        "owners": [{"jobs": "llama-*", "team": "pretraining"}, {"jobs": "*", "team": "research"}],
        "alerting": {
            "receivers": {
                "oncall": {
                    "pagerduty": {
                        "routing_key_file": str(secrets / "key"),
                        "url": f"{url}/pagerduty",
                    }
                },
                "channel": {"slack": {"api_url_file": str(secrets / "slack"), "channel": "#t"}},
                "platform": {"webhook": {"url": f"{url}/platform", "without_secret": True}},
                "research": {"incident_io": {"url": f"{url}/incident-io", "token_file": token}},
                "heartbeat": {"webhook": {"url": f"{url}/dead-man", "credentials_file": token}},
            },
            "default": {"page": "platform", "ticket": "platform"},
            "dead_man": {"receiver": "heartbeat", "every": "1s"},
            "routes": [
                {"team": "pretraining", "page": "oncall", "ticket": "channel"},
                {"team": "research", "classes": ["research"], "page": "research"},
            ],
        },
    }


def write_config(site: dict[str, Any], folder: Path, *, quick: bool = False) -> Path:
    """Write the output of `stepwatch build routes`; `quick`: with groups that wait for one
    second."""
    text = config.config_text(parse_site(yaml.safe_dump(site), "site.yaml"), "site.yaml")
    if quick:
        text = text.replace("group_wait: 30s", "group_wait: 1s")
        for slow in ("group_interval: 1m", "group_interval: 5m"):
            text = text.replace(slow, "group_interval: 1s")
    (folder / config.TEMPLATE_FILE).write_text(config.template_text())
    (folder / config.CONFIG_FILE).write_text(text)
    return folder / config.CONFIG_FILE


def amtool(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Alertmanager's own tool."""
    tool = shutil.which("amtool")
    assert tool, "amtool is missing; install it with: apt-get install prometheus-alertmanager"
    return subprocess.run([tool, *words], capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def alertmanager(file: Path) -> Iterator[str]:
    """Run Alertmanager with a configuration; its address once it is ready."""
    tool = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    assert tool, "alertmanager is missing; install it with: apt-get install prometheus-alertmanager"
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        *(tool, f"--config.file={file}", f"--storage.path={file.parent / 'data'}"),
        *(f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address="),
    ]
    log = file.parent / "alertmanager.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as ran:
        try:
            until("Alertmanager", lambda: _ready(url, ran, log))
            yield url
        finally:
            ran.terminate()


def _ready(url: str, ran: subprocess.Popen[bytes], log: Path) -> bool:
    assert ran.poll() is None, log.read_text()
    try:
        return httpx.get(f"{url}/-/ready").status_code == 200
    except httpx.HTTPError:
        return False
