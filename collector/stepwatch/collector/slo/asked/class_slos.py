"""Names that a job class may use: SLOs, and incidents; `stepwatch build` reads no store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import resources
from pathlib import Path

from stepwatch.collector.slo.asked.site_schema import SiteDocument
from stepwatch.collector.slo.asked.yaml_lines import Place, YamlError, read_yaml
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import closest_hint, file_problem

PROFILED = (
    FindingKind.STRAGGLER.value,
    FindingKind.DATA_STALL.value,
    FindingKind.DATA_SKEW.value,
    FindingKind.THROUGHPUT_REGRESSION.value,
    Cause.LAUNCH_BOUND.value,
)
"""Incidents, by kind or cause, about one rank that is slow and makes steps."""


def class_problems(site: SiteDocument, slos: Collection[str]) -> Iterator[tuple[Place, str]]:
    """Yield the problems with the names in classes; `slos` are the existing SLOs."""
    for name, site_class in site.classes.items():
        for number, slo in enumerate(site_class.slos):
            if slo not in slos:
                hint = closest_hint(slo, slos)
                yield ("classes", name, "slos", number), f"there is no SLO {slo[:80]!r}; {hint}"
            elif slo in site_class.slos[:number]:
                yield ("classes", name, "slos", number), f"{slo} is named twice; keep one"
        for number, incident in enumerate(site_class.profile_incidents):
            if incident not in PROFILED:
                place = ("classes", name, "profile_incidents", number)
                hint = closest_hint(incident, PROFILED)
                yield place, f"no rank is profiled for {incident[:80]!r}; {hint}"


def slo_names(folder: Path | None = None) -> set[str]:
    """Return the names of a folder's SLO documents, or of the shipped ones.

    Raises:
        ConfigurationError: a document cannot be read.
    """
    place = resources.files(__package__).joinpath("documents") if folder is None else folder
    names = set()
    try:
        for file in place.iterdir():
            if file.name.endswith((".yaml", ".yml")):
                names.add(_name(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, YamlError) as error:
        reason = error if isinstance(error, YamlError) else file_problem(error)
        raise ConfigurationError(f"{place}: cannot be read: {reason}; pass --slo DIR") from error
    return names


def _name(text: str) -> str:
    """Return the name in a document, whatever its other content; empty without one."""
    document = read_yaml(text).value
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
