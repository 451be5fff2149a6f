"""A collector and an agent for the processes of a check."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepwatch.signals import places
from tests.services import ROOT, Services

from .artefacts import keep


@contextmanager
def services(kept_as: str = "") -> Iterator[Services]:
    """Start both on this check's rings; the store is kept under `kept_as`, if given.

    Raises:
        ServiceError: they do not start.
    """
    rings = Path(os.environ[places.ENV_RING_DIR])
    rings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        site = Services(Path(folder), rings, [str(ROOT), *filter(None, sys.path)])
        try:
            site.start()
            yield site
        finally:
            site.close()
        if kept_as:
            keep(site.store, kept_as)
