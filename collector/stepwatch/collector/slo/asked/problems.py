"""What is wrong in a document that somebody wrote, one line each: place, problem and remedy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from stepwatch.collector.slo.asked.yaml_lines import Document, Place, YamlError, read_yaml
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import closest_hint

MAX_ERRORS = 20
"""Lines about one document: one mistake may stand in a thousand places."""
M = TypeVar("M", bound=BaseModel)


class Hints(NamedTuple):
    """What to do by place, as keys joined by points, and the keys that there are."""

    to_do: Mapping[str, str]
    keys: Collection[str]


def validated(model: type[M], text: str, source: str, hints: Hints) -> tuple[Document, M]:
    """A YAML document, and what it holds in the shape of `model`.

    Raises:
        ConfigurationError: it has another shape; a line for each problem: file, line, key, remedy.
    """
    try:
        document = read_yaml(text)
        return document, model.model_validate({} if document.value is None else document.value)
    except YamlError as error:
        raise ConfigurationError(f"{source}:{error.line}: {error}") from error
    except ValidationError as error:
        # Of a value that is in the error nothing is shown: it may be a secret in a wrong place.
        found = error.errors(include_input=False)[:MAX_ERRORS]
        lines = [problem_line(each, document, source, *hints) for each in found]
        raise ConfigurationError("\n".join(lines)) from error


def refuse(problems: Iterable[tuple[Place, str]], document: Document, source: str) -> None:
    """Refuse a document that has the right shape and in which something is wrong.

    Raises:
        ConfigurationError: there is a problem; a line for each.
    """
    lines = [f"{source}:{document.line_of(place)}: {what}" for place, what in problems]
    if lines:
        raise ConfigurationError("\n".join(lines))


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
