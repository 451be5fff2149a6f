"""Unknown outranks healthy, and a known fault outranks unknown."""

from __future__ import annotations

from stepwatch.signals.health import Health, worst


def test_nothing_known_is_unknown() -> None:
    assert worst([]) is Health.UNKNOWN


def test_missing_data_hides_no_fault_and_fakes_no_health() -> None:
    assert worst([Health.HEALTHY, Health.UNKNOWN]) is Health.UNKNOWN
    assert worst([Health.UNKNOWN, Health.FAILED]) is Health.FAILED
    assert worst([Health.HEALTHY, Health.HEALTHY]) is Health.HEALTHY
