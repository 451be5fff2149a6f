"""One job's status in words: state, pace, losses, checkpoints, cost, and ranks. Pure."""

from __future__ import annotations

import time
from typing import Any

from stepwatch.cli import text
from stepwatch.cli.fleet import last_seen, stale_text, withheld_text
from stepwatch.cli.response.incident_text import headline
from stepwatch.cli.slos.words import slo_line
from stepwatch.collector.step_clocks import HOST

_STAGES_SHOWN = 16
_LEAST_GAIN = 0.005
"""A smaller gain is shown as 0 %."""


def job_text(job: dict[str, Any], source: str | None, width: int) -> str:
    """Return one job in `width` columns: pace, ranks, checkpoints, SLOs and incidents."""
    if job["reason"]:
        return text.wrapped(withheld_text(job), "", width, hang=2)
    age = last_seen(job["newest_record_at"], time.time())
    lines = [
        f"{job['job']}: {text.painted(job['state'])}, attempt {job['attempt']}, "
        f"step {text.count(job['step'])}, last seen {age}",
        "",
    ]
    lines += [text.entry(name, value, 12, width) for name, value in pace_lines(job)]
    resumed = [item for item in job.get("attempts", []) if item.get("resume")][-1:]
    lines += [text.entry("resume", resume_words(item), 12, width) for item in resumed]
    lines += [
        text.entry("replicas", averaging_words(item), 12, width)
        for item in job.get("averaging", [])
    ]
    if job.get("stale"):
        lines.insert(1, text.wrapped(stale_text(job), "", width, hang=2))
    if job.get("shared_name"):
        lines.insert(1, text.wrapped(shared_name_words(job["shared_name"]), "", width, hang=2))
    unread = [text.wrapped(unread_words(part), "", width, hang=2) for part in job.get("unread", [])]
    lines[1:1] = unread
    lines += [
        text.entry(link["tracker"], link["url"] or link["run"], 12, width) for link in job["links"]
    ]
    lines += ["", rank_table(job["ranks"])]
    lines += ["", *(text.entry(name, value, 12, width) for name, value in breakdown_lines(job))]
    shown = [item for item in job["incidents"] if item["state"] == "open"] or job["incidents"][-3:]
    for incident in shown:
        lines += ["", headline(incident, source, width)]
    return "\n".join(lines)


def shared_name_words(shared: dict[str, Any]) -> str:
    """Return the warning that two runs report under one name, and the remedy."""
    return (
        f"two runs report under this name: rank {shared['rank']} runs on "
        f"{' and on '.join(shared['nodes'])} at once ({shared['ranks']} such ranks); "
        "start one of them with another --job"
    )


def resume_words(attempt: dict[str, Any]) -> str:
    """Return where an attempt resumed, and what continued: loss, learning rate, data order."""
    resume = attempt["resume"]
    place = f", {resume['path']}" if resume["path"] else ""
    losses = f"{text.number(resume['loss_before'])} -> {text.number(resume['loss_after'])}"
    return (
        f"attempt {attempt['attempt']} from step {resume['step']}{place}: loss {losses}, "
        f"{_CONTINUED[resume['loss_continued']]}; learning rate "
        f"{_CONTINUED[resume['learning_rate_continued']]}; data order {resume['data_order']}"
    )


_CONTINUED = {True: "continued", False: "not continued", None: "unknown if it continued"}


def averaging_words(averaging: dict[str, Any]) -> str:
    """Return how often replicas that train apart average their parameters."""
    period = averaging["period_steps"]
    often = "now and then" if period is None else f"every {period} steps"
    return (
        f"ranks {averaging['ranks']} train apart and average their parameters {often}, last seen "
        f"in step {averaging['newest_step']}"
    )


def unread_words(part: dict[str, Any]) -> str:
    """Return the unreadable part of a job's log, and its consequence."""
    return (
        f"segments {part['first']} to {part['last']} of its log could not be read "
        f"({part['segments']}, {text.clock(part['from_s'])} to {text.clock(part['until_s'])}): "
        "their steps are missing; stepwatch store verify shows the reason"
    )


