"""Problems in user-written documents, one line each: place, problem and remedy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from stepwatch.collector.slo.asked.yaml_lines import Document, Place, YamlError, read_yaml
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import closest_hint

MAX_ERRORS = 20
"""Maximum problem lines per document: one mistake may occur in a thousand places."""
M = TypeVar("M", bound=BaseModel)


class Hints(NamedTuple):
    """Remedies by place (keys joined by points), and the valid keys."""

    to_do: Mapping[str, str]
    keys: Collection[str]


def validated(model: type[M], text: str, source: str, hints: Hints) -> tuple[Document, M]:
    """Return a YAML document, and its content as a `model`.

    Raises:
        ConfigurationError: its shape is wrong; a line per problem: file, line, key, remedy.
    """
    try:
        document = read_yaml(text)
        return document, model.model_validate({} if document.value is None else document.value)
    except YamlError as error:
        raise ConfigurationError(f"{source}:{error.line}: {error}") from error
    except ValidationError as error:
        # Errors never show the value: it may be a secret in a wrong place.
        errors = error.errors(include_input=False)[:MAX_ERRORS]
        lines = [problem_line(problem, document, source, hints, model) for problem in errors]
        raise ConfigurationError("\n".join(lines)) from error


def refuse(problems: Iterable[tuple[Place, str]], document: Document, source: str) -> None:
    """Refuse a document with a valid shape and other problems.

    Raises:
        ConfigurationError: there is a problem; a line for each.
    """
    lines = [f"{source}:{document.line_of(place)}: {message}" for place, message in problems]
    if lines:
        raise ConfigurationError("\n".join(lines))


def problem_line(
    problem: Any, document: Document, source: str, hints: Hints, model: type[BaseModel]
) -> str:
    """Return one pydantic problem as one line.

    The remedy is the hint for its place, the right place in `model` for its key, or the nearest
    valid key.
    """
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
    """Return the problem and the remedy for a key that is unknown in its place."""
    homes = sorted(key_homes(model, key))
    if homes:
        return "there is no such key here", f"write it under {' or '.join(homes)}"
    other_keys = [known_key for known_key in keys if known_key != key]
    return "there is no such key", closest_hint(key, other_keys, list_known=False) or "leave it out"


def key_homes(model: type[BaseModel], key: str, prefix: str = "") -> set[str]:
    """Return the places below a model's top that accept `key`.

    Examples: `alerting`, `classes.NAME`.
    """
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
    """Yield the models within an annotation, and whether they are values in a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, keyed
        return
    for argument in get_args(annotation):
        yield from _inner_models(argument, keyed=keyed or get_origin(annotation) is dict)


def _shorter(place: Place) -> list[str]:
    """Return the place without user-chosen names: classes.production.slos -> classes.slos."""
    names = [str(part) for part in place if isinstance(part, str)]
    return [".".join([*names[:1], *names[-1:]]), names[0] if names else ""]
