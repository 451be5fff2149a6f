"""Data source of a verb: a running collector, or the store of a stopped one.

Both use the same HTTP API; a store is served in-process for a single request.
"""

from __future__ import annotations

import argparse
import json
import shlex
from typing import TYPE_CHECKING, Any

from stepwatch.signals import places
from stepwatch.signals.errors import ConfigurationError, StepwatchError, UsageError
from stepwatch.signals.plain_text import plain_line

if TYPE_CHECKING:
    from stepwatch.signals.http import Address

_NOT_FOUND = 404
COLLECTOR_HELP = f"its base URL [{places.ENV_COLLECTOR}, or {places.DEFAULT_COLLECTOR}]"


class SourceError(StepwatchError):
    """The collector or store does not answer the request."""


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--collector`, `--store`, `--token-file` and `--json`."""
    parser.add_argument("--collector", default=places.collector_url(), help=COLLECTOR_HELP)
    parser.add_argument("--store", help="read this store instead of asking a collector")
    add_access_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--token-file` and `--ca`."""
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"file with the collector's bearer token [{places.ENV_TOKEN_FILE}]",
    )
    parser.add_argument(
        "--ca",
        metavar="FILE",
        help=f"who may sign the collector's certificate, PEM [{places.ENV_CA}, or system CAs]",
    )


def source_words(arguments: argparse.Namespace) -> str:
    """Return the options that lead another verb to the same source; empty for the default."""
    if arguments.store:
        return f"--store {shlex.quote(_without_password(arguments.store))}"
    words = {"--token-file": arguments.token_file, "--ca": arguments.ca}
    if arguments.collector != places.collector_url():
        words = {"--collector": arguments.collector, **words}
    return " ".join(f"{option} {shlex.quote(text)}" for option, text in words.items() if text)


def _without_password(store: str) -> str:
    if "://" not in store:
        return store
    from stepwatch.collector.store import shown

    return shown(store)


def ask(arguments: argparse.Namespace, path: str, **query: str) -> Any:
    """GET `path` and return its JSON, as plain text for readers without `--json`.

    Raises:
        SourceError: no answer, or the request was refused.
        UsageError: the store does not exist.
    """
    return request(arguments, "GET", path, params=query)


def ask_as_sent(arguments: argparse.Namespace, path: str) -> Any:
    """GET `path` and return its JSON with every text unchanged, to be stored or compared.

    Raises:
        SourceError: no answer, or the request was refused.
        UsageError: the store does not exist.
    """
    return _answered(arguments, "GET", path, {})


def request(arguments: argparse.Namespace, method: str, path: str, **sent: Any) -> Any:
    """Send a request, `sent` holds its `params` or `json`, and return the answer's JSON.

    Without `--json` the JSON is plain text for readers.

    Raises:
        SourceError: no answer, or the request was refused.
        UsageError: the store does not exist.
    """
    document = _answered(arguments, method, path, sent)
    return document if arguments.json else plain_document(document)


def _answered(arguments: argparse.Namespace, method: str, path: str, sent: dict[str, Any]) -> Any:
    if arguments.store:
        from stepwatch.cli.store.offline import ask_store

        status, body = ask_store(arguments.store, method, path, sent)
    else:
        status, body = _from_collector(arguments, method, path, sent)
    document = _document(body)
    if status != 200:
        reason = document.get("error") if isinstance(document, dict) else None
        raise SourceError(_refusal(path, status, reason))
    if document is None:
        raise SourceError(
            f"the server at {arguments.collector} is not a collector; pass --collector URL"
        )
    return document


def request_bytes(arguments: argparse.Namespace, path: str) -> bytes:
    """GET `path` from the collector and return its body.

    Raises:
        SourceError: no answer, or the request was refused.
    """
    status, body = _from_collector(arguments, "GET", path, {})
    if status != 200:
        document = _document(body)
        reason = document.get("error") if isinstance(document, dict) else None
        raise SourceError(_refusal(path, status, reason))
    return body


def plain_document(document: Any) -> Any:
    """Return an API document for readers: each text is one line without terminal control codes."""
    if isinstance(document, str):
        return plain_line(document)
    if isinstance(document, list):
        return [plain_document(element) for element in document]
    if isinstance(document, dict):
        return {plain_line(key): plain_document(element) for key, element in document.items()}
    return document


_LISTS = {
    "jobs": ("job", "stepwatch status --all"),
    "incidents": ("incident", "stepwatch incidents"),
    "nodes": ("node", "stepwatch nodes"),
    "runbooks": ("runbook", "stepwatch runbook"),
}
"""By the first part of a path below /v1: its noun, and the verb that lists them."""


def _refusal(path: str, status: int, reason: str | None) -> str:
    """Return the message for a refused request, in the command line's words, not the API's."""
    kind, _, tail = path.removeprefix("/v1/").partition("/")
    if kind not in _LISTS or not tail:
        return f"{path.removeprefix('/v1/')}: {reason or f'HTTP {status}'}"
    noun, verb = _LISTS[kind]
    name = tail.partition("/")[0]
    if status == _NOT_FOUND and (reason or "").startswith("no such"):
        return f"there is no {noun} {name!r}; `{verb}` lists them"
    return f"{noun} {name}: {reason or f'HTTP {status}'}"


def component(name: str, noun: str) -> str:
    """Return `name` if it is valid as a component in an API path.

    Raises:
        UsageError: no job or incident can have this name.
    """
    try:
        return places.checked_name(name, noun)
    except ConfigurationError as error:
        raise UsageError(str(error)) from error


def _document(body: bytes) -> Any:
    """Return the answer's JSON; None without valid JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def _from_collector(
    arguments: argparse.Namespace, method: str, path: str, sent: dict[str, Any]
) -> tuple[int, bytes]:
    """Return the answer's status and body."""
    from stepwatch.agent.relay.client import connect
    from stepwatch.signals.access import Access
    from stepwatch.signals.http import HttpError

    access = Access.from_options(arguments.token_file, arguments.ca)
    try:
        client = connect(arguments.collector, access)
    except ConfigurationError as error:
        raise UsageError(str(error)) from error
    try:
        with client:
            answer = client.request(method, path, **sent)
    except HttpError as error:
        raise SourceError(_why(arguments.collector, client.address, error)) from error
    return answer.status_code, answer.content


def _why(collector: str, address: Address, error: Exception) -> str:
    from stepwatch.agent.relay.problems import AWAY, of_error

    problem = of_error(error, address)
    if problem.reason != AWAY:
        return problem.text
    return (
        f"no collector answers at {collector} ({type(error).__name__}); "
        "start one, or pass --collector URL or --store FILE"
    )
