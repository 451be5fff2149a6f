"""The bundle: its size, its licences, a build without Node.js, and a collector without a bundle."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.page import routes
from tests.collector.client import Client

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "collector/page"
BUILT = ROOT / "collector/stepwatch/collector/web/page/built"
MOST_BYTES = 120_000
"""Gzipped, in all: what the first visit loads."""


@pytest.fixture
def client(service: Service) -> Client:
    return Client(make_api(service))


def test_unit_tests_of_the_page_pass() -> None:
    words = [sys.executable, str(SOURCES / "hatch_build.py"), "--test"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_page_has_the_types_of_the_answers_and_the_style() -> None:
    """The types are made from the collector's document: a renamed key fails here."""
    words = [sys.executable, str(SOURCES / "hatch_build.py"), "--lint"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_bundle_is_small_and_whole() -> None:
    packed = sum(path.stat().st_size for path in BUILT.glob("*.gz"))
    assert 0 < packed <= MOST_BYTES
    index = (BUILT / "index.html").read_text()
    linked = re.findall(r"/static/([^\"]+)", index)
    assert len(linked) == 2 and all((BUILT / name).is_file() for name in linked)
    assert "<style" not in index and not re.search(r"<script(?![^>]*src)", index)


def test_every_package_in_the_bundle_has_its_licence() -> None:
    wanted = json.loads((SOURCES / "package.json").read_text())["dependencies"].keys() - {"esbuild"}
    licences = (BUILT / "licenses.txt").read_text()
    assert [name for name in wanted if f"{name}\n\n" not in licences] == []
    assert licences.count("Permission is hereby granted") >= len(wanted)


def test_the_lock_file_names_no_address() -> None:
    lock = (SOURCES / "package-lock.json").read_text()
    assert '"resolved"' not in lock and lock.count('"integrity"') > 10


def test_a_collector_without_the_bundle_says_which_command_builds_it(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(routes, "_folder", lambda: tmp_path)
    answer = client.get("/")
    assert answer.status_code == 503
    assert "python collector/page/hatch_build.py" in answer.text and answer.text.count("\n") == 1


def test_files_are_gzipped_and_their_names_immutable(client: Client) -> None:
    (script,) = re.findall(r"/static/(app-\w+\.js)", client.get("/").text)
    answer = client.get(f"/static/{script}")
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    client.headers["accept-encoding"] = "identity"
    plain = client.get(f"/static/{script}")
    assert "content-encoding" not in plain.headers and plain.content == answer.content
    assert client.get("/").headers["cache-control"] == "no-cache"
