"""Starting the ranks: `stepwatch train` runs torchrun, or is itself one rank under it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from stepwatch.faults import parse_fault
from stepwatch.faults.injector import SEPARATOR
from stepwatch.signals import places
from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.trainer.config.configure import as_flags, as_table
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.validation import refuse, refuse_faults, warnings_for
from stepwatch.trainer.data.shards import prepare_shards

PREEMPTED = 75
"""Exit code after a grace checkpoint: EX_TEMPFAIL of sysexits(3), try again later."""
RENDEZVOUS = "last_call_timeout=10,keep_alive_interval=2,keep_alive_max_attempt=3"
"""Seconds to wait for more nodes once enough are there, and to notice a lost one (6). torch's own
30 and 15 made a job of two nodes that lost one stand still for 43 s; these, for 20."""
MARK_NAME = "preempted"
"""Written beside the history by the leading rank when it stopped because it was asked to."""
SHARDS_DIRECTORY = "data"


def torchrun_command(options: Options) -> list[str]:
    """Command that starts all ranks of this node.

    Raises:
        UsageError: the nodes cannot share the mesh equally, or have no rendezvous.
    """
    run, world = options.run, options.parallel.mesh.world
    low, _, high = run.nodes.partition(":")
    if not (low.isdecimal() and (high or low).isdecimal() and 1 <= int(low) <= int(high or low)):
        raise UsageError(f"--nodes {run.nodes!r}: write a number, or min:max")
    if world % int(high or low):
        raise UsageError(f"{world} ranks of the mesh cannot be divided over {high or low} nodes")
    words = [sys.executable, "-m", "torch.distributed.run", f"--max-restarts={run.restarts}"]
    words.append(f"--nproc-per-node={world // int(high or low)}")
    if run.nodes == "1":
        return [*words, "--standalone", "-m", "stepwatch.trainer"]
    if not run.rendezvous:
        raise UsageError(
            f"--nodes {run.nodes} needs --rendezvous HOST:PORT, the same on every node"
        )
    words += [f"--nnodes={run.nodes}", "--rdzv-backend=c10d", f"--rdzv-endpoint={run.rendezvous}"]
    words += [f"--rdzv-id={run.job}", f"--rdzv-conf={RENDEZVOUS}"]
    return [*words, "-m", "stepwatch.trainer"]


@contextmanager
def run_directory(given: str) -> Iterator[Path]:
    """Yield the run's directory: the given one, or a temporary one that is removed afterwards.

    Raises:
        ConfigurationError: it cannot be written.
    """
    try:
        if not given:
            temporary = Path(tempfile.mkdtemp(prefix="stepwatch-train-"))
            try:
                yield temporary
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            return
        path = Path(given).absolute()
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise ConfigurationError(f"cannot write to {path}: choose another --run-dir")
    except OSError as error:
        raise ConfigurationError(
            f"cannot use {given or tempfile.gettempdir()} as run directory: {error.strerror}"
        ) from error
    yield path


def require_place_for(result: str) -> None:
    """Check that the result can be written before anything is started.

    Raises:
        ConfigurationError: its directory is missing or cannot be written.
    """
    parent = Path(result).absolute().parent
    if result and not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise ConfigurationError(f"cannot write to {parent}: choose another --json")


def rank_environment(faults: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Environment of the ranks: one thread each unless the user says otherwise, and the faults.

    Raises:
        UsageError: a fault cannot be read.
    """
    for fault in faults:
        parse_fault(fault)
    changed = {"OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS", "1")}
    # A store shared over restarts gives new ranks the addresses of dead ones:
    # https://github.com/pytorch/pytorch/issues/135712
    changed["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    if faults:
        changed[places.ENV_FAULTS] = SEPARATOR.join(faults)
    return {**environment, **changed}


def _supervise(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run torchrun, pass signals on to it, and wait until it and all its ranks are gone."""
    process = subprocess.Popen(command, env=dict(environment), start_new_session=True)
    previous = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        previous[number] = signal.signal(number, lambda *_: process.send_signal(signal.SIGTERM))
    try:
        return process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def launch(options: Options, faults: Sequence[str]) -> int:
    """Check, prepare the data, start the ranks and return the exit code.

    Raises:
        StepwatchError: the run cannot be made; nothing was started.
    """
    refuse(options)
    refuse_faults(options, filter(None, map(parse_fault, faults)))
    command = torchrun_command(options)
    environment = rank_environment(faults, os.environ)
    require_place_for(options.run.json)
    for warning in warnings_for(options):
        print(f"warning: {warning}", file=sys.stderr)
    with run_directory(options.run.run_dir) as run_dir:
        data = options.data
        prepare_shards(run_dir / SHARDS_DIRECTORY, data.data or None, data.data_bytes)
        json_path = str(Path(options.run.json).absolute()) if options.run.json else ""
        run = replace(options.run, run_dir=str(run_dir), json=json_path)
        resolved = replace(options, run=run)
        print(f"configuration: {json.dumps(as_table(resolved))}", file=sys.stderr, flush=True)
        mark = run_dir / MARK_NAME
        mark.unlink(missing_ok=True)
        code = _supervise([*command, *as_flags(resolved)], environment)
        if mark.exists():
            return PREEMPTED
    return 1 if code else 0


def under_torchrun(environment: Mapping[str, str]) -> bool:
    """Whether torchrun already numbered this process."""
    return "TORCHELASTIC_RUN_ID" in environment
