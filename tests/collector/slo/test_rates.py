"""Rate cards: the newest rate that fits, unknown where none does, one line for what is wrong."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from stepwatch.collector.slo.asked.rates import Rate, RateCard, cost_of, read_rates
from stepwatch.signals.errors import ConfigurationError

DAY = 86_400
JANUARY = 20_454 * DAY
"""2026-01-01, UTC."""
CARD = RateCard(
    "USD",
    (
        Rate(date(2026, 1, 1), 2.0),
        Rate(date(2026, 1, 3), 3.0),
        Rate(date(2026, 1, 2), 10.0, "production"),
    ),
)
GOOD = 'currency = "EUR"\n\n[[rate]]\nfrom = 2026-01-01\ndevice_hour = 2\n'


@pytest.mark.parametrize(
    ("day", "job_class", "rate"),
    [(-1, "", None), (0, "", 2.0), (1, "production", 10.0), (1, "trial", 2.0), (5, "", 3.0)],
)
def test_the_newest_rate_that_fits_is_valid(day: int, job_class: str, rate: float | None) -> None:
    assert CARD.on(JANUARY + day * DAY, job_class) == rate


def test_a_job_costs_what_was_valid_on_each_day_and_a_gap_is_unknown() -> None:
    allocated = {JANUARY - DAY: 3600.0, JANUARY: 1800.0, JANUARY + 2 * DAY: 3600.0}
    assert cost_of(allocated, "", CARD) == (1.0 + 3.0, 3600.0)


def test_a_card_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rates.toml"
    path.write_text(GOOD)
    assert read_rates(path) == RateCard("EUR", (Rate(date(2026, 1, 1), 2.0),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("currency = 3", ':1: currency: write three letters, such as "USD"'),
        (GOOD.replace("device_hour", "device_hours"), ":3: there is no key 'device_hours'"),
        (GOOD.replace("= 2\n", '= "2"\n'), ":3: device_hour: write a device's price"),
        (GOOD.replace("= 2\n", "= -2\n"), ":3: device_hour: write a device's price"),
        (GOOD.replace("= 2\n", "= nan\n"), ":3: device_hour: write a device's price"),
        (GOOD.replace("2026-01-01", '"2026-01-01"'), ":3: from: write a day without quotes"),
        (GOOD + "class = 7\n", ":3: class: write the name of a job class"),
        ('currency = "EUR"\n', ":1: rate: there is none"),
        (GOOD + "[[rate]]\nfrom = 2026-01-01\ndevice_hour = 3\n", "two rates of class 'any'"),
        ('curency = "EUR"\n' + GOOD, ":1: there is no key 'curency'"),
        ("[[rate]\n", "no TOML"),
        ("\x00", "no TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "rates.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_rates(path)
    assert says in str(refused.value) and str(path) in str(refused.value)


@pytest.mark.parametrize(
    "text", ['"eur(" = 1\n', f"a = {'[' * 5000}{']' * 5000}\n", f"a = {'9' * 100_000}\n"]
)
def test_text_that_is_no_card_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rates.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"rates\.toml"):
        read_rates(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no such file.*pass --rates FILE"):
        read_rates(tmp_path / "none.toml")
