"""Learning progress: incidents about loss and numerics."""

from __future__ import annotations

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.state.step_facts import first_and_last_loss
from stepwatch.signals.names import FindingKind

_OF_LEARNING = (
    FindingKind.LOSS_ANOMALY,
    FindingKind.NON_FINITE,
    FindingKind.SILENT_CORRUPTION,
    FindingKind.REPLICA_DRIFT,
)


def convergence(facts: JobFacts) -> Reading:
    """Count incidents: spikes, plateaus, rises, non-finite values and diverged replicas."""
    losses = first_and_last_loss([run for run, _ in facts.runs])
    count = sum(facts.incidents.get(kind.value, 0) for kind in _OF_LEARNING)
    if losses is None and not count:
        return unknown("no rank reports its loss: pass loss= to Watch.step")
    words = "" if losses is None else f"loss {losses[0]:.4g}, now {losses[1]:.4g}"
    return Reading(float(count), count, detail=words)


SLIS = (
    RunSli(
        name="convergence",
        mission="M12",
        what="incidents of the loss and of numbers: spikes, plateaus, NaN, diverged replicas",
        formula="count over the run",
        unit="events",
        weight="jobs",
        expected="0",
        trap="minibatch noise; a loss that falls is not proof of a good model",
        needs="losses of steps; digests and gradients where they are watched",
        measure=convergence,
    ),
)