def pace_lines(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) pairs for loss, speed, step time, checkpoints and SLOs."""
    quantiles = job["step_seconds"]
    quantile_words = [f"{key} {text.seconds(quantiles[key])}" for key in quantiles]
    lines = [
        ("loss", _loss(job)),
        ("tokens/s", text.number(job["tokens_per_second"], 0)),
        ("step time", ", ".join([*quantile_words, _clock_words(job)])),
        ("checkpoints", checkpoint_line(job["checkpoints"])),
    ]
    lines += [("SLO", slo_line(slo)) for slo in job["slos"]]
    lines.append(("device-time", device_time_line(job.get("device_seconds") or {})))
    cost = job.get("cost")
    return [*lines, ("cost", cost_line(cost))] if cost is not None else lines


def _loss(job: dict[str, Any]) -> str:
    if job["loss_first"] is None:
        return text.UNKNOWN
    return f"{text.number(job['loss_first'])} -> {text.number(job['loss_last'])}"


def _clock_words(job: dict[str, Any]) -> str:
    """Return the step times' clock, and its number of steps if the other clock timed some."""
    clock, on = job["step_seconds_clock"], job["steps_on"]
    if all(on.values()):
        return f"timed on the {clock} in {on[clock]} of {sum(on.values())} steps"
    return f"timed on the {clock}"


def checkpoint_line(checkpoints: list[dict[str, Any]]) -> str:
    """Return the number of verified checkpoints, the newest of them, and the longest stall."""
    if not checkpoints:
        return "none yet"
    stalls = [item["stall_seconds"] for item in checkpoints if item["stall_seconds"] is not None]
    longest = f"longest stall {text.seconds(max(stalls, default=None))}"
    good = [
        item["step"]
        for item in checkpoints
        if item["verified"] is True and not item.get("is_removed")
    ]
    if all(item["verified"] is None for item in checkpoints):
        return f"{len(checkpoints)} saved, none verified: unknown if one can be read, {longest}"
    newest = f"newest at step {max(good)}" if good else "no verified one yet"
    return f"{len(good)} of {len(checkpoints)} verified, {newest}, {longest}"


def device_time_line(seconds: dict[str, float]) -> str:
    """Return device-time by cause: shares from one percent up, the largest first."""
    allocated = sum(seconds.values())
    if not allocated:
        return text.UNKNOWN
    shares = sorted(((spent / allocated, cause) for cause, spent in seconds.items()), reverse=True)
    return ", ".join(f"{cause} {share:.0%}" for share, cause in shares if share >= 0.01)


def cost_line(cost: dict[str, Any]) -> str:
    """Return the cost so far, and per tokens; days without a rate make it unknown."""
    if cost["without_rate"]:
        return f"{text.UNKNOWN}: the rate card has no rate for some days"
    words = text.money(cost["money"], cost["currency"])
    if not cost["tokens"]:
        return words
    per_million = text.money(cost["money"] / cost["tokens"] * 1e6, cost["currency"])
    return f"{words}, {per_million} per million tokens"


def breakdown_lines(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) pairs for the step-time breakdown, pipeline, bubble and what-if."""
    breakdown, stages = job["step_time_breakdown"], job["pipeline"]
    lines = [
        ("timed on", timing_words(job["timing"])),
        ("newest", text.UNKNOWN if breakdown is None else _parts(breakdown["ratio"])),
    ]
    if stages is not None and stages["limiting_stage"] is not None:
        lines.append(
            (
                "pipeline",
                f"stage {stages['limiting_stage']} limits in "
                f"{text.percent(stages['limiting_ratio'])} of the steps, "
                f"{stages['imbalance_ratio']:.2f}x the self time of the mean stage",
            )
        )
        measured, ideal = stages["bubble_ratio"], stages["ideal_bubble_ratio"]
        lines.append(
            (
                "bubble",
                f"{text.percent(measured)} of the pipeline's time, the schedule's ideal is "
                f"{text.percent(ideal)}",
            )
        )
    if stages is not None:
        lines.append(("stages idle", _idle(job["microbatches"])))
    return [*lines, *(("what if", words) for words in what_if_lines(job["what_if"]))]


def what_if_lines(scenarios: list[dict[str, Any]]) -> list[str]:
    """Return each scenario's gain; one line replaces them if no gain is significant."""
    lines = [
        f"{item['scenario']}: {text.gain(item['faster_ratio'])}"
        for item in scenarios
        if item["faster_ratio"] is None or item["faster_ratio"] >= _LEAST_GAIN
    ]
    return lines or (["no gain beyond the run's own jitter"] if scenarios else [])


