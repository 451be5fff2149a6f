"""Receiver configuration for paging without Prometheus, in TOML.

    links = "https://stepwatch.example"   # the collector's address for people

    [receiver.oncall]
    kind = "pagerduty"
    key_file = "/etc/stepwatch/pagerduty.key"

    [receiver.channel]
    kind = "slack"
    url_file = "/etc/stepwatch/slack.url"

    [receiver.bridge]
    kind = "webhook"
    url = "https://pager.example/hook"
    token_file = "/etc/stepwatch/hook.token"

    [receiver.alerts]
    kind = "alertmanager"
    url = "http://alertmanager:9093"

    [receiver.logs]
    kind = "otlp"
    url = "http://otel-collector:4318"
    headers_file = "/etc/stepwatch/otlp.headers"

Each secret is on the first line of its own file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stepwatch.signals import places
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import closest_hint, file_problem

from .receivers import PAGERDUTY_URL, Alertmanager, PagerDuty, Receiver, Secret, Slack, Webhook

MOST = 8
_NAME_CHARACTERS = 32
_ADDRESS = ("url", "url_file")
KEYS = {
    "pagerduty": ("key_file", "url"),
    "slack": ("url_file",),
    "webhook": (*_ADDRESS, "token_file"),
    "alertmanager": _ADDRESS,
    "otlp": (*_ADDRESS, "headers_file"),
}
"""Allowed keys per receiver kind, besides `kind`."""


def read_receivers(path: Path) -> list[Receiver]:
    """Read the file; each secret is read once as a check.

    Raises:
        ConfigurationError: the file cannot be read or is invalid, in one line.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {file_problem(error)}; pass --receivers FILE") from error
    except (ValueError, RecursionError) as error:  # invalid TOML, or a number with too many digits
        raise ConfigurationError(f"{path}: no TOML: {error}") from error
    try:
        return _receivers(document)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _receivers(document: Mapping[str, Any]) -> list[Receiver]:
    _check_keys(document, ("links", "receiver"), "")
    links = document.get("links", "")
    if links:
        links = _url(links, "links")
    tables = document.get("receiver")
    if not isinstance(tables, dict) or not 0 < len(tables) <= MOST:
        raise ConfigurationError(f"receiver: write 1 to {MOST} tables, such as [receiver.oncall]")
    return [_receiver(name, table, links.rstrip("/")) for name, table in tables.items()]


def _receiver(name: str, table: Any, links: str) -> Receiver:
    where = f"receiver.{name[:40]}"
    if not places.is_name(name) or len(name) > _NAME_CHARACTERS:
        raise ConfigurationError(
            f"{where}: a name has at most {_NAME_CHARACTERS} letters, digits, '.', '_' and '-'"
        )
    kind = table.get("kind") if isinstance(table, dict) else None
    if kind not in KEYS:
        raise ConfigurationError(f"{where}: kind: write one of {', '.join(KEYS)}")
    _check_keys(table, ("kind", *KEYS[kind]), f"{where}: ")
    if kind == "pagerduty":
        address = _url(table.get("url", PAGERDUTY_URL), f"{where}: url")
        key = _secret(table, "key_file", where)
        return PagerDuty(name, lambda: address, links, key=key)
    url = _address(table, where)
    if kind == "webhook":
        token = _secret(table, "token_file", where) if "token_file" in table else None
        return Webhook(name, url, links, token=token)
    if kind == "otlp":
        from .otlp_logs import OtlpLogs  # the SDK is an extra

        headers = _secret(table, "headers_file", where) if "headers_file" in table else str
        return OtlpLogs(name, url, links, headers=headers)
    return Slack(name, url, links) if kind == "slack" else Alertmanager(name, url, links)


def _address(table: Mapping[str, Any], where: str) -> Secret:
    if "url" not in table:
        url = _secret(table, "url_file", where)
        _url(url(), f"{where}: url_file", shown=False)
        return url
    if "url_file" in table:
        raise ConfigurationError(f"{where}: url, url_file: keep one of them")
    address = _url(table["url"], f"{where}: url")
    return lambda: address


def _check_keys(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            hint = closest_hint(key[:40], keys)
            raise ConfigurationError(f"{where}there is no key {key[:40]!r}; {hint}")


def _url(text: Any, where: str, *, shown: bool = True) -> str:
    try:
        parts = urlsplit(text if isinstance(text, str) else "")
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_one = False
    if not is_one:
        quoted = f" is {str(text)[:80]!r}" if shown else ""
        raise ConfigurationError(f"{where}{quoted}: write http://HOST/... or https://HOST/...")
    return str(text)


def _secret(table: Mapping[str, Any], key: str, where: str) -> Secret:
    file = table.get(key)
    if not isinstance(file, str) or not file:
        raise ConfigurationError(f"{where}: {key}: name the file that holds the secret")

    def read() -> str:
        with open(file, encoding="utf-8") as opened:
            return opened.readline(4096).strip()

    try:
        first = read()
    except (OSError, UnicodeDecodeError) as error:
        reason = file_problem(error)
        raise ConfigurationError(f"{where}: {key}: cannot read {file}: {reason}") from error
    if not first:
        raise ConfigurationError(f"{where}: {key}: {file} is empty; put it on the first line")
    return read
