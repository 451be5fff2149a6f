"""Entry point of the `stepwatch` command.

Exit codes: 0 ok, 1 found a problem, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import textwrap
from collections.abc import Sequence
from typing import Protocol

from stepwatch import signals
from stepwatch.cli.terminal import OutputError, guarded
from stepwatch.signals.arguments import Parser
from stepwatch.signals.errors import StepwatchError, UsageError
from stepwatch.signals.phrases import closest_hint

VERBS: dict[str, str] = {
    "demo": "one machine, everything, one injected fault, a verdict",
    "up": "agent, collector and page on this machine, until Ctrl-C",
    "train": "the reference trainer",
    "run": "any training command, with hooks but no change of code",
    "agent": "read this node's rings and send their records to the collector",
    "collector": "receive segments, evaluate jobs, show them",
    "store": "a collector's database: its size, prune, verify, backup and restore",
    "status": "jobs, their progress and SLOs",
    "diagnose": "one job on one screen: verdict, evidence, impact, what to do first",
    "postmortem": "an incident as Markdown: timeline, cause, cost, action items",
    "incidents": "a job's anomalies, with cause and evidence",
    "silence": "hold pages about a job, node or kind for a while",
    "nodes": "nodes: health, faults with actions, history, repeat offenders",
    "runbook": "what to do about it, with the commands filled in",
    "checklist": "what to look at before a job, at an incident, each week; checked where it can be",
    "slo": "objectives, budgets and burn of jobs; checks SLO documents",
    "thresholds": "the detectors' thresholds: value, unit, reason, and a site's changes",
    "checkpoints": "a job's checkpoints: verified or damaged, and what a resume would lose",
    "metrics": "numbers that a job's trainer recorded: newest values and curves",
    "track": "a job's pace, SLIs and incidents in its run in TensorBoard, MLflow or W&B",
    "profile": "why is a rank slower than its peer? both profiled at the same steps, compared",
    "report": "device-time over days, by cause, job and money",
    "compare": "two runs: the faster or cheaper one, and the changes between them",
    "simulate": "a training fleet from one process, for rehearsal and load tests",
    "doctor": "may a job start on this node? hardware, kernel, disks, network, limits",
    "blackbox": "read rings after a crash",
    "checkpoint": "is a checkpoint whole, and safe to load? every layout, no pickle loaded",
    "build": "write dashboards, alert rules and routes from the shared names",
    "check": "fail when a metric, alert, runbook or generated file does not fit the others",
    "completion": "a script with which bash or zsh completes verbs, options and files",
}
"""Verb and one-line description; the module `verbs.<verb>` implements it."""

EXTRAS: dict[str, str] = {
    "demo": "trainer,agent,collector",
    "up": "agent,collector",
    "train": "trainer",
    "agent": "agent",
    "collector": "collector",
    "store": "collector",
    "status": "collector",
    "diagnose": "collector",
    "postmortem": "collector",
    "incidents": "collector",
    "silence": "collector",
    "nodes": "collector",
    "runbook": "collector",
    "checklist": "collector",
    "slo": "collector",
    "thresholds": "collector",
    "checkpoints": "collector",
    "metrics": "collector",
    "track": "collector",
    "profile": "agent,collector",
    "report": "collector",
    "compare": "collector",
    "simulate": "agent,collector",
    "doctor": "agent",
    "blackbox": "collector",
    "build": "build",
    "check": "build",
    "completion": "completion",
}
"""The smallest extra with a verb's full function; a verb without an entry needs the base."""

OK, PROBLEM, USAGE, INTERRUPTED = 0, 1, 2, 130


class Verb(Protocol):
    """Interface of a verb module."""

    @property
    def EXAMPLE(self) -> str:
        """A valid command line."""
        ...

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's options."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the verb and return the exit code."""
        ...


def load_verb(name: str) -> Verb:
    """Import a verb's module."""
    module: Verb = importlib.import_module(f"stepwatch.cli.verbs.{name}")
    return module


def overview() -> str:
    """Return the text for `stepwatch --help`."""
    lines = [wrapped(text, f"  {name:<11} ", 14) for name, text in VERBS.items()]
    return "\n".join(
        [
            "usage: stepwatch VERB [options]",
            "",
            "Observability and SRE companion for distributed training.",
            "",
            *lines,
            "",
            "example: stepwatch demo --fault slow-compute:rank=2,step=20",
            "`stepwatch help VERB` shows its options and an example, --version the version.",
        ]
    )


def wrapped(words: str, head: str, column: int) -> str:
    """Return `words` after a head, wrapped so that a terminal with 80 columns shows them whole."""
    return textwrap.fill(words, 79, initial_indent=head, subsequent_indent=" " * column)


def dispatch(words: Sequence[str]) -> int:
    """Run one verb.

    Raises:
        UsageError: there is no such verb or option.
    """
    if words and words[0] in ("-V", "--version"):
        from stepwatch.hooks.core import CORE  # no other verb needs the hooks for it

        print(f"stepwatch {signals.__version__}, hooks on the {CORE} core")
        return OK
    if words[:1] == ["help"] and words[1:2] and not words[1].startswith("-"):
        return dispatch([words[1], "--help"])
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return OK if words else USAGE
    name = words[0]
    if name not in VERBS:
        hint = (
            closest_hint(name, ["help", *VERBS], list_known=False)
            or "`stepwatch --help` lists them"
        )
        raise UsageError(f"no verb {name!r}; {hint}")
    verb = load_verb(name)
    parser = Parser(
        prog=f"stepwatch {name}",
        description=textwrap.fill(VERBS[name], 79),
        epilog=f"example: {verb.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verb.add_arguments(parser)
    return verb.run(parser.parse_args(words[1:]))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line `words`, by default this process's, and return the exit code."""
    with guarded(for_good=words is None):
        try:
            return _written(_outcome(sys.argv[1:] if words is None else words))
        except SystemExit:  # argparse exits after --help
            if _written(OK) != OK:
                sys.exit(PROBLEM)
            raise


def _written(code: int) -> int:
    """Return `code` after flushing all output; at the interpreter's exit an error is code 120."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return code
    except OutputError as error:
        print(f"stepwatch: {error}", file=sys.stderr)
        return PROBLEM
    return code


def _outcome(words: Sequence[str]) -> int:
    try:
        return dispatch(words)
    except UsageError as error:
        print(f"stepwatch: {error}", file=sys.stderr)
        return USAGE
    except StepwatchError as error:
        print(f"stepwatch: {error}", file=sys.stderr)
        return PROBLEM
    except BrokenPipeError:  # `| head` closes the pipe when it has enough lines
        return OK
    except KeyboardInterrupt:
        print("stepwatch: interrupted", file=sys.stderr)
        return INTERRUPTED
    except ModuleNotFoundError as error:
        print(f"stepwatch: {_cure(words[0], error)}", file=sys.stderr)
        return PROBLEM


def _cure(verb: str, error: ModuleNotFoundError) -> str:
    """Return the install hint for a verb with a missing package."""
    extra = f"[{EXTRAS[verb]}]" if verb in EXTRAS else ""
    return f"{verb} needs the package {error.name!r}: pip install 'stepwatch{extra}'"
