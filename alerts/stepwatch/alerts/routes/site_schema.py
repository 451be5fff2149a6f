"""The schema for a site file's `alerting` section."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

OLDEST = "0.25"
"""Oldest supported Alertmanager, from Debian 12."""


class Strict(BaseModel):
    """A model that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid")


def _file(text: str) -> str:
    if not PurePosixPath(text).is_absolute() or not text.isprintable():
        raise ValueError("it is not an absolute path")
    return text


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.isprintable():
        raise ValueError("it is not an http or https address")
    if parts.password is not None:
        raise ValueError("it holds a password")
    return text


def _duration(text: str) -> str:
    if re.fullmatch(r"[1-9]\d{0,3}[smh]", text) is None:
        raise ValueError(f"{text[:80]!r} is not a duration")
    return text


def _target(text: str) -> str:
    match = re.fullmatch(r"0\.(\d{2})(\.\d+)?", text)
    if match is None or int(match[1]) < int(OLDEST.split(".")[1]):
        raise ValueError(f"{text[:80]!r} is not a version from {OLDEST} on")
    return f"0.{match[1]}"


SecretFile = Annotated[str, AfterValidator(_file)]
Address = Annotated[str, AfterValidator(_url)]
Duration = Annotated[str, AfterValidator(_duration)]


class PagerDuty(Strict):
    """PagerDuty's Events API v2; `url` replaces the usual address."""

    routing_key_file: SecretFile
    url: Address | None = None


class IncidentIo(Strict):
    """An incident.io alert source with the type Alertmanager."""

    url: Address
    token_file: SecretFile


class Slack(Strict):
    """A Slack channel; the file holds an incoming webhook's address."""

    api_url_file: SecretFile
    channel: str


class Email(Strict):
    """E-mail through a relay, `smarthost` with its port."""

    to: str
    from_: Annotated[str, Field(alias="from")]
    smarthost: Annotated[str, Field(pattern=r"^\S+:\d{1,5}$")]
    auth_username: str | None = None
    auth_password_file: SecretFile | None = None
    without_secret: bool = False

    @model_validator(mode="after")
    def _secret(self) -> Self:
        if self.without_secret == (self.auth_password_file is not None):
            raise ValueError("it has no secret; give auth_password_file, or without_secret: true")
        if self.auth_password_file is not None and self.auth_username is None:
            raise ValueError("it has a password but no name; give auth_username")
        return self


class Webhook(Strict):
    """A receiver for Alertmanager's own JSON; the credentials file holds a bearer token."""

    url: Address | None = None
    url_file: SecretFile | None = None
    credentials_file: SecretFile | None = None
    without_secret: bool = False

    @model_validator(mode="after")
    def _secret(self) -> Self:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("give one of url and url_file")
        secret = self.credentials_file is not None or self.url_file is not None
        if self.without_secret == secret:
            raise ValueError(
                "it has no secret; give credentials_file or url_file, or without_secret: true"
            )
        return self


class Receiver(Strict):
    """A notification target with one or more integrations."""

    pagerduty: PagerDuty | None = None
    incident_io: IncidentIo | None = None
    slack: Slack | None = None
    email: Email | None = None
    webhook: Webhook | None = None

    @model_validator(mode="after")
    def _has_integration(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("it is notified in no way")
        return self


class Default(Strict):
    """Receivers for alerts without a route, and for alerts on stepwatch itself."""

    page: str
    ticket: str


class Route(Strict):
    """Receivers for alerts on jobs, selected by team, class or name pattern.

    `mute` names schedules in which its tickets wait, `mute_pages` those in which its pages wait.
    """

    team: str | None = None
    classes: list[str] = Field(default_factory=list)
    jobs: list[str] = Field(default_factory=list)
    page: str | None = None
    ticket: str | None = None
    mute: list[str] = Field(default_factory=list)
    mute_pages: list[str] = Field(default_factory=list)


class DeadMan(Strict):
    """The receiver that notices when the always-firing alert stops."""

    receiver: str
    every: Duration = "5m"


class Times(Strict):
    """Hours on some weekdays, or on every day if none is named."""

    days: list[str] = Field(default_factory=list)
    from_: Annotated[str, Field(alias="from")]
    until: str


class Schedule(Strict):
    """Hours without notifications."""

    times: list[Times] = Field(min_length=1)
    zone: str = "UTC"


class Alerting(Strict):
    """The `alerting` section."""

    target: Annotated[str, AfterValidator(_target)] = OLDEST
    labels: dict[str, str] = Field(default_factory=dict)
    receivers: dict[str, Receiver] = Field(min_length=1)
    default: Default
    dead_man: DeadMan
    routes: list[Route] = Field(default_factory=list)
    schedules: dict[str, Schedule] = Field(default_factory=dict)

    def at_least(self, version: str) -> bool:
        """Return whether the target Alertmanager has this version or a later one."""
        return int(self.target.split(".")[1]) >= int(version.split(".")[1])


_FILE = "write the absolute path of a file that holds it, such as /etc/stepwatch/secrets/pager"
_NAME = "write the name of a receiver"
REMEDIES = {
    "alerting.target": f'write such as "{OLDEST}"',
    "alerting.labels": "write a label and its value, such as cluster: eu-1",
    "alerting.receivers": "write a name with pagerduty, incident_io, slack, email or webhook",
    "alerting.routing_key_file": _FILE,
    "alerting.token_file": _FILE,
    "alerting.api_url_file": _FILE,
    "alerting.auth_password_file": _FILE,
    "alerting.credentials_file": _FILE,
    "alerting.url_file": _FILE,
    "alerting.url": "write such as https://example.org/alerts, and secrets into a file",
    "alerting.channel": "write the channel, such as '#training'",
    "alerting.smarthost": "write such as mail.example.org:587",
    "alerting.default": "write such as {page: oncall, ticket: team}",
    "alerting.page": _NAME,
    "alerting.ticket": _NAME,
    "alerting.receiver": _NAME,
    "alerting.dead_man": "write such as {receiver: heartbeat, every: 5m}",
    "alerting.every": "write such as 5m",
    "alerting.routes": "write a list of team, classes or jobs with page and ticket",
    "alerting.schedules": "write such as nights: {times: [{from: '18:00', until: '08:00'}]}",
    "alerting": "see alerts/README.md",
}
"""Remedy for a mistake, by place."""

KEYS = tuple(
    sorted(
        {
            (field.alias or name)
            for shape in (
                *(PagerDuty, IncidentIo, Slack, Email, Webhook, Receiver, Default, Route),
                *(DeadMan, Times, Schedule, Alerting),
            )
            for name, field in shape.model_fields.items()
        }
    )
)
"""All valid keys, for suggestions."""
