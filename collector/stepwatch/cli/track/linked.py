"""The run that a job's trainer opened, from the links that the hooks report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from stepwatch.signals.errors import UsageError

from .opening import FORMS


def linked_run(links: Iterable[Mapping[str, Any]]) -> str:
    """Return the only linked run, as `open_target` takes it.

    Raises:
        UsageError: there is none, or there are several.
    """
    runs = sorted({words for link in links if (words := _words(link))})
    if len(runs) == 1:
        return runs[0]
    known = f"the job has several runs: {', '.join(runs)}" if runs else "the job reports no run"
    raise UsageError(f"{known}; pass --to {FORMS}")


def _words(link: Mapping[str, Any]) -> str:
    """Return a link in the form of `--to`; empty if it does not say enough."""
    tracker, run = link["tracker"], link["run"]
    if tracker != "wandb":
        return f"{tracker}:{run}"
    match urlsplit(link["url"]).path.strip("/").split("/"):
        case [entity, project, "runs", name]:
            return f"wandb:{entity}/{project}/{name}"
    return ""  # an offline run has no address
