"""One job SLO as text: window, budget, burn, losses by cause, and audit. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.slos.words import state_words

_LEAST_SHARE = 0.005
Document = Mapping[str, Any]


def in_full(job: Document, slo: Document, width: int = text.NARROW) -> str:
    """Return paragraphs in `width` columns, and tables; unknown figures are named unknown."""
    lines = [
        f"{job['job']}, SLO {slo['name']}: {state_words(slo['state'])}",
        *([f"  {slo['reason']}"] if slo["reason"] else []),
        "",
        *(text.entry(name, words, 9, width) for name, words in _entries(slo)),
    ]
    eaten = list(_eaten(job))
    if eaten:
        lines += ["", text.table(["device-time of the job by cause", "", ""], eaten, "")]
    if slo["incidents"]:
        lines += ["", _incidents(slo)]
    lines += ["", *_audit(slo, width)]
    return "\n".join(lines)


def asked_words(slo: Document) -> str:
    """Return the objective of an SLO with a target."""
    if slo["time_slices"]:
        return f"at least {text.share(slo['target'])} in {slo['time_slices']}"
    return f"at least {text.share(slo['target'])} good"


def _entries(slo: Document) -> Iterator[tuple[str, str]]:
    objective = slo["limit"] or asked_words(slo)
    yield "asked", f"{slo['sli']}: {objective}, over {slo['window']}"
    value = slo["ratio"]
    measurement = text.share(value) if slo["limit"] is None or value is None else f"{value:.4g}"
    yield "measured", measurement
    if slo["window_begins_at"] is not None:
        span = f"{text.clock(slo['window_begins_at'])} to {text.clock(slo['window_ends_at'])}"
        yield "window", span
    if slo["limit"] is None:
        yield "budget", _budget(slo)
        yield "burn", _burn(slo)
        for burn in slo["burning"]:
            share, seconds = text.percent(burn["budget_share"]), text.seconds(burn["seconds"])
            words = f"{share} of the budget or more went in {seconds}: "
            words += f"{burn['rate']:.2f}x, from {burn['limit']:.2f}x on"
            yield burn["severity"], words


def _budget(slo: Document) -> str:
    lost, allowed = slo["lost_device_seconds"], slo["allowed_device_seconds"]
    if lost is None or allowed is None:
        return text.UNKNOWN
    spent = f"{text.device_time(lost)} of {text.device_time(allowed)} are spent"
    price = slo["price"]
    if price is not None:
        money = [
            text.money(seconds * price["money"], price["currency"]) for seconds in (lost, allowed)
        ]
        spent += f", at today's rate {money[0]} of {money[1]}"
    return f"{slo['budget']}: {spent}"


def _burn(slo: Document) -> str:
    """Return the burn rate now, in the last hour and over the window, and the budget's end."""
    lost, allowed = slo["lost_device_seconds"], slo["allowed_device_seconds"]
    if slo["burn_rate"] is None or not allowed or slo["window_begins_at"] is None:
        return text.UNKNOWN
    now, hour, mean = float(slo["burn_rate"]), slo["burn_rate_hour"], lost / allowed
    words = f"{now:.2f}x in the last minute, "
    words += "" if hour is None else f"{hour:.2f}x in the last hour, "
    words += f"{mean:.2f}x over the window"
    seconds = slo["window_ends_at"] - slo["window_begins_at"]
    if mean >= 1.0 or seconds <= 0:
        return words
    rates = [now] if hour is None else [now, hour]
    base = mean if slo["window_is_full"] else 1.0
    spans = sorted({gone_in(seconds, mean, rate, base) for rate in rates})
    if spans[0] == math.inf:
        return f"{words}; as it burns now, the budget lasts"
    ends = [text.seconds(span) if span < math.inf else "never" for span in spans]
    return f"{words}; as it burns now, the budget is gone in {', or '.join(ends)}"


def gone_in(seconds: float, mean: float, rate: float, base: float) -> float:
    """Return the seconds until a budget is exhausted at a burn `rate`; infinite if never.

    So far it burned at `mean` over `seconds`. A growing window adds budget as it grows: the budget
    is exhausted only at more than 1x (`base`). In a full window the parts that leave it are assumed
    to have burned at `mean` (`base`). Worked example: 0.5x over 10 h, now 2x, growing window:
    0.5 * 10 h remain, and (2 - 1) h are consumed each hour -> 5 h.
    """
    return (1.0 - mean) * seconds / (rate - base) if rate > base else math.inf


def _eaten(job: Document) -> Iterator[list[str]]:
    total = sum(job["device_seconds"].values())
    for cause, seconds in sorted(job["device_seconds"].items(), key=lambda item: -item[1]):
        if total and seconds / total >= _LEAST_SHARE:
            yield [cause, text.device_time(seconds), text.percent(seconds / total)]


def _incidents(slo: Document) -> str:
    rows = [
        [
            incident["id"],
            f"{incident['kind']}, {incident['cause']}",
            f"rank {incident['rank']}" if incident["rank"] >= 0 else f"node {incident['node']}",
            text.device_time(incident["device_seconds_lost"]),
            "" if incident["cost"] is None else text.money(incident["cost"], incident["currency"]),
        ]
        for incident in slo["incidents"]
    ]
    return text.table(["incident", "what", "who", "lost", ""], rows, "", left_columns=3)


def _audit(slo: Document, width: int) -> Iterator[str]:
    """Yield the SLO's objectives with their start times, and corrections to its counts."""
    yield "audit"
    for entry in slo["generations"]:
        document = entry["document"]
        words = f"{document['sli']}: {document['asked']}, over {document['window']}"
        generation = f"{text.clock(entry['since_s'])}  generation {entry['number']}: {words}"
        yield text.wrapped(generation, "  ", width, hang=2)
    if not slo["generations"]:
        yield "  no collector has kept since when it is asked for"
    for entry in slo["audit"]:
        span = f"{text.clock(entry['from'])} to {text.clock(entry['until'])}"
        yield text.wrapped(f"{span}: {entry['text']}", "  ", width, hang=2)
