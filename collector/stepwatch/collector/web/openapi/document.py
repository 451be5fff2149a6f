"""The OpenAPI document of the HTTP interface, from the routes and the types of `operations`."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import TypeAdapter
from starlette.routing import BaseRoute, Route

from stepwatch.collector.web.schema.common import Problem

from .field_docs import with_field_docs
from .operations import EVENTS, OPERATIONS, STREAM, Binary, Operation

_REF = "#/components/schemas/{model}"
_NAME = re.compile(r"\{(\w+)\}")
Json = dict[str, Any]


def openapi_text(routes: Iterable[BaseRoute]) -> bytes:
    """Return the OpenAPI document as JSON."""
    return json.dumps(openapi(routes)).encode()


def openapi(routes: Iterable[BaseRoute]) -> Json:
    """Return the OpenAPI 3.1 document; each route's handler describes it."""
    schemas, definitions = _schemas()
    handlers = {(method, route.path): route.endpoint for method, route in api_routes(routes)}
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        handler = handlers.get((operation.method, operation.path))
        if handler is not None:
            by_method = paths.setdefault(operation.path, {})
            by_method[operation.method.lower()] = {
                **_words(inspect.getdoc(handler) or ""),
                **_operation(operation, schemas),
            }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "stepwatch collector",
            "version": "1",
            "description": "Times are Unix seconds, durations seconds; null is an unknown value.",
        },
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def api_routes(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, Route]]:
    """Yield the method and the route of each operation below `/v1`."""
    for route in routes:
        if isinstance(route, Route) and route.path.startswith("/v1/"):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield method, route


def _schemas() -> tuple[dict[Any, Json], dict[str, Json]]:
    """Return the schema of each answer, body and event, and all definitions."""
    named = {Problem, *EVENTS.values()} | {
        kind
        for operation in OPERATIONS
        for kind in (operation.answer, operation.body)
        if kind is not None and not isinstance(kind, Binary)
    }
    kinds = sorted(named, key=lambda kind: str(kind.__name__))
    schemas, document = TypeAdapter.json_schemas(
        [(kind, "validation", TypeAdapter(kind)) for kind in kinds], ref_template=_REF
    )
    by_kind = {kind: schemas[kind, "validation"] for kind in kinds}
    definitions = with_field_docs(document["$defs"])
    line = definitions["JobLineAnswer"]
    words = "Changed fields of a job's list entry; null where there is no value any more."
    definitions["JobEvent"] = line | {"required": ["job", "as_of"], "title": "JobEvent"}
    definitions["JobEvent"]["description"] = words
    return by_kind, definitions


def _operation(operation: Operation, schemas: dict[Any, Json]) -> Json:
    answer = {"description": "The answer.", "content": _content(operation.answer, schemas)}
    if operation.answer == STREAM:
        names = {name: schemas[kind] for name, kind in EVENTS.items()}
        answer["x-events"] = names | {"job": {"$ref": _REF.format(model="JobEvent")}}
    problem = {"description": "A problem.", "content": _content(Problem, schemas)}
    document: Json = {
        "tags": [operation.path.split("/")[2]],
        "parameters": [*_path_parameters(operation.path), *_query(operation.query)],
        "responses": {"200": answer, "default": problem},
    }
    if operation.body is not None:
        content = _content(operation.body, schemas)
        document["requestBody"] = {"required": operation.needs_body, "content": content}
    return document


def _content(kind: Any, schemas: dict[Any, Json]) -> Json:
    if isinstance(kind, Binary):
        return {kind.media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"application/json": {"schema": {"type": "object"} if kind is None else schemas[kind]}}


def _path_parameters(path: str) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _NAME.findall(path)
    ]


def _query(kind: Any) -> list[Json]:
    if kind is None:
        return []
    document = with_field_docs({kind.__name__: TypeAdapter(kind).json_schema()})[kind.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in document.get("required", ()),
            "description": schema.pop("description", ""),
            "schema": schema,
        }
        for name, schema in document["properties"].items()
    ]


def _words(text: str) -> Json:
    """Return a handler's docstring as summary and description."""
    first, _, more = text.partition("\n\n")
    return {"summary": " ".join(first.split()), "description": " ".join(more.split())}
