"""Receivers for notices, and their message formats.

PagerDuty: https://developer.pagerduty.com/docs/send-alert-event
Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
Alertmanager: https://github.com/prometheus/alertmanager/blob/v0.25.0/api/v2/openapi.yaml
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from stepwatch.collector.incidents.notices import RESOLVED
from stepwatch.signals.names import labels
from stepwatch.signals.plain_text import plain_line

KEY_HEADER = "Idempotency-Key"
PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
_INVALID = (400, 413, 422)
"""A receiver's status for a message that it will never accept.

A refused key (401, 403) or a wrong address (404, 410) may be fixed in its file while the page
waits.
"""
_OPEN_FOR_SECONDS = 7 * 24 * 3600.0
"""Time after which Alertmanager ends an alert by itself."""
_SUMMARY_CHARACTERS = 1024
"""PagerDuty's limit."""
_SLACK_ANSWER_BYTES = 256
_INCIDENT = "incident"
"""Alert label with the incident's id."""
_ALERTS_BYTES = 1 << 23
"""Size limit for an alert list; a longer list is not read, so its content is unknown."""
_PLAIN = {"accept-encoding": "identity"}

Secret = Callable[[], str]
"""Reads a secret from its file on each call: a new one needs no restart. Raises `OSError`."""


class Outgoing(NamedTuple):
    """A request: a POST, or a GET if the body is empty.

    `answer_bytes` bytes of the answer are read, 0 if the status is enough. `ca` is a file with the
    authorities that may sign the receiver's certificate; without it the public ones may.
    """

    url: str
    body: bytes
    headers: dict[str, str]
    answer_bytes: int = 0
    ca: str = ""


class Answer(NamedTuple):
    """The response: status, the first bytes of the body, and `Retry-After` in seconds."""

    status: int
    body: bytes = b""
    retry_after: float = 0.0


@dataclass(frozen=True)
class Receiver(ABC):
    """A destination for one kind of message; `links` is the collector's address for people."""

    name: str
    url: Secret = field(repr=False)
    links: str = ""
    summarises = True
    """Whether many notices at once are sent as one."""
    records = False
    """Whether it records each transition and change of an incident, instead of paging."""

    @abstractmethod
    def outgoing(self, key: str, document: Mapping[str, Any]) -> Outgoing:
        """Return the request for a notice.

        Raises:
            OSError: a secret cannot be read.
        """

    def takes(self, answer: Answer) -> bool:
        """Return whether the answer accepts the notice."""
        return 200 <= answer.status < 300

    def refuses(self, answer: Answer) -> bool:
        """Return whether the answer refuses the notice permanently."""
        return answer.status in _INVALID


@dataclass(frozen=True)
class Webhook(Receiver):
    """Sends the notice unchanged, with a bearer token if configured."""

    token: Secret | None = field(default=None, repr=False)

    def outgoing(self, key: str, document: Mapping[str, Any]) -> Outgoing:
        headers = {"content-type": "application/json", KEY_HEADER: key}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token()}"
        return Outgoing(self.url(), _encoded(document), headers)


@dataclass(frozen=True)
class PagerDuty(Receiver):
    """Events API v2: one alert per incident, by its deduplication key."""

    key: Secret = field(default=str, repr=False)

    def outgoing(self, key: str, document: Mapping[str, Any]) -> Outgoing:
        incident = document["incident"]
        event: dict[str, Any] = {
            "routing_key": self.key(),
            "event_action": "resolve" if document["transition"] == RESOLVED else "trigger",
            "dedup_key": f"stepwatch/{incident['id']}",
            "client": "stepwatch",
        }
        if event["event_action"] == "trigger":
            event["payload"] = _pagerduty_payload(incident)
            event["links"] = [{"href": url, "text": text} for text, url in self._links(incident)]
        return Outgoing(self.url(), _encoded(event), {"content-type": "application/json"})

    def takes(self, answer: Answer) -> bool:
        return answer.status == 202

    def _links(self, incident: Mapping[str, Any]) -> list[tuple[str, str]]:
        return links_of(incident, self.links)


