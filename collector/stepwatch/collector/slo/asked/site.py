"""The site file: SLOs for job classes, and planned work. YAML.

    classes:
      production:
        slos: [goodput, step-time]
      trial:
        slos: []
        thresholds:
          straggler: {least_ratio: 2.0}
        profile_incidents: [straggler]
    maintenance:
      - from: 2026-11-20T08:00:00Z
        until: 2026-11-20T10:00:00Z
        why: new firmware on the switches
        classes: [production]
    owners:
      - jobs: llama-*
        project: llama
        team: pretraining

`detect.thresholds` reads `thresholds`. `pages` in a class and the section `alerting` are for
`stepwatch build` alone. `profile_incidents` are the kinds or causes of incidents whose slow rank is
profiled when they open. A class that is not named has the SLOs, thresholds and profiles of the
class "*", or all SLOs, the shipped thresholds and no profiles without it. Planned time does not
count in any SLO. Without a given site file or documents, the files in this folder apply.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from stepwatch.collector.slo.asked.class_slos import class_problems
from stepwatch.collector.slo.asked.openslo import default_slos, parse_slo
from stepwatch.collector.slo.asked.owners import FIELDS, OwnerRule
from stepwatch.collector.slo.asked.problems import Hints, refuse, validated
from stepwatch.collector.slo.asked.rates import RateCard, read_rates
from stepwatch.collector.slo.asked.site_schema import KEYS, OTHERS, REMEDIES, SiteDocument
from stepwatch.collector.slo.asked.yaml_lines import Place
from stepwatch.collector.slo.objectives import Slo
from stepwatch.collector.store.accounts import Generation
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import file_problem

Span = tuple[float, float]


class Planned(NamedTuple):
    """Planned work: its time does not count for jobs in `classes`, or in all classes if None."""

    from_s: float
    until_s: float
    why: str
    classes: frozenset[str] | None = None


def apart(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in rising order, with touching spans merged."""
    merged: list[Span] = []
    for first, until in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(until, merged[-1][1])
        else:
            merged.append((first, until))
    return merged


class Objectives(NamedTuple):
    """Requirements for jobs: SLOs, classes, planned work, rates, owners and thresholds.

    `slos` is by name, `classes` maps a class to SLO names, `rates` is None without a rate card.
    `thresholds` maps a class to the detectors' thresholds that differ from the shipped ones,
    `profiled` maps it to the kinds and causes of incidents whose slow rank is profiled.
    """

    slos: Mapping[str, Slo]
    classes: Mapping[str, tuple[str, ...]] = {}
    planned: tuple[Planned, ...] = ()
    rates: RateCard | None = None
    owners: tuple[OwnerRule, ...] = ()
    thresholds: Mapping[str, Mapping[type, Any]] = {}
    profiled: Mapping[str, frozenset[str]] = {}

    def slos_for(self, job_class: str) -> list[Slo]:
        """Return the SLOs for jobs in a class; all of them if the site names no default."""
        default_names = self.classes.get(OTHERS, tuple(self.slos))
        names = self.classes.get(job_class, default_names)
        return [self.slos[name] for name in names]

    def thresholds_for(self, job_class: str) -> Mapping[type, Any]:
        """Return the changed thresholds for jobs in a class; a named class does not inherit."""
        others = {} if job_class in self.classes else self.thresholds.get(OTHERS, {})
        return self.thresholds.get(job_class, others)

    def profiled_for(self, job_class: str) -> frozenset[str]:
        """Return the kinds and causes of incidents that are profiled for jobs in a class."""
        default = frozenset[str]() if job_class in self.classes else self.profiled.get(OTHERS)
        return self.profiled.get(job_class, default or frozenset())

    def planned_for(self, job_class: str) -> list[Planned]:
        """Return the planned work that jobs in a class are not charged for."""
        return [
            planned
            for planned in self.planned
            if planned.classes is None or job_class in planned.classes
        ]

    def without(self, job_class: str) -> Sequence[Span]:
        """Return the planned time for jobs in a class: rising, disjoint spans, Unix seconds."""
        return apart((planned.from_s, planned.until_s) for planned in self.planned_for(job_class))

    def of_generations(self, generations: Mapping[str, Generation]) -> Objectives:
        """Return the objectives with each SLO's generation and its start.

        An SLO that differs from its newest generation has none yet.
        """
        slos = {
            name: slo._replace(
                generation=generations[name].number, since_s=generations[name].since_s
            )
            if name in generations and generations[name].revision == slo.revision
            else slo
            for name, slo in self.slos.items()
        }
        return self._replace(slos=slos)

    def asked_otherwise(self, generations: Mapping[str, Generation]) -> list[str]:
        """Return the names of SLOs that differ from their newest generation."""
        slos = self.slos.items()
        return [
            n for n, slo in slos if n in generations and generations[n].revision != slo.revision
        ]

    def changes_since(self, previous: Objectives) -> list[str]:
        """Return the changes since `previous`, a line each."""
        changes = []
        for name in sorted(self.slos.keys() | previous.slos.keys()):
            old, new = previous.slos.get(name), self.slos.get(name)
            if (old and old.revision) != (new and new.revision):
                words = [slo.revision if slo else "none" for slo in (old, new)]
                changes.append(f"SLO {name}: revision {words[0]} becomes {words[1]}")
        if self.classes != previous.classes:
            changes.append("SLOs of classes changed")
        if self.thresholds != previous.thresholds:
            changes.append("thresholds of classes changed")
        if self.profiled != previous.profiled:
            changes.append("profiles of classes changed")
        changes += [
            f"planned: {planned.why}" for planned in self.planned if planned not in previous.planned
        ]
        changes += [
            f"not planned: {planned.why}"
            for planned in previous.planned
            if planned not in self.planned
        ]
        if self.owners != previous.owners:
            changes.append("owners changed: they count for days that are written from now on")
        if self.rates != previous.rates:
            changes.append("rates changed: they count from now on, and for all of a report")
        return changes


