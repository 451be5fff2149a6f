"""Polls a job and writes what is new into a tracker's run, until the job ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stepwatch.cli.source import SourceError
from stepwatch.collector.job_states import ENDED

from .sample import notes_of, sample_of
from .target import Target, TargetError

POLLS_AFTER_END = 6
"""Maximum number of polls of an ended job whose incidents are still open."""
Ask = Callable[[str], Any]
"""Reads a path of the collector's API."""


class Written(NamedTuple):
    """The newest written step, and the headline of each written note by incident."""

    step: int
    headlines: Mapping[str, str]


def written_in(target: Target) -> Written:
    """Return what a run already has.

    Raises:
        TargetError: the tracker does not answer.
    """
    return Written(target.newest_step(), target.headlines())


class Progress(NamedTuple):
    """What is written after a poll; whether the job has ended, and whether an incident is open."""

    written: Written
    has_ended: bool
    is_open: bool


def advance(ask: Ask, job: str, target: Target, written: Written) -> Progress:
    """Write what is new.

    Raises:
        SourceError: the collector does not answer.
        TargetError: the tracker does not take it; what was taken is written once all the same.
    """
    document = ask(f"/v1/jobs/{job}")
    sample = sample_of(document, ask(f"/v1/jobs/{job}/slis"))
    if sample is not None and sample.step > written.step:
        target.write(sample)
        written = written._replace(step=sample.step)
    for note in notes_of(document):
        if written.headlines.get(note.incident) != note.headline:
            target.note(note)
            headlines = {**written.headlines, note.incident: note.headline}
            written = written._replace(headlines=headlines)
    return Progress(written, document["state"] in ENDED, bool(document["open_incidents"]))


def track(
    ask: Ask,
    job: str,
    target: Target,
    seconds: float,
    *,
    once: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write until the job has ended, or `once`; outages are reported once and outlasted.

    The incidents of an ended job mostly end in seconds; that of a damaged checkpoint may be open
    for a day.

    Raises:
        SourceError: the collector does not answer, with `once`.
        TargetError: the tracker does not answer, with `once` or at the start.
    """
    written, problem = written_in(target), ""
    polls_left = POLLS_AFTER_END
    while True:
        is_over = False
        try:
            written, has_ended, is_open = advance(ask, job, target, written)
            polls_left = polls_left - 1 if has_ended else POLLS_AFTER_END
            is_over = has_ended and not (is_open and polls_left)
            problem = ""
        except (SourceError, TargetError) as error:
            if once:
                raise
            if str(error) != problem:
                print(f"stepwatch: {error}; tracking continues", file=sys.stderr)
            problem = str(error)
            # Part of it may be written: the run says which.
            written = _after_outage(target, written)
        if once or is_over:
            return
        sleep(seconds)


def _after_outage(target: Target, written: Written) -> Written:
    try:
        return written_in(target)
    except TargetError:
        return written
