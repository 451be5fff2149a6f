"""Validates a request before anything is written: lengths, names, times."""

from __future__ import annotations

import json
from typing import Any

from stepwatch.collector.store.response import EVENTS, Wanted
from stepwatch.collector.store.response.notes import ASSIGNED, COMMENT
from stepwatch.collector.store.response.silences import LONGEST_SECONDS
from stepwatch.collector.web.access.readers import MOST_BODY_BYTES
from stepwatch.signals.names import FindingKind
from stepwatch.signals.places import is_name
from stepwatch.signals.plain_text import plain_line

MAX_BYTES = MOST_BODY_BYTES
JSON = "application/json"
_LONGEST = {"by": 80, "why": 300, "text": 1000, "alertmanager": 80}
_KINDS = frozenset(kind.value for kind in FindingKind)


class MediaTypeError(Exception):
    """A body is not sent as JSON."""


def check_media_type(sent: str) -> None:
    """Accept only `application/json`.

    A page on another site may send other types without preflight.

    Raises:
        MediaTypeError: the type is different or missing; the message is the answer.
    """
    if sent.partition(";")[0].strip().lower() != JSON:
        raise MediaTypeError(f"send content-type: {JSON}")


def document_of(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body.

    Raises:
        ValueError: the body holds no object; the message is the answer.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("send a JSON object") from error
    if not isinstance(document, dict):
        raise ValueError("send a JSON object")
    return document


def wanted_silence(document: dict[str, Any]) -> Wanted:
    """Return the requested silence.

    Raises:
        ValueError: a field is invalid; the message is the answer.
    """
    without_unknown_keys(document, ("job", "node", "kind", "why", "by", "seconds", "alertmanager"))
    job, node, kind = (_text(document, key, 63) for key in ("job", "node", "kind"))
    if not (job or node or kind):
        raise ValueError("name a job, a node or a kind; a silence of everything hides all")
    for name in (job, node):
        if name and not is_name(name):
            raise ValueError(f"{name[:80]!r} is not a name of a job or node")
    if kind and kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(sorted(_KINDS))}")
    why, author = _needed(document, "why"), _needed(document, "by")
    seconds = document.get("seconds")
    if not isinstance(seconds, int | float) or not 1.0 <= seconds <= LONGEST_SECONDS:
        days = LONGEST_SECONDS / 86_400
        raise ValueError(f"a silence lasts from one second to {days:.0f} days (seconds)")
    return Wanted(job, node, kind, why, author, float(seconds), text_of(document, "alertmanager"))


def wanted_note(document: dict[str, Any]) -> tuple[str, str, str]:
    """Return a note's event, author and text.

    Raises:
        ValueError: a field is invalid; the message is the answer.
    """
    without_unknown_keys(document, ("event", "by", "text"))
    event, text = document.get("event"), text_of(document, "text")
    if event not in EVENTS:
        raise ValueError(f"event must be one of {', '.join(EVENTS)}")
    if event in (COMMENT, ASSIGNED) and not text:
        raise ValueError("text is missing: the comment, or who owns it")
    return str(event), _needed(document, "by"), text


def author_of(document: dict[str, Any]) -> str:
    """Return the request's author.

    Raises:
        ValueError: the author is missing or too long.
    """
    without_unknown_keys(document, ("by",))
    return _needed(document, "by")


def without_unknown_keys(document: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Refuse a document with other keys.

    Raises:
        ValueError: it has another key; the message is the answer.
    """
    unknown = sorted(str(key)[:40] for key in document if key not in keys)
    if unknown:
        raise ValueError(f"there is no key {unknown[0]!r}; there are {', '.join(keys)}")


def _needed(document: dict[str, Any], key: str) -> str:
    text = text_of(document, key)
    if not text:
        raise ValueError(f"{key} is missing")
    return text


def text_of(document: dict[str, Any], key: str) -> str:
    """Return a text field as one line; empty if it is missing.

    Raises:
        ValueError: it is no text, or too long; the message is the answer.
    """
    return _text(document, key, _LONGEST[key])


def _text(document: dict[str, Any], key: str, limit: int) -> str:
    """Return a text as one line: control characters would reach the reader's terminal."""
    text = document.get(key, "")
    if not isinstance(text, str) or len(text) > limit:
        raise ValueError(f"{key} must be a text of at most {limit} characters")
    return plain_line(text).strip()
