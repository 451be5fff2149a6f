"""`stepwatch slo`: objectives, budgets and burn of jobs; `slo check` reads documents."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.slos.in_full import asked_words, in_full
from stepwatch.cli.source import add_source_arguments, ask, component
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import closest_hint, file_problem

EXAMPLE = "stepwatch slo llama-7b goodput; stepwatch slo check slos/ --site site.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "job", nargs="?", help="one job, and one of its SLOs; 'check' to check documents"
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="SLO|FILE",
        help="an SLO of the job; with check: documents, or folders of them",
    )
    parser.add_argument(
        "--site", type=Path, metavar="FILE", help="with check: the site file over one folder"
    )
    parser.add_argument(
        "--definitions", action="store_true", help="each SLI's definition and its limits"
    )
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print SLOs; exit 1 if a budget is spent, or a document is invalid."""
    if arguments.definitions:
        return _define(as_json=arguments.json)
    if arguments.job == "check":
        return _check(arguments.files, arguments.site, as_json=arguments.json)
    if arguments.job and arguments.files:
        return _in_full(arguments, str(arguments.files[0]))
    if arguments.job:
        return _show_job(arguments, f"/v1/jobs/{component(arguments.job, 'job')}")
    jobs = ask(arguments, "/v1/jobs")["jobs"]
    job_slos = [(job["job"], slo) for job in jobs for slo in job.get("slos") or []]
    if arguments.json:
        print(json.dumps([{"job": job, **slo} for job, slo in job_slos], indent=1))
    elif not job_slos:
        print("no job has an SLO that is evaluated")
    else:
        print(table(job_slos))
    return int(any(slo["state"] == "exhausted" for _, slo in job_slos))


def _show_job(arguments: argparse.Namespace, path: str) -> int:
    """Print a job's SLOs, and its SLIs over the run."""
    job, slis = ask(arguments, path), ask(arguments, f"{path}/slis")["slis"]
    slos = job.get("slos") or []
    if arguments.json:
        print(json.dumps({"job": job["job"], "slos": slos, "slis": slis}, indent=1))
    else:
        print(table([(job["job"], slo) for slo in slos]))
        width = text.columns() if sys.stdout.isatty() else None
        print(f"\n{sli_table(slis, width)}")
    return int(any(slo["state"] == "exhausted" for slo in slos))


def _in_full(arguments: argparse.Namespace, name: str) -> int:
    """Print one SLO of a job: window, budget, burn, losses by cause, and audit."""
    job = component(arguments.job, "job")
    document = ask(arguments, f"/v1/jobs/{job}/slos")
    slos = {slo["name"]: slo for slo in document["slos"]}
    if name not in slos:
        hint = closest_hint(name, slos) or "its class has none"
        raise UsageError(f"job {job} has no SLO {name[:63]!r}; {hint}")
    slo = slos[name]
    print(
        json.dumps({**document, "slos": [slo]}, indent=1)
        if arguments.json
        else in_full(document, slo, text.columns())
    )
    return int(slo["state"] == "exhausted")


def _value(slo: dict[str, Any]) -> str:
    if slo["limit"] is None:
        return text.share(slo["ratio"])
    return text.UNKNOWN if slo["ratio"] is None else f"{slo['ratio']:.4g}"


def sli_table(slis: list[dict[str, Any]], columns: int | None = None) -> str:
    """Return one line per SLI with its value, then the unknown ones with the reason.

    Lines end at `columns` if it is given.
    """
    rows = [
        [sli["name"], text.quantity(sli["value"], _UNITS.get(sli["unit"], "")), basis]
        for sli in slis
        if sli["value"] is not None
        for basis in [", ".join(filter(None, (_interval(sli), sli["detail"])))]
    ]
    unknown = [[sli["name"], sli["unknown"]] for sli in slis if sli["unknown"]]
    lines = text.table(["SLI", "value", "90 % interval, and of what"], rows, "", left_columns=3)
    if unknown:
        lines += "\n\n" + text.table(["not known", "why"], unknown, "", left_columns=2)
    return "\n".join(line[:columns] for line in lines.splitlines())


_UNITS = {unit: unit for unit in ("ratio", "seconds", "times", "tokens/s", "steps", "events")}
"""Units shown beside their value; the others are in the SLI's definition."""


def _interval(sli: dict[str, Any]) -> str:
    if sli["low"] is None or sli["high"] is None:
        return ""
    unit = _UNITS.get(sli["unit"], "")
    return " to ".join(text.quantity(sli[end], unit) for end in ("low", "high"))


