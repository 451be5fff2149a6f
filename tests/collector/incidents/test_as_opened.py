"""What opened an incident stays, with the present beside it; what costs little informs."""

from __future__ import annotations

from stepwatch.collector.detect.finding import LOST_SHARE, Confidence
from stepwatch.collector.incidents.states import RESOLVED
from stepwatch.signals.names import Cause

from .story import Story, finding


def test_what_was_true_at_the_opening_stays_and_the_present_stands_beside_it() -> None:
    story = Story()
    story.turn(finding(lost=0.18))
    evidence = finding(lost=0.02).evidence[0]._replace(name="what is left")
    story.turn(finding(lost=0.02)._replace(summary="hardly slow", evidence=(evidence,)))
    (incident,) = story.incidents.values()
    assert (incident.throughput_lost_ratio, incident.throughput_lost_ratio_now) == (0.18, 0.02)
    assert (incident.summary, incident.summary_now) == ("rank 2 is slow", "hardly slow")
    assert [row["name"] for row in incident.evidence] == ["self time"]
    story.turn(finding(lost=0.02)._replace(cause=Cause.CPU_STEAL, summary="because of steal"))
    (incident,) = story.incidents.values()
    assert incident.summary == "because of steal", "its cause became known"


def test_which_one_of_several_it_is_is_said_once_it_is_known_and_stays() -> None:
    story = Story()
    one_of = finding(lost=0.18)._replace(confidence=Confidence.ONE_OF, summary="one of two is slow")
    for report in (one_of, finding(lost=0.18), one_of, finding(lost=0.18)):
        story.turn(report)
    (incident,) = story.incidents.values()
    assert incident.summary == "rank 2 is slow"
    story.turn(one_of)
    (incident,) = story.incidents.values()
    assert (incident.summary, incident.summary_now) == ("rank 2 is slow", "one of two is slow")


def test_what_costs_little_informs_until_it_costs_more() -> None:
    story = Story()
    story.turn(finding(lost=0.03))
    assert [item.severity for item in story.incidents.values()] == ["info"]
    story.turn(finding(lost=0.06))
    story.turn(finding(lost=0.03))
    assert [item.severity for item in story.incidents.values()] == ["alert"], "it does not flap"


def test_an_estimate_of_a_few_steps_gives_way_to_what_was_measured() -> None:
    story = Story()
    story.turn(finding(lost=0.2))
    measured = finding(lost=0.45).evidence[0]._replace(name=LOST_SHARE)
    for lost in (0.45, 0.3):
        story.turn(finding(lost=lost)._replace(evidence=(measured,)))
    (incident,) = story.incidents.values()
    assert (incident.throughput_lost_ratio, incident.throughput_lost_ratio_now) == (0.45, 0.3)


CAUSES = (Cause.SLOW_COMPUTE, Cause.CPU_CONTENTION)


def causes_said(story: Story) -> list[str]:
    (incident,) = story.incidents.values()
    events = [event for event in incident.timeline if event["event"] == "cause changed"]
    return [event["text"] for event in events]


def test_causes_that_go_to_and_fro_are_no_changes() -> None:
    story = Story()
    for turn in range(300):
        story.turn(finding(lost=0.2)._replace(cause=CAUSES[turn // 8 % 2]))
    assert causes_said(story) == []


def test_a_cause_that_lasts_is_said_once_also_where_it_came_late() -> None:
    for delay in (3, 200):
        story = Story()
        for turn in range(delay + 160):
            story.turn(finding(lost=0.2)._replace(cause=CAUSES[turn >= delay]))
        assert causes_said(story) == ["cpu-contention in forward"], delay


def test_a_fact_that_explains_it_is_said_at_once_and_not_taken_back() -> None:
    story = Story()
    for cause in (Cause.UNKNOWN, Cause.SLOW_COMPUTE, Cause.THERMAL_THROTTLE):
        story.turn(finding(lost=0.2)._replace(cause=cause))
    for _ in range(300):
        story.turn(finding(lost=0.2))
    assert causes_said(story) == ["slow-compute in forward", "thermal-throttle in forward"]


def test_what_does_not_show_any_more_changes_neither_words_nor_cause_and_costs_nothing() -> None:
    story = Story()
    story.turn(finding(lost=0.4))
    (opened,) = story.incidents.values()
    measured = finding().evidence[0]._replace(name=LOST_SHARE)
    faded = finding(lost=0.3)._replace(
        cause=Cause.CPU_CONTENTION, lost_now_ratio=0.0, summary="1.0x", evidence=(measured,)
    )
    for _ in range(60):
        story.turn(faded)
    (incident,) = story.incidents.values()
    assert (incident.summary, incident.cause) == (opened.summary, opened.cause)
    assert incident.device_seconds_lost == opened.device_seconds_lost
    assert (incident.throughput_lost_ratio, incident.throughput_lost_ratio_now) == (0.4, 0.0)


def test_what_comes_again_and_again_stays_open_for_longer() -> None:
    story, ended = Story(), list[int]()
    for _ in range(6):
        story.turn(finding())
        for away in range(200):
            if [incident.state for incident in story.turn()] == [RESOLVED]:
                ended.append(away + 1)
                break
    assert ended == [15, 30, 60, 120, 120, 120]
