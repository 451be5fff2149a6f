"""`stepwatch build dashboards --push`: write dashboards, keyed by uid, over Grafana's HTTP API.

Paths and bodies: https://grafana.com/docs/grafana/latest/developers/http_api/dashboard/ and
https://grafana.com/docs/grafana/latest/developers/http_api/folder/.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.signals.http import AnswerError, Client, HttpError

_LONGEST_ANSWER = 16 << 20
"""Bytes; a longer answer is refused before it is buffered."""
_OWN_TO_A_SERVER = ("id", "version")
_MOST_FOLDERS = 1000
_NOT_MADE = "(not made yet)"
"""Placeholder uid for a folder that a dry run does not create; it contains no dashboard."""


class Grafana:
    """One server and its service account's token; leaving the context closes the connections."""

    def __init__(self, url: str, token: str) -> None:
        """Create the HTTP client; no request is sent yet.

        Raises:
            UsageError: `url` is not an address.
        """
        self._url, bearer = url.rstrip("/"), f"Bearer {token}"
        try:
            self._client = Client(
                url, seconds=10.0, authorization=lambda: bearer, most_bytes=_LONGEST_ANSWER
            )
        except ValueError as error:
            raise UsageError(f"{url!r} is not a URL ({error}); pass --push https://HOST") from error

    def __enter__(self) -> Grafana:
        """Return this object."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()

    def dashboard(self, uid: str) -> tuple[dict[str, Any], str] | None:
        """Return a dashboard by uid, and its folder's uid ("" is the root); None if it is missing.

        Raises:
            ConfigurationError: the server refuses, or its answer is not Grafana's.
        """
        answer = self._ask("GET", f"/api/dashboards/uid/{uid}", missing=True)
        if answer is None:
            return None
        try:
            return dict(answer["dashboard"]), str(answer["meta"].get("folderUid") or "")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._not_grafana() from error

    def folder(self, title: str) -> str | None:
        """Return the uid of the top-level folder with this title; None if it is missing.

        Raises:
            ConfigurationError: the server refuses, or its answer is not Grafana's.
        """
        folders = self._ask("GET", f"/api/folders?limit={_MOST_FOLDERS}")
        try:
            return next((str(entry["uid"]) for entry in folders if entry["title"] == title), None)
        except (KeyError, TypeError) as error:
            raise self._not_grafana() from error

    def make_folder(self, title: str) -> str:
        """Create a folder and return its uid.

        Raises:
            ConfigurationError: the server refuses, or its answer is not Grafana's.
        """
        folder = self._ask("POST", "/api/folders", {"title": title})
        try:
            return str(folder["uid"])
        except (KeyError, TypeError) as error:
            raise self._not_grafana() from error

    def save(self, dashboard: dict[str, Any], folder: str) -> None:
        """Write a dashboard, and replace the one with the same uid.

        Raises:
            ConfigurationError: the server refuses, or its answer is not Grafana's.
        """
        body = {"dashboard": {**dashboard, "id": None}, "folderUid": folder, "overwrite": True}
        self._ask("POST", "/api/dashboards/db", {**body, "message": "stepwatch build"})

    def _ask(self, method: str, path: str, body: object = None, missing: bool = False) -> Any:
        try:
            answer = self._client.request(method, path, json=body)
        except AnswerError as error:
            raise self._not_grafana() from error
        except HttpError as error:
            raise ConfigurationError(f"no answer of {self._url}: {error}; see --push") from error
        if missing and answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        if answer.status_code != HTTPStatus.OK:
            raise self._refused(answer.status_code, answer.content)
        try:
            return answer.json()
        except ValueError as error:
            raise self._not_grafana() from error

    def _refused(self, status: int, body: bytes) -> ConfigurationError:
        try:
            message = str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            message = "no reason given"
        remedy = "look at its log"
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            remedy = "give --token-file a service account that may write dashboards and folders"
        line = " ".join(message.split())[:200]
        return ConfigurationError(f"{self._url} refused with {status}: {line}; {remedy}")

    def _not_grafana(self) -> ConfigurationError:
        return ConfigurationError(f"{self._url} does not answer as Grafana does; see --push")


def push(
    server: Grafana, texts: Iterable[str], folder: str | None = None, dry_run: bool = False
) -> list[str]:
    """Write dashboards, given as JSON, to a server; return one line per action.

    An unchanged dashboard is not written. Without `folder` (a title) an existing dashboard keeps
    its folder and a new one is written to the root. A dry run writes nothing and returns the
    difference.

    Raises:
        ConfigurationError: the server refuses, or its answer is not Grafana's.
    """
    lines: list[str] = []
    where: str | None = None
    if folder is not None:
        where = server.folder(folder)
        if where is None:
            lines.append(f"folder {folder}: {'to be made' if dry_run else 'made'}")
            where = _NOT_MADE if dry_run else server.make_folder(folder)
    for text in texts:
        lines += _push_one(server, json.loads(text), where, dry_run)
    return lines


def _push_one(
    server: Grafana, wanted: dict[str, Any], folder: str | None, dry_run: bool
) -> list[str]:
    uid, current = str(wanted["uid"]), server.dashboard(str(wanted["uid"]))
    current_dashboard, current_folder = current if current is not None else ({}, "")
    place = current_folder if folder is None else folder
    if (
        current is not None
        and _text(current_dashboard) == _text(wanted)
        and place == current_folder
    ):
        return [f"{uid}: unchanged"]
    action = "written over" if current is not None else "made"
    if dry_run:
        return [f"{uid}: would be {action}", *_difference(current_dashboard, wanted)]
    server.save(wanted, place)
    return [f"{uid}: {action}"]


def _difference(current: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    old, new = (_text(dashboard).splitlines() for dashboard in (current, wanted))
    return list(difflib.unified_diff(old, new, "on the server", "built", lineterm="", n=1))


def _text(dashboard: dict[str, Any]) -> str:
    content = {key: value for key, value in dashboard.items() if key not in _OWN_TO_A_SERVER}
    return json.dumps(content, sort_keys=True, indent=2, ensure_ascii=False)
