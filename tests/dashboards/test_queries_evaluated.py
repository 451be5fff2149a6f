"""The dashboards' queries, evaluated by Prometheus' own engine over known series."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepwatch.alerts.links import Links
from stepwatch.cli import artefacts
from stepwatch.cli.documents import queries as queries_of
from stepwatch.dashboards import annotations as marks
from stepwatch.dashboards import queries

PHASES = {"data": 1, "forward": 2, "backward": 4}
"""Seconds of each phase in every second, summed over ranks."""


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("promtool")
    assert tool, "promtool is missing; install it with: apt-get install prometheus"
    return subprocess.run([tool, *words], capture_output=True, text=True, timeout=60, check=False)


def concrete(query: str) -> str:
    """The query as Grafana sends it, for job `llama`."""
    return re.sub(r"\$__\w+", "1m", query).replace("$job", "llama")


def series() -> dict[str, str]:
    samples = {}
    # Two collectors that export the same job must not count it twice.
    for instance in ("one", "two"):
        job = f'{{job_name="llama",instance="{instance}"'
        for phase, pace in PHASES.items():
            name = f'stepwatch_phase_seconds_total{job},phase="{phase}"}}'
            samples[name] = f"0+{pace * 15}x40"
        samples[f"stepwatch_collective_exposed_seconds_total{job}}}"] = "0+30x40"
        samples[f"stepwatch_pipeline_wait_seconds_total{job}}}"] = "0+15x40"
        samples[f"stepwatch_job_tokens_total{job}}}"] = "0+15000x40"
        samples[f"stepwatch_job_peak_tokens_per_second{job}}}"] = "2500x40"
        collectives = f'stepwatch_job_collective_seconds{job},operation="all_reduce"'
        samples[f'{collectives},part="transfer"}}'] = "0.02x40"
        samples[f'{collectives},part="arrival-skew"}}'] = "0.05x40"
        samples[f'stepwatch_incident_open{job},kind="hang"}}'] = "1x40"
        samples[f'stepwatch_incident_open{job},kind="straggler"}}'] = "0x40"
        samples[f'stepwatch_incident_open{job},kind="non-finite"}}'] = "1x40"
        samples[f'stepwatch_slo_state{job},slo="goodput",state="healthy"}}'] = "0x40"
        samples[f'stepwatch_slo_state{job},slo="goodput",state="frozen"}}'] = "1x40"
        samples[f"stepwatch_job_step{job}}}"] = "30x40"
        samples[f'stepwatch_slo_budget_remaining_ratio{job},slo="step-time"}}'] = "-15x40"
        for bound, pace in (("1", 0), ("2", 15), ("+Inf", 15)):
            name = f'stepwatch_step_duration_seconds_bucket{job},le="{bound}"}}'
            samples[name] = f"0+{pace}x40"
    # A checkpoint holds 20 of the steps 0 to 25; for the finished job, all steps.
    for name, step, verified in (("saved", 25, 20), ("over", 59, 60)):
        samples[f'stepwatch_job_step{{job_name="{name}"}}'] = f"{step}x40"
        samples[f'stepwatch_checkpoint_verified_step{{job_name="{name}"}}'] = f"{verified}x40"
    samples['stepwatch_job_info{job_name="llama",attempt="0",job_class="trial",world_size="4"}'] = (
        "1x20 stale"
    )
    samples['stepwatch_job_info{job_name="llama",attempt="1",job_class="trial",world_size="4"}'] = (
        "_x18 1x22"
    )
    return samples


def evaluate(tmp_path: Path, query: str, expected: dict[str, float], eval_time: str = "5m") -> str:
    """Problems that promtool has with `expected`, a map of series to value; "" is none."""
    test: dict[str, Any] = {
        "interval": "15s",
        "input_series": [{"series": name, "values": text} for name, text in series().items()],
        "promql_expr_test": [
            {
                "expr": concrete(query),
                "eval_time": eval_time,
                "exp_samples": [{"labels": k, "value": v} for k, v in expected.items()],
            }
        ],
    }
    path = tmp_path / "queries.test.yaml"
    path.write_text(yaml.safe_dump({"evaluation_interval": "15s", "tests": [test]}))
    result = promtool("test", "rules", str(path))
    return "" if result.returncode == 0 else result.stdout + result.stderr


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            queries.PHASE_SHARE,
            {
                '{job_name="llama",phase="data"}': 0.1,
                '{job_name="llama",phase="forward"}': 0.2,
                '{job_name="llama",phase="backward"}': 0.4,
            },
        ),
        (queries.COLLECTIVE_SHARE, {'{job_name="llama"}': 0.2}),
        (queries.PIPELINE_SHARE, {'{job_name="llama"}': 0.1}),
        (queries.TOKENS, {'{job_name="llama"}': 1000}),
        (queries.MFU, {'{job_name="llama"}': 0.4}),
        (
            queries.COLLECTIVES_BY_OPERATION,
            {
                '{job_name="llama",operation="all_reduce",part="transfer"}': 0.02,
                '{job_name="llama",operation="all_reduce",part="arrival-skew"}': 0.05,
            },
        ),
        (queries.MFU.replace("$job", "saved"), {}),
        (queries.INCIDENT_COUNT, {'{job_name="llama"}': 2}),
        (queries.NUMBER_INCIDENTS, {'{job_name="llama",kind="non-finite"}': 1}),
        (queries.SLO_STATES, {'{job_name="llama",slo="goodput",state="frozen"}': 1}),
        (queries.step_quantile(0.5), {'{job_name="llama"}': 1.5}),
        # Without a verified checkpoint the cost of a restart is unknown, and not zero.
        (queries.STEPS_AT_RISK, {}),
        (queries.STEPS_AT_RISK.replace("$job", "saved"), {'{job_name="saved"}': 6}),
        (queries.STEPS_AT_RISK.replace("$job", "over"), {'{job_name="over"}': 0}),
        (queries.SLO_BUDGET_SPENT, {'{job_name="llama",slo="step-time"}': 16}),
        (queries.COVERAGE, {}),
        (marks.attempt_began(), {'{job_name="llama",attempt="1"}': 1}),
    ],
)
def test_a_query_gives_what_its_panel_describes(
    tmp_path: Path, query: str, expected: dict[str, float]
) -> None:
    assert evaluate(tmp_path, query, expected) == ""


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    assert "FAILED" in evaluate(tmp_path, queries.TOKENS, {'{job_name="llama"}': 2000})


def test_prometheus_accepts_every_query_of_the_dashboards(tmp_path: Path) -> None:
    pages = artefacts.build(Links("https://r", "https://g"), [artefacts.DASHBOARDS])
    exprs = [query.expr for page in pages for query in queries_of(page.text)]
    rules = [
        {"record": f"query_{number}", "expr": concrete(text)}
        for number, text in enumerate(exprs)
        if not text.startswith("label_values")
    ]
    assert len(rules) >= 90
    path = tmp_path / "all.rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    result = promtool("check", "rules", str(path))
    assert result.returncode == 0, result.stdout + result.stderr