def timing_words(timing: dict[str, Any]) -> str:
    """Return the newest steps' clock, and why it is the host's, or how busy the devices are."""

    if timing["clock"] == HOST:
        reason = f": {timing['reason']}" if timing["reason"] else ""
        return f"the host{reason}"
    kinds = f" ({', '.join(timing['devices'])})" if timing["devices"] else ""
    bound = ": launch-bound" if timing["launch_bound"] else ""
    return (
        f"the device{kinds}; it waits for its host up to {text.percent(timing['idle_ratio'])} of "
        f"the step{bound}; the host is {text.seconds(timing['host_lead_seconds'])} ahead"
    )


def _idle(sample: dict[str, Any] | None) -> str:
    """Return each stage's idle share in the newest sampled step, and the longest idle gap."""
    if sample is None:
        return f"{text.UNKNOWN}: no step has been sampled yet"
    shares = ", ".join(
        f"stage {stage['stage']} {text.percent(stage['bubble_ratio'])}"
        for stage in sample["stages"][:_STAGES_SHOWN]
    )
    waits = [
        (chunk["idle_before_seconds"], stage["stage"], chunk)
        for stage in sample["stages"]
        for chunk in stage["chunks"]
    ]
    seconds, number, chunk = max(waits, key=lambda wait: wait[0])
    return (
        f"in step {sample['step']}: {shares}; longest {text.seconds(seconds)}, stage {number} "
        f"before {chunk['work']} of microbatch {chunk['microbatch']}"
    )


def _parts(ratios: dict[str, float | None]) -> str:
    """Return the parts of the step, the largest first, without parts below one percent."""
    shares = [
        (ratio, name) for name, ratio in ratios.items() if ratio is not None and ratio >= 0.01
    ]
    parts = (
        f"{name.replace('_', ' ')} {ratio:.0%}" for ratio, name in sorted(shares, reverse=True)
    )
    return ", ".join(parts) or text.UNKNOWN


_PHASES = (
    ("data", "data"),
    ("forward", "fwd"),
    ("backward", "bwd"),
    ("optimizer", "optim"),
    ("checkpoint", "ckpt"),
    ("eval", "eval"),
    ("other", "other"),
)
"""Phases and their column heads; evaluation has a column only if there was one."""


def rank_table(ranks: list[dict[str, Any]]) -> str:
    """Return each rank's time by phase, in percent of the steps."""
    phases = dict(_PHASES)
    if not any(rank["phase_share"].get("eval") for rank in ranks):
        del phases["eval"]
    on_device = any(rank.get("device_idle_share") is not None for rank in ranks)
    rows = [
        [
            str(rank["rank"]),
            rank["node"] or text.UNKNOWN,
            text.UNKNOWN if rank["stage"] is None else str(rank["stage"]),
            *(text.percent(rank["phase_share"][phase]) for phase in phases),
            text.percent(rank["collective_wait_share"]),
            text.percent(rank["pipeline_wait_share"]),
            *([text.percent(rank.get("device_idle_share"))] if on_device else ()),
        ]
        for rank in ranks[:64]
    ]
    head = ["rank", "node", "stage", *phases.values(), "coll.wait", "pipe.wait"]
    return text.table([*head, *(["dev.idle"] if on_device else ())], rows)
