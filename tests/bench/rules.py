"""`stepwatch build all`, and the generated rules at 500 jobs, by Prometheus' own group timings.

A real Prometheus scrapes a collector's metrics for that many jobs and evaluates the built rules.
Where a job alerts, its texts query Prometheus for the slow rank and the class.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.alerts.families import budget
from stepwatch.signals import names
from tests.drill.chain.servers import DrillError, Servers, get_json, program
from tests.soak.processes import CLI, processor_seconds

from .objectives import export, many_objectives
from .result import Result

JOBS, FEW = 500, 10
BUDGET, BUILD_BUDGET = "50 ms", "3 s"
_ROUNDS, _WARM_SECONDS, _SAMPLES, _EVERY_SECONDS = 3, 30.0, 10, 5.0
_AGO_SECONDS = (90_000, 3600)
"""Ages of the history that rules read: before the last day, and before the last hour."""
_AROUND_SECONDS = 600
"""Seconds before and after each age that have samples."""
_LEAST_SHOWN = 3
"""Groups that always have a row; further ones have one if they miss the budget."""
_BUDGET_SECONDS = 0.05
_DURATION = "prometheus_rule_group_last_duration_seconds"


def measure() -> Iterator[Result]:
    """Measure the build; then one job, 500 jobs of which ten alert, and 500 that all alert."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [*CLI, "build", "all", "--out", str(folder)]
        build, processor = _best(words)
        bare, _ = _best([sys.executable, "-c", "pass"])
        imports, _ = _best([*CLI, "build", "--help"])
        yield Result(
            "stepwatch build all", f"{build:.2f} s", BUILD_BUDGET,
            f"{processor:.2f} CPU-s; its help alone {imports:.2f} s, an interpreter {bare:.2f} s; "
            f"best of {_ROUNDS}, load {os.getloadavg()[0]:.0f}",
        )  # fmt: skip
        for jobs, slow in ((1, 1), (JOBS, FEW), (JOBS, JOBS)):
            try:
                yield from _time_rules(folder, jobs, slow)
            except DrillError as error:
                yield Result(f"rules at {jobs} job(s)", "unknown", BUDGET, str(error))
                return


def _best(words: list[str]) -> tuple[float, float]:
    """Return a command's wall and processor seconds, the least of some rounds."""
    times = []
    for _ in range(_ROUNDS):
        began, used = time.perf_counter(), _processor_seconds()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - began, _processor_seconds() - used))
    return min(seconds for seconds, _ in times), min(seconds for _, seconds in times)


