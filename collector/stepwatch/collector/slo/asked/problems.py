"""What is wrong in a document that somebody wrote, one line each: place, problem and remedy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

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
        errors = error.errors(include_input=False)[:MAX_ERRORS]
        lines = [problem_line(problem, document, source, hints, model) for problem in errors]
        raise ConfigurationError("\n".join(lines)) from error


def refuse(problems: Iterable[tuple[Place, str]], document: Document, source: str) -> None:
    """Refuse a document that has the right shape and in which something is wrong.

    Raises:
        ConfigurationError: there is a problem; a line for each.
    """
    lines = [f"{source}:{document.line_of(place)}: {message}" for place, message in problems]
    if lines:
        raise ConfigurationError("\n".join(lines))


def problem_line(
    problem: Any, document: Document, source: str, hints: Hints, model: type[BaseModel]
) -> str:
    """One problem that pydantic found, in one line: what the hints say of its place, where in the
    `model` its key belongs, or the nearest of the keys that there are."""
    to_do, place, fields = hints.to_do, problem["loc"], model.model_fields
    names = ".".join(str(part) for part in place if isinstance(part, str))
    message = "is missing" if problem["type"] == "missing" else problem["msg"]
    message = message.removeprefix("Value error, ").splitlines()[0]
    remedy = to_do.get(names) or next(
        (to_do[shorter] for shorter in _shorter(place) if shorter in to_do),
        "see https://github.com/OpenSLO/OpenSLO#slo",
    )
    if not place and problem["type"] in ("model_type", "dict_type"):
        message = "it holds no keys"
        remedy = f"write one of {', '.join(field.alias or key for key, field in fields.items())}"
    if problem["type"] == "extra_forbidden":
        message, remedy = _misplaced(str(place[-1]), hints.keys, model)
    return f"{source}:{document.line_of(place)}: {names or 'the document'}: {message}; {remedy}"


def _misplaced(key: str, keys: Collection[str], model: type[BaseModel]) -> tuple[str, str]:
    """What is wrong with a key that is not known where it stands, and what to do."""
    homes = sorted(key_homes(model, key))
    if homes:
        return "there is no such key here", f"write it under {' or '.join(homes)}"
    other_keys = [known_key for known_key in keys if known_key != key]
    return "there is no such key", closest_hint(key, other_keys, list_known=False) or "leave it out"


def key_homes(model: type[BaseModel], key: str, prefix: str = "") -> set[str]:
    """Places below the top of a model in which `key` may stand, as `alerting` or `classes.NAME`."""
    homes = set()
    for name, field in model.model_fields.items():
        if prefix and key == (field.alias or name):
            homes.add(prefix)
        for inner, keyed in _inner_models(field.annotation):
            step = f"{field.alias or name}.NAME" if keyed else (field.alias or name)
            homes |= key_homes(inner, key, f"{prefix}.{step}".lstrip("."))
    return homes


def _inner_models(
    annotation: Any, *, keyed: bool = False
) -> Iterator[tuple[type[BaseModel], bool]]:
    """Models within an annotation, and whether they are values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, keyed
        return
    for argument in get_args(annotation):
        yield from _inner_models(argument, keyed=keyed or get_origin(annotation) is dict)


def _shorter(place: Place) -> list[str]:
    """The place without names that somebody chose: classes.production.slos -> classes.slos."""
    names = [str(part) for part in place if isinstance(part, str)]
    return [".".join([*names[:1], *names[-1:]]), names[0] if names else ""]
