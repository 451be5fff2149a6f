"""`stepwatch run`: any training command, with hooks and without code changes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepwatch.cli.jobs.job_names import job_name
from stepwatch.hooks.auto import SITE_DIR, TOP
from stepwatch.hooks.identity import is_disabled, is_quiet
from stepwatch.hooks.opening.mesh import read_mesh
from stepwatch.signals import places, presence
from stepwatch.signals.errors import UsageError

EXAMPLE = "stepwatch run --job llama-7b -- torchrun --nproc-per-node 4 train.py --epochs 3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--job", help="name of the job [STEPWATCH_JOB, or the script's name]")
    parser.add_argument("--job-class", help="class of the job [STEPWATCH_JOB_CLASS]")
    parser.add_argument(
        "--mesh",
        metavar="pp=2,dp=4",
        help="axes that divide the ranks, the slowest first [STEPWATCH_MESH; stages are found "
        "without it where they exchange tensors]",
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- CMD", help="the command and its arguments"
    )


def run(arguments: argparse.Namespace) -> int:
    """Replace this process with the command, which has its own exit code and signals.

    Raises:
        UsageError: there is no command, or it cannot be started.
    """
    command = arguments.command[arguments.command[:1] == ["--"] :]
    if not command:
        raise UsageError(f"no command; for example: {EXAMPLE}")
    options = Options(arguments.job, arguments.job_class, arguments.mesh)
    environment = hooked(os.environ, command, options)
    page = page_line(environment)
    if page:
        print(page, file=sys.stderr, flush=True)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from error


def page_line(environ: Mapping[str, str]) -> str:
    """Return the job's page if an agent runs on this node.

    Hooks print it again, with more, after the command has imported torch. The line is empty if
    stepwatch is disabled or quiet.
    """
    agent = presence.read_near(places.ring_dir())
    lives = agent is not None and agent.is_fresh(time.monotonic_ns())
    if agent is None or not lives or is_disabled(environ) or is_quiet(environ):
        return ""
    job = environ[places.ENV_JOB]
    return f"stepwatch: job {job}; page: {agent.page_of(job)}"


class Options(NamedTuple):
    """The user's settings for the job; None: the environment's."""

    job: str | None = None
    job_class: str | None = None
    mesh: str | None = None


def hooked(environ: Mapping[str, str], command: Sequence[str], options: Options) -> dict[str, str]:
    """Return the environment that loads the hooks into `command`; unchanged if they are disabled.

    Raises:
        ConfigurationError: a name cannot be a path, or the mesh is invalid.
    """
    environment = dict(environ)
    if is_disabled(environ):
        return environment
    job, job_class, mesh = options
    name = job or environ.get(places.ENV_JOB) or job_name(command)
    environment[places.ENV_JOB] = places.checked_name(name, "job name")
    if job_class:
        environment[places.ENV_JOB_CLASS] = places.checked_name(job_class, "job class")
    mesh = mesh or environ.get(places.ENV_MESH)
    if mesh:
        read_mesh(mesh)
        environment[places.ENV_MESH] = mesh
    paths = [str(SITE_DIR), environ.get("PYTHONPATH", "")]
    environment[TOP] = f"{os.getpid()}:{time.time_ns()}"
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return environment
