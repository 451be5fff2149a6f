"""StepwatchAgentDegraded: a node's agent runs, but loses records or cannot read a source."""

from __future__ import annotations

from stepwatch.alerts.expressions import either
from stepwatch.alerts.spec import Alert, Case, Fired, Severity, Situation
from stepwatch.alerts.thresholds import RECENT_SECONDS
from stepwatch.signals.names import (
    AGENT_OVERRUNS,
    AGENT_REFUSED,
    AGENT_SPOOL_DROPPED,
    AGENT_THREAD_FAILURES,
    ALERT_AGENT_DEGRADED,
    NODE,
    PROBE_UNKNOWN,
)

_COUNTERS = (AGENT_SPOOL_DROPPED, AGENT_OVERRUNS, AGENT_REFUSED, AGENT_THREAD_FAILURES)
_NODE_TEMPLATE = f"{{{{ $labels.{NODE} }}}}"
_WHAT = "the agent loses records, or cannot read a source"
_TEXT = "Lost records are missing in every view of the node's ranks."
_READ = (
    f"{{{{ range printf `max by (probe, reason) ({PROBE_UNKNOWN.name}{{{NODE}=%q}}) > 0` "
    f"$labels.{NODE} | query | sortByLabel `probe` }}}}"
    "Probe {{ .Labels.probe }} reads nothing: {{ .Labels.reason }}. {{ end }}"
)


def _probe(value: str) -> dict[str, str]:
    labels = f'{NODE}="gpu-07",probe="nvml",reason="it hangs"'
    return {f"{PROBE_UNKNOWN.name}{{{labels}}}": value}


def _dropped(value: str) -> dict[str, str]:
    return {f'{AGENT_SPOOL_DROPPED.name}{{{NODE}="gpu-07"}}': value}


def _fired(sentence: str = "") -> tuple[Fired, ...]:
    return (Fired({NODE: "gpu-07"}, f"Node gpu-07: {_WHAT}", f"{sentence}{_TEXT}"),)


ALERT = Alert(
    name=ALERT_AGENT_DEGRADED,
    expr=either(
        *(
            f"max by ({NODE}) (increase({counter.name}[{RECENT_SECONDS}s])) > 0"
            for counter in _COUNTERS
        ),
        f"max by ({NODE}) ({PROBE_UNKNOWN.name}) > 0",
    ),
    severity=Severity.TICKET,
    # A source that hangs briefly, such as a driver while it loads, is not lost.
    for_seconds=120,
    keep_firing_seconds=300,
    summary=f"Node {_NODE_TEMPLATE}: {_WHAT}",
    description=_READ + _TEXT,
    impact="Causes on this node may stay unknown, and coverage of its jobs may fall.",
    first_action="Run `stepwatch doctor` on the node, and look at the agent's log.",
    cases=(
        Case("segments are dropped", _dropped("0x8 0+2x40"), 420, _fired()),
        Case(
            "a probe hangs",
            _probe("_x8 1x40"),
            420,
            _fired("Probe nvml reads nothing: it hangs. "),
        ),
        Case(
            "it flaps",
            _probe("1x20 stale _ 1x20"),
            390,
            _fired("Probe nvml reads nothing: it hangs. "),
            situation=Situation.FLAPPING,
        ),
        Case(
            "a late scrape", _dropped("0+2x16 _x3 40+2x20"), 285, _fired(), situation=Situation.LATE
        ),
        Case("no alert where a probe hangs for a minute", _probe("1x4 stale"), 300),
        Case(
            "no alert as a restarted agent counts from zero",
            _dropped("9x20 stale _x4 0x40"),
            900,
            situation=Situation.RESTART,
        ),
        Case("no alert while nothing is lost", _dropped("7x40"), 420),
    ),
    of_jobs=False,
)
