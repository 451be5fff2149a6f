"""Cost of tokens and epochs."""

from __future__ import annotations

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown


def _of_tokens(facts: JobFacts) -> Reading:
    cost = facts.cost
    if cost is None:
        return unknown("no rate card: start the collector with --rates FILE")
    if cost.without_rate:
        hours = cost.without_rate / 3600
        return unknown(f"the rate card has no rate for {hours:.3g} device-hours of it")
    if not cost.tokens:
        return unknown("no rank reports tokens: pass tokens= to Watch.step")
    return Reading(
        cost.money / cost.tokens * 1e6, detail=f"{cost.money:.4g} {cost.currency} so far"
    )


SLIS = (
    RunSli(
        name="cost-per-million-tokens",
        mission="M13",
        what="money for a million tokens that were kept",
        formula="rate x allocated device-hours / tokens of steps that were not redone x 10^6",
        unit="money",
        weight="device-time",
        expected="per organisation",
        trap="prices change: each day counts at its own rate",
        needs="a rate card, and tokens of steps",
        measure=_of_tokens,
    ),
)