@dataclass(frozen=True)
class Slack(Receiver):
    """A channel's incoming webhook; without a key, a message may arrive twice after a crash."""

    def outgoing(self, key: str, document: Mapping[str, Any]) -> Outgoing:
        incident = document["incident"]
        is_over = document["transition"] == RESOLVED
        lines = [f"*{'Resolved' if is_over else 'Open'}*: {_for_slack(headline(incident))}"]
        if not is_over:
            facts = _facts(incident).items()
            lines += [f"{_for_slack(name)}: {_for_slack(value)}" for name, value in facts]
        lines += [f"<{url}|{_for_slack(name)}>" for name, url in links_of(incident, self.links)]
        body = _encoded({"text": "\n".join(lines)})
        headers = {"content-type": "application/json", **_PLAIN}
        return Outgoing(self.url(), body, headers, _SLACK_ANSWER_BYTES)

    def takes(self, answer: Answer) -> bool:
        return answer.status == 200 and answer.body.strip() == b"ok"


@dataclass(frozen=True)
class Alertmanager(Receiver):
    """Posts one alert per incident to an Alertmanager's API v2, which groups them."""

    summarises = False

    def outgoing(self, key: str, document: Mapping[str, Any]) -> Outgoing:
        return self.alerts([document])

    def alerts(self, documents: Iterable[Mapping[str, Any]]) -> Outgoing:
        """Return the request for several notices at once.

        Raises:
            OSError: the address cannot be read.
        """
        body = _encoded([self._alert(document) for document in documents])
        return Outgoing(self._api(), body, {"content-type": "application/json"})

    def asking(self, incident: str = "") -> Outgoing:
        """Return the request for the receiver's alerts, about one incident or all.

        Raises:
            OSError: the address cannot be read.
        """
        matcher = f'{_INCIDENT}="{incident}"' if incident else f'{_INCIDENT}=~".+"'
        return Outgoing(f"{self._api()}?filter={quote(matcher)}", b"", dict(_PLAIN), _ALERTS_BYTES)

    def known_incidents(self, answer: Answer) -> set[str] | None:
        """Return the incidents with an alert in the answer; None if the answer is invalid."""
        if answer.status != 200:
            return None
        try:
            return {str(alert["labels"][_INCIDENT]) for alert in json.loads(answer.body)}
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def _api(self) -> str:
        return f"{self.url().rstrip('/')}/api/v2/alerts"

    def _alert(self, document: Mapping[str, Any]) -> dict[str, Any]:
        incident, moment_s = document["incident"], float(document["at"])
        is_over = document["transition"] == RESOLVED
        label_values = {
            "alertname": incident.get("alert"),
            labels.JOB: incident.get("job"),
            labels.NODE: incident.get("node"),
            labels.KIND: incident.get("kind"),
            labels.SEVERITY: "page",
            _INCIDENT: incident["id"],
        }
        annotations = {"summary": headline(incident), **_facts(incident)}
        return {
            "labels": {name: str(value) for name, value in label_values.items() if value},
            "annotations": annotations | dict(links_of(incident, self.links)),
            "startsAt": _time(float(incident.get("opened_at") or moment_s)),
            "endsAt": _time(moment_s if is_over else moment_s + _OPEN_FOR_SECONDS),
        }


def links_of(incident: Mapping[str, Any], links: str) -> list[tuple[str, str]]:
    """Return names and addresses of an incident's pages; empty without a base address."""
    if not links or not incident.get("job"):
        return []
    runbook = f"{links}/runbooks/{quote(str(incident['runbook']))}?incident={incident['id']}"
    return [
        ("incident", f"{links}/incidents/{quote(str(incident['id']))}"),
        ("job", f"{links}/jobs/{quote(str(incident['job']))}"),
        ("runbook", runbook),
    ]


def _pagerduty_payload(incident: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "summary": headline(incident)[:_SUMMARY_CHARACTERS],
        "source": str(incident.get("node") or "stepwatch"),
        "severity": "critical",
        "timestamp": _time(float(incident["opened_at"])),
        "component": str(incident.get("job") or ""),
        "class": str(incident.get("kind") or ""),
        "custom_details": _facts(incident),
    }


def headline(incident: Mapping[str, Any]) -> str:
    """Return the job and the incident's summary, in one line."""
    job = incident.get("job")
    return plain_line(f"{job}: {incident['summary']}" if job else str(incident["summary"]))


def _facts(incident: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts for a paged engineer; unknown ones are omitted."""
    lost = incident.get("throughput_lost_ratio")
    facts = {
        "cause": incident.get("cause"),
        "confidence": incident.get("confidence"),
        "impact": None if lost is None else f"{lost:.0%} of throughput lost",
        "command": f"stepwatch runbook {incident['runbook']} --incident {incident['id']}"
        if incident.get("runbook")
        else None,
    }
    return {name: plain_line(str(value)) for name, value in facts.items() if value}


def _for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).isoformat(timespec="milliseconds")


def _encoded(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False).encode()
