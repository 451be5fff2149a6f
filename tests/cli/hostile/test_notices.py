"""What is sent to people about a hostile job is text: no command, no element, no further line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.collector.runtime.paging.receivers import Alertmanager, PagerDuty, Receiver, Slack

from .faces import obeyed
from .planted import FAILURE, PART, TOGETHER, stored_incidents

LINKS = "https://stepwatch.example"


def url() -> str:
    return "http://127.0.0.1:9"


RECEIVERS = [kind("oncall", url, LINKS) for kind in (Alertmanager, PagerDuty, Slack)]


def texts(document: Any) -> Iterator[str]:
    """Every text of a JSON document."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict | list):
        for child in document.values() if isinstance(document, dict) else document:
            yield from texts(child)


@pytest.mark.parametrize("receiver", RECEIVERS, ids=lambda receiver: type(receiver).__name__)
@pytest.mark.parametrize("name", TOGETHER)
def test_a_notice_is_text(name: str, receiver: Receiver, planted: Callable[[str], Path]) -> None:
    sent: list[str] = []
    for incident in stored_incidents(planted(name)):
        document = {"incident": incident, "transition": "open", "at": incident["opened_at"]}
        sent += texts(json.loads(receiver.outgoing("key", document).body))
    assert any(FAILURE in text for text in sent) and any(PART in text for text in sent)
    for text in sent:
        assert obeyed(text) == set()
        lines = text.splitlines() if isinstance(receiver, Slack) else [text]
        assert all("\n" not in line and not line.startswith("# heading") for line in lines)
        assert not isinstance(receiver, Slack) or "<img" not in text
