"""A real S3 server on a free port of this machine, and the environment to reach it."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from urllib.error import URLError

import pytest

from tests.ports import free_port
from tests.waiting import until

BUCKET = "telemetry"
MODULES = ("s3fs", "moto", "flask", "flask_cors")


def missing() -> str:
    """Modules that are not installed, for who skips; empty if all are."""
    return ", ".join(name for name in MODULES if find_spec(name) is None)


@contextmanager
def running() -> Iterator[str]:
    """The URL of an empty bucket of a server that runs while this is held."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "not-shown")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            address = f"http://127.0.0.1:{port}/{BUCKET}"
            until("the server of objects to answer", lambda: _create_bucket(address))
            yield f"s3://{BUCKET}/{os.getpid()}"
        finally:
            server.kill()
            server.wait()


def _create_bucket(address: str) -> bool:
    """Create the bucket; return whether the server answered."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="PUT")):
            return True
    except (URLError, ConnectionError):
        return False