def read_objectives(
    folder: Path | None = None, site: Path | None = None, rates: Path | None = None
) -> Objectives:
    """Read a folder's documents, the site file and the rate card.

    Without a folder the shipped SLOs apply; without folder and site file also the shipped site
    file.

    Raises:
        ConfigurationError: a file cannot be read or is wrong; a line per problem, with the file,
            the line, and the remedy.
    """
    objectives = _objectives(folder, site)
    return objectives if rates is None else objectives._replace(rates=read_rates(rates))


def _objectives(folder: Path | None, site: Path | None) -> Objectives:
    slos = {slo.name: slo for slo in default_slos()} if folder is None else _documents(folder)
    if site is None:
        if folder is not None:
            return Objectives(slos)
        text = resources.files(__package__).joinpath("site.yaml").read_text(encoding="utf-8")
        return _with_site(slos, text, "site.yaml")
    try:
        return _with_site(slos, site.read_text(encoding="utf-8"), str(site))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{site}: cannot be read: {file_problem(error)}; pass --site FILE"
        ) from error


def _with_site(slos: Mapping[str, Slo], text: str, source: str) -> Objectives:
    """Return the SLOs combined with the `text` of a site file."""
    document, parsed = validated(SiteDocument, text, source, Hints(REMEDIES, KEYS))
    refuse(_problems(parsed, slos), document, source)
    planned = tuple(
        Planned(
            _moment(window.from_) or 0.0,
            _moment(window.until) or 0.0,
            window.why,
            None if window.classes is None else frozenset(window.classes),
        )
        for window in parsed.maintenance
    )
    classes = {name: tuple(site_class.slos) for name, site_class in parsed.classes.items()}
    owners = tuple(
        OwnerRule(owner.jobs, owner.model_dump(include=set(FIELDS))) for owner in parsed.owners
    )
    profiled = {
        name: frozenset(site_class.profile_incidents)
        for name, site_class in parsed.classes.items()
        if site_class.profile_incidents
    }
    return Objectives(slos, classes, planned, owners=owners, profiled=profiled)


def _documents(folder: Path) -> dict[str, Slo]:
    """Return a folder's SLOs by name."""
    files = sorted((*folder.glob("*.yaml"), *folder.glob("*.yml")))
    if not files:
        raise ConfigurationError(f"{folder}: holds no *.yaml; write an SLO document there")
    slos: dict[str, Slo] = {}
    paths: dict[str, Path] = {}
    problems = []
    for file in files:
        try:
            slo = parse_slo(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{file}: cannot be read: {file_problem(error)}")
            continue
        except ConfigurationError as error:
            problems.append(str(error))
            continue
        if slo.name in slos:
            problems.append(f"{file}:1: {paths[slo.name]} is called {slo.name!r}, too; rename one")
        slos[slo.name], paths[slo.name] = slo, file
    if problems:
        raise ConfigurationError("\n".join(problems))
    return slos


def _problems(site: SiteDocument, slos: Collection[str]) -> Iterator[tuple[Place, str]]:
    """Yield the problems in a site file with a valid shape: places, and remedies."""
    yield from class_problems(site, slos)
    for number, planned in enumerate(site.maintenance):
        place: Place = ("maintenance", number)
        begins, ends = _moment(planned.from_), _moment(planned.until)
        if begins is None:
            yield (*place, "from"), f"from: {REMEDIES['maintenance.from']}"
        if ends is None:
            yield (*place, "until"), f"until: {REMEDIES['maintenance.until']}"
        if begins is not None and ends is not None and begins >= ends:
            yield (*place, "until"), "until: it ends before it begins; correct one of them"


def _moment(written: Any) -> float | None:
    """Return the Unix seconds of a moment with a time zone; None if it is invalid."""
    if isinstance(written, str):
        try:
            written = datetime.fromisoformat(written)
        except ValueError:
            return None
    if not isinstance(written, datetime) or written.tzinfo is None:
        return None
    try:
        return written.astimezone(UTC).timestamp()
    except (ValueError, OverflowError):  # in UTC it is before the year 1, or after 9999
        return None
