"""Silences in an Alertmanager, through its API v2.

https://github.com/prometheus/alertmanager/blob/v0.25.0/api/v2/openapi.yaml
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stepwatch.cli.source import SourceError
from stepwatch.signals.errors import UsageError
from stepwatch.signals.names import ALERT_OF, FindingKind, labels

if TYPE_CHECKING:
    from stepwatch.signals.http import Answer

_SECONDS = 10.0
_MOST_BYTES = 1 << 20


def silence(url: str, about: Mapping[str, str], request: Mapping[str, Any], now: float) -> str:
    """Silence the alerts for a job, node or kind from `now` (Unix seconds); return the silence id.

    Raises:
        SourceError: no server answers, or it refuses.
    """
    document = {
        "matchers": [
            {"name": name, "value": value, "isRegex": False, "isEqual": True}
            for name, value in _labels(about).items()
        ],
        "startsAt": _time(now),
        "endsAt": _time(now + request["seconds"]),
        "createdBy": request["by"],
        "comment": request["why"],
    }
    answer = _send("POST", url, "/api/v2/silences", json=document)
    try:
        return str(answer.json()["silenceID"])[:80]
    except (ValueError, KeyError, TypeError) as error:
        problem = f"the server at {url} is not an Alertmanager; pass its base URL"
        raise SourceError(problem) from error


def expire(url: str, identity: str) -> None:
    """End a silence; an unknown or expired silence is not an error.

    Raises:
        SourceError: no server answers, or it refuses.
    """
    if re.fullmatch(r"[0-9A-Za-z-]{1,80}", identity):
        _send("DELETE", url, f"/api/v2/silence/{identity}", known_only=False)


def _send(method: str, url: str, path: str, *, known_only: bool = True, **sent: Any) -> Answer:
    from stepwatch.signals.http import Client, HttpError

    try:
        client = Client(url, seconds=_SECONDS, most_bytes=_MOST_BYTES)
    except ValueError as error:
        raise UsageError(f"{url[:200]!r} is not a URL: {error}") from error
    try:
        with client:
            answer = client.request(method, path, **sent)
    except HttpError as error:
        raise SourceError(
            f"no Alertmanager answers at {url} ({type(error).__name__}); pass its base URL"
        ) from error
    if answer.status_code != 200 and (known_only or answer.status_code not in (404, 500)):
        reason = " ".join(answer.text.split())[:200]
        raise SourceError(f"Alertmanager at {url}: HTTP {answer.status_code} {reason}".rstrip())
    return answer


def _labels(about: Mapping[str, str]) -> dict[str, str]:
    """Return the alerts' labels; a kind is labelled with its alert's name."""
    label_values = {labels.JOB: about["job"], labels.NODE: about["node"]}
    if about["kind"]:
        label_values["alertname"] = ALERT_OF[FindingKind(about["kind"])]
    return {name: value for name, value in label_values.items() if value}


def _time(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).isoformat()