def _processor_seconds() -> float:
    """Return the processor seconds of ended commands."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _time_rules(folder: Path, jobs: int, slow: int) -> Iterator[Result]:
    """Yield the processor time of a round, and the slowest rule groups."""
    text = _multiply(export(2, many_objectives(), 1)[0], slow, jobs - slow) + _agents(jobs)
    series = sum(not line.startswith("#") for line in text.splitlines())
    place = folder / f"{jobs}-{slow}"
    place.mkdir()
    with _serve(text) as address:
        servers = Servers(place, {"collector": [address]})
        _remember(place, text, address)
        try:
            servers.start_prometheus()
            pid = servers.reload_prometheus()
            without = _processor_share(pid, _WARM_SECONDS)
            (place / "training.rules.yaml").write_text((folder / "training.rules.yaml").read_text())
            servers.reload_prometheus()
            time.sleep(_WARM_SECONDS)
            used_before = processor_seconds(pid)
            durations = _durations(servers.prometheus)
            spent = (processor_seconds(pid) - used_before) / _SAMPLES
            alerts = get_json(f"{servers.prometheus}/api/v1/alerts")["data"]["alerts"]
            groups = get_json(f"{servers.prometheus}/api/v1/rules")["data"]["groups"]
        finally:
            servers.close()
    yield Result(
        f"rules at {jobs} job(s), {slow} with an incident", f"{spent * 1000:.0f} CPU-ms a round",
        "", f"of Prometheus, every {_EVERY_SECONDS:.0f} s, scraping {series:,} series included; "
        f"without rules {without * _EVERY_SECONDS * 1000:.0f}; {len(alerts)} alerts",
    )  # fmt: skip
    means = {group: statistics.mean(durations[group]) for group in durations}
    ordered = sorted(durations, key=lambda group: -means[group])
    shown = max(_LEAST_SHOWN, sum(mean > _BUDGET_SECONDS for mean in means.values()))
    for group in ordered[:shown]:
        seconds = durations[group]
        rules = next(
            group_document["rules"] for group_document in groups if group_document["name"] == group
        )
        yield Result(
            f"  {group}", f"{means[group] * 1000:.1f} ms", BUDGET,
            f"mean of {_SAMPLES}, {min(seconds) * 1000:.1f} to {max(seconds) * 1000:.1f}; "
            f"{_slowest(rules)}",
        )  # fmt: skip
    hidden = ordered[shown:]
    if hidden:
        yield Result(
            f"  {len(hidden)} further groups", f"up to {means[hidden[0]] * 1000:.1f} ms", BUDGET,
            f"slowest evaluation {max(max(durations[group]) for group in hidden) * 1000:.1f}; "
            f"load {os.getloadavg()[0]:.0f}",
        )  # fmt: skip
    least = sum(min(seconds) for seconds in durations.values())
    over = [group for group in durations if min(durations[group]) > _BUDGET_SECONDS]
    yield Result(
        "  least of each group, together", f"{least * 1000:.0f} ms", "",
        f"what other processes add to it least; over the budget: {', '.join(over) or 'none'}",
    )  # fmt: skip


def _multiply(text: str, slow: int, healthy: int) -> str:
    """Repeat the first job's series `slow` times, and the second job's `healthy` times."""
    first, second = range(slow), range(slow, slow + healthy)
    lines: list[str] = []
    for line in text.splitlines():
        numbers = first if _name(0) in line else second if _name(1) in line else None
        lines += [line] if numbers is None else [
            line.replace(_name(0 if numbers is first else 1), _name(number)) for number in numbers
        ]  # fmt: skip
    return "\n".join([*lines, ""])


def _agents(jobs: int) -> str:
    """Return the agent metrics that rules read, with one node per job."""
    values = {names.NODE_RANKS: 8, names.NODE_RANK_STEP_MIN: 812, names.NODE_RANK_NON_FINITE: 0}
    return "".join(
        f'{metric.name}{{{names.NODE}="gpu-{number}",{_name(number)}}} {value}\n'
        for metric, value in values.items()
        for number in range(jobs)
    )


def _name(number: int) -> str:
    return f'job_name="job-{number}"'


def _remember(place: Path, text: str, address: str) -> None:
    """Write the samples of an hour and a day ago that rules read, as Prometheus' initial data."""
    scraped = f',instance="{address}",job="collector"}}'
    total, goodput = f"{names.SLI_TOTAL.name}{{", f'{names.SLI}="goodput"'
    with open(place / "history.om", "w") as file:
        for recorded in (False, True):
            name = budget.WASTED_SO_FAR.name if recorded else names.SLI_TOTAL.name
            file.write(f"# TYPE {name} gauge\n")
            for line in text.splitlines():
                if line.startswith(total) and goodput in line:
                    labels, _, value = line.removeprefix(total).rpartition(" ")
                    job = next(label for label in labels.split(",") if label.startswith(names.JOB))
                    labels = f"{{{job.rstrip('}')}}}" if recorded else "{" + labels[:-1] + scraped
                    file.writelines(_samples(f"{name}{labels}", float(value)))
        file.write("# EOF\n")
    words = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics"]
    words += [str(place / "history.om"), str(place / "prometheus")]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def _samples(series: str, value: float) -> Iterator[str]:
    """Yield the lines of a series with a tenth of its value before the last day, and most of it an
    hour ago."""
    now = round(time.time())
    for share, ago in zip((0.1, 0.9), _AGO_SECONDS, strict=True):
        for time_s in range(now - ago - _AROUND_SECONDS, now - ago + _AROUND_SECONDS, 60):
            yield f"{series} {share * value} {time_s}\n"


def _processor_share(pid: int, seconds: float) -> float:
    """Return the share of a core that a process uses over `seconds`."""
    used_before = processor_seconds(pid)
    time.sleep(seconds)
    return (processor_seconds(pid) - used_before) / seconds


def _durations(prometheus: str) -> dict[str, list[float]]:
    """Return the evaluation seconds of each group, by name."""
    durations: dict[str, list[float]] = {}
    for _ in range(_SAMPLES):
        time.sleep(_EVERY_SECONDS)
        text = httpx.get(f"{prometheus}/metrics", timeout=20.0).raise_for_status().text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == _DURATION:
                    group = sample.labels["rule_group"].rpartition(";")[2]
                    durations.setdefault(group, []).append(sample.value)
    return durations


def _slowest(rules: list[dict[str, Any]]) -> str:
    """Describe the three slowest rules of the newest evaluation."""
    ordered = sorted(rules, key=lambda rule: -rule["evaluationTime"])[:3]
    shown = (
        f"{rule['name']} ({rule.get('labels', {}).get('severity', 'recorded')}) "
        f"{rule['evaluationTime'] * 1000:.1f}"
        for rule in ordered
    )
    return "ms: " + ", ".join(shown)


@contextmanager
def _serve(text: str) -> Iterator[str]:
    """Serve a text as the answer to every request; yield the address."""
    body = text.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        log_message: Callable[..., None] = lambda *_: None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
