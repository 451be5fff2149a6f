"""Writes the OpenAPI document: `python -m stepwatch.collector.web.openapi FILE`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api

from .document import openapi_text


def write_document(path: Path) -> None:
    """Write the document of a collector with an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.sqlite(Path(folder) / "store.db")
        try:
            path.write_bytes(openapi_text(make_api(Service(store)).routes))
        finally:
            store.close()


if __name__ == "__main__":
    write_document(Path(sys.argv[1]))