def _define(*, as_json: bool) -> int:
    """Print the definition of each SLI."""
    from stepwatch.collector.slo.over_run.registry import definitions

    slis = definitions()
    if as_json:
        print(json.dumps(slis, indent=1))
        return 0
    fields = ("formula", "unit", "weight", "expected", "trap", "needs")
    for sli in slis:
        mission = f" ({sli['mission']})" if sli["mission"] else ""
        print(f"{sli['name']}{mission}: {sli['what']}")
        for field in fields:
            print(f"  {field + ':':10}{sli[field]}")
    return 0


def table(job_slos: list[tuple[str, dict[str, Any]]]) -> str:
    """Return one line per job and SLO."""
    rows = [
        [
            job,
            str(slo["name"]),
            slo["state"].replace("-", " "),
            _value(slo),
            slo["limit"] or text.share(slo["target"]),
            "" if slo["state"] == "too-early" else str(slo["budget"]),
            _burn(slo),
        ]
        for job, slo in job_slos
    ]
    head = ["job", "SLO", "state", "value", "target", "budget", "burn now"]
    return text.table(head, rows, "", left_columns=3)


def _burn(slo: dict[str, Any]) -> str:
    """Return the budget's burn rate; an SLO with a limit has none."""
    if slo["limit"] is not None:
        return "-"
    return text.UNKNOWN if slo["burn_rate"] is None else f"{slo['burn_rate']:.1f}x"


def _check(files: list[Path], site: Path | None, *, as_json: bool) -> int:
    """Check documents: print a line per problem, and the alerts that each document can raise."""
    from stepwatch.collector.detect.thresholds import read_thresholds
    from stepwatch.collector.slo.asked.burn import reachable
    from stepwatch.collector.slo.asked.openslo import parse_slo
    from stepwatch.collector.slo.asked.site import read_objectives
    from stepwatch.signals.errors import ConfigurationError

    if not files and site is None:
        raise UsageError("slo check needs a document; write stepwatch slo check FILE")
    if site is not None:
        if len(files) > 1 or (files and not files[0].is_dir()):
            raise UsageError("--site is checked over one folder; write stepwatch slo check DIR")
        try:
            read_objectives(files[0] if files else None, site)
            read_thresholds(site)
        except ConfigurationError as error:
            print(error, file=sys.stderr)
            return 1
    results, wrong = [], False
    for file in _documents(files):
        try:
            slo = parse_slo(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read: {file_problem(error)}") from error
        except ConfigurationError as error:
            print(error, file=sys.stderr)
            wrong = True
            continue
        pairs = reachable(slo)
        wrong |= not all(alert.can_fire for alert in pairs)
        results.append(
            {
                "file": str(file),
                "name": slo.name,
                "sli": slo.sli,
                "target": None if slo.limit else float(slo.target),
                "limit": slo.limit.words if slo.limit else None,
                "time_slices": slo.time_slices.words if slo.time_slices else None,
                "window": slo.window.words,
                "burn": [
                    {
                        "severity": alert.pair.severity,
                        "budget_share": float(alert.pair.budget_share),
                        "long_seconds": alert.pair.long_seconds,
                        "short_seconds": alert.pair.short_seconds,
                        "rate": float(alert.rate),
                        "ceiling": float(alert.ceiling),
                        "can_fire": alert.can_fire,
                    }
                    for alert in pairs
                ],
            }
        )
    print(json.dumps(results, indent=1) if as_json else "\n".join(map(checked, results)))
    return int(wrong)


def _documents(places: list[Path]) -> Iterator[Path]:
    """Yield the named documents, and all documents in the named folders."""
    for place in places:
        if place.is_dir():
            documents = sorted((*place.glob("*.yaml"), *place.glob("*.yml")))
            if not documents:
                raise UsageError(f"{place}: holds no *.yaml; write an SLO document there")
            yield from documents
        else:
            yield place


def checked(slo: dict[str, Any]) -> str:
    """Return a valid document's summary, and the conditions for its alerts."""
    if slo["limit"]:
        return f"{slo['file']}: {slo['name']}: {slo['sli']} {slo['limit']} over {slo['window']}"
    lines = [
        f"{slo['file']}: {slo['name']}: {slo['sli']}: {asked_words(slo)}, over {slo['window']}"
    ]
    if not slo["burn"]:
        lines.append(
            "  no alert on how fast the budget burns: its window is too short, or has no length"
        )
    for pair in slo["burn"]:
        bad = pair["rate"] / pair["ceiling"]
        asks = (
            f"  {pair['severity']}: {text.percent(pair['budget_share'])} of the budget in "
            f"{text.seconds(pair['long_seconds'])} is a burn rate of {pair['rate']:.2f}"
        )
        if pair["can_fire"]:
            lines.append(f"{asks}: from {text.percent(bad)} bad device-time on")
        else:
            lines.append(
                f"{asks}; with all of it bad it is {pair['ceiling']:.2f}, so this can never fire: "
                "choose a higher target, or a shorter window"
            )
    return "\n".join(lines)
