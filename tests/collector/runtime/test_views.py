"""An answer is renewed as often as it is asked for, and never so rarely that it is old."""

from __future__ import annotations

import itertools

from stepwatch.collector.runtime.views import (
    KEPT_SECONDS,
    OFTEN_SECONDS,
    RENEWED_SECONDS,
    Published,
    View,
    Views,
)

ASKED = View("asked", lambda *_: None)


def renewals(ask_every: int, until: int = 61) -> list[int]:
    """The seconds of renewal, with an evaluation a second and a request every so many seconds."""
    views, moments = Views(), []
    for now in range(until):
        if now % ask_every == 0:
            views.ask(ASKED, float(now))
        for view in views.requested(float(now)):
            views.publish(view.name, Published(b"{}", float(now), now))
            moments.append(now)
    return moments


def test_a_polled_answer_is_renewed_each_time() -> None:
    assert renewals(2) == [*range(61)]


def test_a_seldom_asked_answer_is_renewed_so_often_that_it_is_not_old() -> None:
    moments = renewals(30)
    gaps = [later - moment for moment, later in itertools.pairwise(moments)]
    assert max(gaps) <= RENEWED_SECONDS
    assert len(moments) < 61 / 2 and gaps[0] <= OFTEN_SECONDS


def test_an_answer_without_requests_is_dropped() -> None:
    views = Views()
    views.ask(ASKED, 0.0)
    views.publish(ASKED.name, Published(b"{}", 0.0, 1))
    assert views.requested(KEPT_SECONDS) and views.newest(ASKED.name)
    assert not views.requested(KEPT_SECONDS + 1.0) and views.newest(ASKED.name) is None
