"""Compares replays with real runs: differing verdicts on a scenario, and shares by class. Pure."""

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
    """Return the aspects in which one verdict is right and the other is not; seconds may differ."""
    lines = []
    for real_answer, replayed_answer in zip(real.answers, replayed.answers, strict=True):
        for name in _ASPECTS:
            if getattr(real_answer, name) != getattr(replayed_answer, name):
                values = f"{getattr(real_answer, name)}, replayed {getattr(replayed_answer, name)}"
                lines.append(f"{real_answer.fault}: {name} {values}")
    if bool(real.false) != bool(replayed.false):
        lines.append(f"false incidents: {len(real.false)}, replayed {len(replayed.false)}")
    return lines


def table(documents: Sequence[Document]) -> str:
    """Return a row for each class and way, real / replayed, and one for all."""
    ran = [document for document in documents if "real" in document]
    rows = [
        [name, *_row([document for document in ran if _name(document) == name])]
        for name in sorted({*map(_name, ran)})
    ]
    headings = ["class, real / replayed", "runs", "found", "rank", "cause", "false", "p50", "cost"]
    table_text = text.table([*headings, "agree"], [*rows, ["all", *_row(ran)]], "", left_columns=1)
    skipped = len(documents) - len(ran)
    agree = sum(not document["differences"] for document in ran)
    low, high = wilson(agree, len(ran))
    table_text += (
        f"\n\nthe replay agrees with {agree} of {len(ran)} real runs ({low:.2f} to {high:.2f})"
    )
    return table_text + (f"; {skipped} could not be run here" if skipped else "")


def _name(document: Document) -> str:
    return f"{document['kind']}, {document['way']}" if document["kind"] else "healthy"


def _row(documents: Sequence[Document]) -> list[str]:
    return [
        str(len(documents)),
        *(
            _real_and_replayed(documents, lambda side, name=name: _share(side, name))
            for name in _ASPECTS[:3]
        ),
        _real_and_replayed(documents, lambda side: str(sum(len(run["false"]) for run in side))),
        _real_and_replayed(documents, _p50),
        " / ".join(
            _cost(document.get(name) for document in documents)
            for name in ("cost", "replayed_cost")
        ),
        f"{sum(not document['differences'] for document in documents)}/{len(documents)}",
    ]


def _real_and_replayed(documents: Sequence[Document], figure: Any) -> str:
    real, replayed = ([document[side] for document in documents] for side in ("real", "replay"))
    return f"{figure(real)} / {figure(replayed)}"


def _share(side: Iterable[Document], name: str) -> str:
    answers = [
        answer[name] for run in side for answer in run["answers"] if answer[name] is not None
    ]
    return f"{sum(answers)} of {len(answers)}" if answers else "-"


def _p50(side: Iterable[Document]) -> str:
    sample = [answer["seconds"] for run in side for answer in run["answers"] if answer["found"]]
    return f"{quantile(sample, 0.5):.1f} s" if sample else "-"


def _cost(costs: Iterable[float | None]) -> str:
    median = quantile((cost for cost in costs if cost is not None), 0.5)
    return "-" if math.isnan(median) else f"{median:.0%}"
