"""A dashboard as TypeScript that assigns its parts to the types of Grafana's foundation SDK.

Its JSON Schemas and these types come from one source; npm has the types alone. The compiler
refuses a key that a type does not have, a value of another type, and a word that an enumeration
lacks. Where the type of a dashboard says `any` (options and custom fields of a panel, queries), the
part is assigned to the type of that panel or data source by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_SDK = "@grafana/grafana-foundation-sdk"
_HEAD = f"""import type * as dashboard from "{_SDK}/dashboard";
import type * as prometheus from "{_SDK}/prometheus";
import type * as timeseries from "{_SDK}/timeseries";
import type * as stat from "{_SDK}/stat";
import type * as table from "{_SDK}/table";
import type * as heatmap from "{_SDK}/heatmap";
// An enumeration of words as the words; and no methods, which JSON does not have.
type Plain<T> = 0 extends 1 & T ? T
  : T extends string ? `${{T}}`
  : T extends (infer Item)[] ? Plain<Item>[]
  : T extends object ? {{ [K in keyof T as K extends `_${{string}}` ? never : K]: Plain<T[K]> }}
  : T;
"""
_WITH_CUSTOM = ("timeseries", "table", "heatmap")


def typescript(board: dict[str, Any]) -> str:
    """Return the text of a file that compiles if the dashboard fits Grafana's types."""
    panels = board["panels"]
    lines = [_constant("board", "dashboard.Dashboard", {**board, "panels": []})]
    for panel in panels:
        lines += _panel(panel)
    return _HEAD + "\n".join(lines) + "\n"


def _panel(panel: dict[str, Any]) -> Iterator[str]:
    name = f"panel{panel['id']}"
    if panel["type"] == "row":
        yield _constant(name, "dashboard.RowPanel", panel)
        return
    yield _constant(name, "dashboard.Panel", {**panel, "targets": []})
    if "options" in panel:
        yield _constant(f"{name}options", f"{panel['type']}.Options", panel["options"])
    custom = panel["fieldConfig"]["defaults"].get("custom")
    if custom is not None:
        assert panel["type"] in _WITH_CUSTOM, f"{panel['type']} has no custom fields"
        yield _constant(f"{name}custom", f"{panel['type']}.FieldConfig", custom)
    for target in panel["targets"]:
        yield _constant(f"{name}{target['refId']}", "prometheus.Dataquery", target)


def _constant(name: str, kind: str, value: Any) -> str:
    return f"export const {name}: Plain<{kind}> = {json.dumps(value, indent=1)};"
