"""Replay against reality: where verdicts on the same scenario differ, and by class. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from stepwatch.cli import text
from tests.verdicts.scenario.scored.matching import Matched
from tests.verdicts.scenario.scored.shares import Document
from tests.verdicts.scenario.scored.statistics import quantile, wilson

_ASPECTS = ("found", "rank", "cause", "node")


def differences(real: Matched, replayed: Matched) -> list[str]:
    """Where the verdicts on the same scenario are not as right; seconds may differ."""
    found = []
    for one, other in zip(real.answers, replayed.answers, strict=True):
        for name in _ASPECTS:
            if getattr(one, name) != getattr(other, name):
                said = f"{getattr(one, name)}, replayed {getattr(other, name)}"
                found.append(f"{one.fault}: {name} {said}")
    if bool(real.false) != bool(replayed.false):
        found.append(f"false incidents: {len(real.false)}, replayed {len(replayed.false)}")
    return found


def table(done: Sequence[Document]) -> str:
    """A row for each class and way, real / replayed, and one for all."""
    ran = [one for one in done if "real" in one]
    rows = [
        [name, *_row([one for one in ran if _name(one) == name])]
        for name in sorted({*map(_name, ran)})
    ]
    headings = ["class, real / replayed", "runs", "found", "rank", "cause", "false", "p50", "cost"]
    said = text.table([*headings, "agree"], [*rows, ["all", *_row(ran)]], "", left_columns=1)
    skipped = len(done) - len(ran)
    agree = sum(not one["differences"] for one in ran)
    low, high = wilson(agree, len(ran))
    said += f"\n\nthe replay agrees with {agree} of {len(ran)} real runs ({low:.2f} to {high:.2f})"
    return said + (f"; {skipped} could not be run here" if skipped else "")


def _name(one: Document) -> str:
    return f"{one['kind']}, {one['way']}" if one["kind"] else "healthy"


def _row(mine: Sequence[Document]) -> list[str]:
    return [
        str(len(mine)),
        *(_both(mine, lambda side, name=name: _share(side, name)) for name in _ASPECTS[:3]),
        _both(mine, lambda side: str(sum(len(each["false"]) for each in side))),
        _both(mine, _p50),
        " / ".join(_cost(one.get(name) for one in mine) for name in ("cost", "replayed_cost")),
        f"{sum(not one['differences'] for one in mine)}/{len(mine)}",
    ]


def _both(mine: Sequence[Document], said: Any) -> str:
    real, replayed = ([one[side] for one in mine] for side in ("real", "replay"))
    return f"{said(real)} / {said(replayed)}"


def _share(side: Iterable[Document], name: str) -> str:
    answers = [each[name] for one in side for each in one["answers"] if each[name] is not None]
    return f"{sum(answers)} of {len(answers)}" if answers else "-"


def _p50(side: Iterable[Document]) -> str:
    known = [each["seconds"] for one in side for each in one["answers"] if each["found"]]
    return f"{quantile(known, 0.5):.1f} s" if known else "-"


def _cost(costs: Iterable[float | None]) -> str:
    known = quantile((cost for cost in costs if cost is not None), 0.5)
    return "-" if math.isnan(known) else f"{known:.0%}"
