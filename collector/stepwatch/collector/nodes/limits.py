"""Limits for node health."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits for stale nodes and repeat offenders."""

    silent_seconds: float = 90.0
    """Seconds: an agent reports every 30 s. After three missed reports it is stale, and its node's
    health is unknown.
    """
    rejoin_seconds: float = 600.0
    """Seconds: if an agent exits without reporting a fact's end (kill -9, power loss) and the fact
    is present again within this time, it never ended. A server with eight devices takes about five
    minutes to restart, and a restart that does not help is not a second fault.
    """
    week_days: int = 7
    """Days: the short window for fault counts. A week covers an on-call shift."""
    month_days: int = 30
    """Days: the long window, which shows recurring faults. A few nodes fail repeatedly, and their
    history identifies them: "lemon nodes" in Kokolis et al., Revisiting Reliability in Large-Scale
    Machine Learning Research Clusters, arxiv.org/abs/2410.21680.
    """
    offender_week: int = 2
    """Faults: this many separate ones in a week make a repeat offender. The mean node has one in
    nine months (419 interruptions in 54 days on 16,384 GPUs, eight per node: The Llama 3 Herd of
    Models, arxiv.org/abs/2407.21783), so two in a week are not due to chance.
    """
    offender_month: int = 3
    """Faults: the same in a month. A repair that did not help causes two in a month, so the limit
    there is three.
    """


LIMITS = Limits()
"""The shipped values."""
