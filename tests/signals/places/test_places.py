"""Some addresses are reached without a proxy."""

from __future__ import annotations

import pytest

from stepwatch.signals.places import may_use_proxy


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8480", "http://localhost:8480/", "http://[::1]:8480", "https://127.9.0.1"],
)
def test_no_proxy_stands_before_this_machine(url: str) -> None:
    assert not may_use_proxy(url)


@pytest.mark.parametrize(
    "url",
    ["http://collector:8480", "https://10.0.0.7", "http://localhost.example.org", "", "http://["],
)
def test_others_may_be_behind_a_proxy(url: str) -> None:
    assert may_use_proxy(url)
