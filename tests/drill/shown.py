"""What a drill showed, once its notifications have arrived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .chain.pager import FIRING, RESOLVED, Notified
from .chain.site import Site
from .faults import PAGE, Expected
from .held import NEVER, Held


class Row(NamedTuple):
    """What a drill showed; seconds count from the moment at which the fault began, as its rank
    noted it; NaN where it never came. `problems` are what is not as it should be, `also` is what
    arrived besides."""

    name: str
    kind: str
    cause: str
    rank: int
    severity: str
    found_seconds: float
    sent_seconds: float
    over_seconds: float
    notifications: int
    end_seconds: float
    problems: tuple[str, ...]
    also: tuple[str, ...] = ()


def row(site: Site, held: Held, was_waited_for: bool) -> Row:
    """What a drill showed, now that its notifications have arrived."""
    arrived = held.arrived(site, FIRING)
    ends = held.arrived(site, RESOLVED)
    expected = held.expected or held.drill.expected[0]
    problems = [*held.problems, *_of_delivery(held, expected, arrived)]
    if was_waited_for and held.of_page and arrived and not ends:
        problems.append("its end did not arrive")
    also, wrong = _besides(site, held, expected)
    incident = held.incident
    opened = incident.get("opened_at", NEVER)
    return Row(
        held.drill.name, incident.get("kind", held.alert or "none"), incident.get("cause", ""),
        incident.get("rank", -1), expected.severity, opened - held.began,
        arrived[0].at - held.began if arrived else NEVER, held.over - held.began,
        len(arrived), ends[0].at - held.began if ends else NEVER,
        (*problems, *wrong), tuple(also),
    )  # fmt: skip


def _of_delivery(held: Held, expected: Expected, arrived: Sequence[Notified]) -> Iterator[str]:
    if not arrived:
        yield f"{held.alert or 'nothing'} did not arrive"
        return
    receivers = {each.receiver for each in arrived}
    if receivers != {expected.severity}:
        yield f"it arrived as {', '.join(sorted(receivers))}"
    if len(arrived) > 1:
        yield f"it arrived {len(arrived)} times"


def _besides(site: Site, held: Held, expected: Expected) -> tuple[list[str], list[str]]:
    """Other alerts on the job: tickets are named, pages that no fault here has are wrong."""
    allowed = {alert for each in held.drill.expected for alert in each.alerts}
    others = {
        (each.alert, each.receiver)
        for each in site.notified()
        if each.job == held.drill.job_name and each.alert != held.alert and each.status == FIRING
    }
    also = [f"{alert} ({receiver})" for alert, receiver in sorted(others)]
    wrong = [
        f"also a page: {alert}"
        for alert, receiver in sorted(others)
        if receiver == PAGE and alert not in allowed
    ]
    return also, wrong
