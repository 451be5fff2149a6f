"""`stepwatch silence`: suppress pages about a job, node or kind for a while."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.response import alertmanager
from stepwatch.cli.response.words import add_by_argument, in_short, lasting
from stepwatch.cli.source import SourceError, add_source_arguments, ask, component, request
from stepwatch.signals.errors import UsageError
from stepwatch.signals.names import FindingKind

EXAMPLE = "stepwatch silence llama-7b --for 2h --why 'new firmware on the switches'"
_ABOUT = ("job", "node", "kind")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("about", nargs="?", metavar="JOB|NODE|KIND", help="what is silenced")
    for key in _ABOUT:
        parser.add_argument(
            f"--{key}", default="", metavar="NAME", help=f"only of this {key}, known or not"
        )
    parser.add_argument("--for", dest="seconds", type=lasting, metavar="TIME", help="such as 2h")
    parser.add_argument("--why", metavar="TEXT", help="the reason, for the record")
    add_by_argument(parser)
    parser.add_argument("--list", action="store_true", help="those in force")
    parser.add_argument("--expire", metavar="ID", help="end this one now")
    parser.add_argument(
        "--alertmanager", metavar="URL", help="write it to this Alertmanager, too, or end it there"
    )
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Begin a silence, list silences, or end one."""
    named = arguments.about or any(getattr(arguments, key) for key in _ABOUT)
    if sum(map(bool, (named, arguments.list, arguments.expire))) != 1:
        raise UsageError("name a job, node or kind, or pass --list, or --expire ID")
    if arguments.list:
        silences = ask(arguments, "/v1/silences")["silences"]
        print(json.dumps(silences, indent=1) if arguments.json else listed(silences, time.time()))
        return 0
    silence = _expired(arguments) if arguments.expire else _begun(arguments)
    print(
        json.dumps(silence, indent=1)
        if arguments.json
        else in_words(silence, arguments.alertmanager)
    )
    return 0


def _begun(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.seconds is None or not arguments.why:
        raise UsageError("a silence needs --for TIME and --why TEXT")
    about = _about(arguments)
    terms = {"seconds": arguments.seconds, "why": arguments.why, "by": arguments.by}
    url, identity = arguments.alertmanager, ""
    if url:
        identity = alertmanager.silence(url, about, terms, time.time())
    try:
        document = {**about, **terms, "alertmanager": identity}
        silence: dict[str, Any] = request(arguments, "POST", "/v1/silences", json=document)
    except SourceError:
        if identity:  # one of the two alone would suppress only half of the pages
            alertmanager.expire(url, identity)
        raise
    return silence


def _expired(arguments: argparse.Namespace) -> dict[str, Any]:
    path = f"/v1/silences/{component(arguments.expire, 'silence')}"
    silence: dict[str, Any] = request(arguments, "DELETE", path, json={"by": arguments.by})
    if arguments.alertmanager and silence["alertmanager"]:
        alertmanager.expire(arguments.alertmanager, silence["alertmanager"])
    return silence


def _about(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the silence's target by `job`, `node` and `kind`; a single word is resolved by lookup.

    Raises:
        UsageError: none matches, or two do.
    """
    about = {key: getattr(arguments, key) for key in _ABOUT}
    word = arguments.about
    if not word:
        return about
    if any(about.values()):
        raise UsageError(f"give {word[:80]!r} as --job, --node or --kind beside the other")
    kinds = [kind.value for kind in FindingKind]
    if word in kinds:
        return {**about, "kind": word}
    component(word, "job or node")
    jobs = any(job["job"] == word for job in ask(arguments, "/v1/jobs")["jobs"])
    is_node = _is_node(arguments, word)
    if jobs == is_node:
        ambiguity = "both a job and a node" if jobs else "neither a job, a node nor a kind"
        raise UsageError(f"{word!r} is {ambiguity} here; pass --job, --node or --kind {word}")
    return {**about, "job" if jobs else "node": word}


def _is_node(arguments: argparse.Namespace, word: str) -> bool:
    try:
        ask(arguments, f"/v1/nodes/{word}")
    except SourceError:  # for a node without its own agent only incidents have the name
        return any(
            incident["node"] == word for incident in ask(arguments, "/v1/incidents")["incidents"]
        )
    return True


def in_words(silence: dict[str, Any], url: str | None) -> str:
    """Return a silence that just began or ended, in a few lines."""
    line = f"silence {silence['id']} of {_words(silence)}"
    if silence["expired_by"]:
        ended = f"{line}: ended {text.clock(silence['until'])} by {silence['expired_by']}"
        return "\n".join([ended, *_left_in_alertmanager(silence, url)])
    where = " here and in Alertmanager" if url else ""
    lines = [
        f"{line}: no pages{where} until {text.clock(silence['until'])}",
        "  incidents still open, resolve and count",
        f"  to end it: {_expiring(silence, url)}",
    ]
    if url and silence["node"]:
        lines.append("  alerts of Prometheus' rules name no node: there, silence the job, too")
    return "\n".join(lines)


def _left_in_alertmanager(silence: dict[str, Any], url: str | None) -> list[str]:
    if url or not silence["alertmanager"]:
        return []
    return [
        f"  it is still in Alertmanager, as {silence['alertmanager']}; to end it there:",
        f"  {_expiring(silence, 'URL')}",
    ]


def _expiring(silence: dict[str, Any], url: str | None) -> str:
    option = f" --alertmanager {url}" if url else ""
    return f"stepwatch silence --expire {silence['id']}{option}"


def listed(silences: list[dict[str, Any]], now: float) -> str:
    """Return the active silences as a table."""
    if not silences:
        return "no silence is in force"
    rows = [
        [
            silence["id"],
            _words(silence),
            in_short(max(silence["until"] - now, 0.0)),
            silence["by"],
            silence["why"],
        ]
        for silence in silences
    ]
    return text.table(["silence", "about", "left", "by", "why"], rows, indent="", left_columns=5)


def _words(silence: dict[str, Any]) -> str:
    return ", ".join(f"{key} {silence[key]}" for key in _ABOUT if silence[key])
