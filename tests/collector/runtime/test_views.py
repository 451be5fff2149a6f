"""An answer is renewed as often as it is asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stepwatch.collector.runtime.views import (
    KEPT_SECONDS,
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
    assert renewals(2) == [*range(2, 61)]


def test_one_asked_for_less_often_is_renewed_so_often_that_it_is_not_old() -> None:
    moments = renewals(8)
    gaps = [later - moment for moment, later in pairwise(moments)]
    assert max(gaps) <= RENEWED_SECONDS and len(moments) < 61 / 4


@pytest.mark.parametrize("ask_every", [15, 30])
def test_one_asked_for_seldom_is_made_when_it_is_asked_for(ask_every: int) -> None:
    assert renewals(ask_every) == []


def test_an_answer_without_requests_is_dropped() -> None:
    views = Views()
    views.ask(ASKED, 0.0)
    views.publish(ASKED.name, Published(b"{}", 0.0, 1))
    views.requested(KEPT_SECONDS)
    assert views.newest(ASKED.name)
    views.requested(KEPT_SECONDS + 1.0)
    assert views.newest(ASKED.name) is None
