"""Rate cards: the price of a device-hour, and its first valid day. Pure.

A card is a TOML file. For each day the newest rate that fits the job's class is valid:

    currency = "USD"

    [[rate]]
    from = 2026-01-01
    device_hour = 2.10

    [[rate]]
    from = 2026-01-01
    class = "production"
    device_hour = 2.85
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import closest_hint, file_problem

_KEYS = ("from", "device_hour", "class")
_TOP = ("currency", "rate")
HOUR = 3600.0


class Rate(NamedTuple):
    """Price of a device-hour for a job class (empty: any) from a day on."""

    since: date
    device_hour: float
    job_class: str = ""


class Price(NamedTuple):
    """Price of a device-second, in a currency."""

    money: float
    currency: str


class RateCard(NamedTuple):
    """Rates in one currency."""

    currency: str
    rates: tuple[Rate, ...]

    def on(self, day_s: int, job_class: str) -> float | None:
        """Return the price of a device-hour on a day, None without a valid rate.

        The day begins at `day_s` (Unix seconds). A rate for the class precedes one for any class.
        """
        day = datetime.fromtimestamp(day_s, UTC).date()
        fitting = [
            rate for rate in self.rates if rate.since <= day and rate.job_class in ("", job_class)
        ]
        best = max(fitting, key=lambda rate: (bool(rate.job_class), rate.since), default=None)
        return None if best is None else best.device_hour

    def price(self, at_s: float, job_class: str) -> Price | None:
        """Return the price of a device-second at Unix time `at_s`; None without a valid rate."""
        rate = self.on(int(at_s), job_class)
        return None if rate is None else Price(rate / HOUR, self.currency)


def read_rates(path: Path) -> RateCard:
    """Read a rate card.

    Raises:
        ConfigurationError: it cannot be read, or has an error; one line per problem, with the line
            in the file and the remedy.
    """
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise ConfigurationError(f"{path}: {file_problem(error)}; pass --rates FILE") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: {file_problem(error)}; write TOML") from error
    except ValueError as error:  # invalid TOML, or a number with more digits than Python reads
        raise ConfigurationError(f"{path}: no TOML: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: nested too deeply; write [[rate]] tables") from error
    return _card(table, text, str(path))


def _card(card: Mapping[str, Any], text: str, source: str) -> RateCard:
    problems = [
        f"{source}:{_line(text, re.escape(key))}: there is no key {key!r}; "
        + closest_hint(key, _TOP)
        for key in card
        if key not in _TOP
    ]
    currency, tables = card.get("currency"), card.get("rate", [])
    if not isinstance(currency, str) or not re.fullmatch("[A-Z]{3}", currency):
        where = _line(text, "currency")
        problems.append(f'{source}:{where}: currency: write three letters, such as "USD"')
    if not isinstance(tables, list) or not tables:
        problems.append(f"{source}:1: rate: there is none; write a [[rate]] with from, device_hour")
        tables = []
    rates = []
    for number, table in enumerate(tables):
        line = _line(text, r"\[\[rate\]\]", number)
        wrong = _wrong(table)
        if wrong:
            problems.append(f"{source}:{line}: {wrong}")
        else:
            rates.append(Rate(table["from"], float(table["device_hour"]), table.get("class", "")))
    twice = {rate[::2] for rate in rates if sum(rate[::2] == second[::2] for second in rates) > 1}
    problems += [
        f"{source}:1: two rates of class {name or 'any'!r} are valid from {since}; keep one"
        for since, name in sorted(twice)
    ]
    if problems:
        raise ConfigurationError("\n".join(problems))
    return RateCard(str(currency), tuple(rates))


def _wrong(table: Any) -> str:
    """Return the problem with one rate and its remedy; empty if it is valid."""
    if not isinstance(table, dict):
        return "rate: write [[rate]]"
    for key in table:
        if key not in _KEYS:
            return f"there is no key {key!r}; {closest_hint(key, _KEYS)}"
    since, price = table.get("from"), table.get("device_hour")
    if isinstance(since, datetime) or not isinstance(since, date):
        return "from: write a day without quotes, such as 2026-01-01"
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e6:
        return "device_hour: write a device's price per hour, such as 2.10"
    if not isinstance(table.get("class", ""), str):
        return 'class: write the name of a job class, such as "production"'
    return ""


def _line(text: str, key: str, number: int = 0) -> int:
    """Return the line of a key (a regular expression), at its `number`-th repetition."""
    lines = [
        line_number
        for line_number, line in enumerate(text.splitlines(), 1)
        if re.match(rf"\s*(?:{key})\s*(?:=|$|#)", line)
    ]
    return lines[number] if number < len(lines) else 1


def cost_of(by_day: Mapping[int, float], job_class: str, card: RateCard) -> tuple[float, float]:
    """Return a job's costs, and its seconds on days without a rate.

    `by_day` holds device-seconds by day (Unix seconds).
    """
    money = without = 0.0
    for day, seconds in by_day.items():
        rate = card.on(day, job_class)
        if rate is None:
            without += seconds
        else:
            money += rate * seconds / HOUR
    return money, without
