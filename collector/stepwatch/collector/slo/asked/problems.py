"""What is wrong in a document that somebody wrote, one line each: place, problem and remedy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stepwatch.collector.slo.asked.yaml_lines import Document, Place
from stepwatch.signals.phrases import closest_hint


def problem_line(
    problem: Any, document: Document, source: str, to_do: Mapping[str, str], keys: Collection[str]
) -> str:
    """One problem that pydantic found, in one line: what `to_do` says of its place, or the nearest
    of the `keys` that there are."""
    place: Place = problem["loc"]
    names = ".".join(str(part) for part in place if isinstance(part, str))
    what = "is missing" if problem["type"] == "missing" else problem["msg"]
    what = what.removeprefix("Value error, ").splitlines()[0]
    remedy = to_do.get(names) or next(
        (to_do[each] for each in _shorter(place) if each in to_do),
        "see https://github.com/OpenSLO/OpenSLO#slo",
    )
    if problem["type"] == "extra_forbidden":
        what = "there is no such key"
        remedy = closest_hint(str(place[-1]), keys, list_known=False) or "leave it out"
    return f"{source}:{document.line_of(place)}: {names or 'the document'}: {what}; {remedy}"


def _shorter(place: Place) -> list[str]:
    """The place without names that somebody chose: classes.production.slos -> classes.slos."""
    names = [str(part) for part in place if isinstance(part, str)]
    return [".".join([*names[:1], *names[-1:]]), names[0] if names else ""]
