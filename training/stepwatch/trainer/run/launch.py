"""Starts the ranks of this node: `stepwatch train` runs torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stepwatch.faults import parse_fault
from stepwatch.faults.injector import SEPARATOR
from stepwatch.signals import places
from stepwatch.signals.errors import UsageError
from stepwatch.trainer.config.configure import as_flags, as_table
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.validation import validate, validate_faults, warnings_for
from stepwatch.trainer.data.shards import prepare_shards

from .directory import (
    PREEMPTED_MARKER,
    SHARDS_DIRECTORY,
    launcher_directory,
    require_writable_parent,
)
from .preemption import EXIT_PREEMPTED

RENDEZVOUS = "last_call_timeout=10,keep_alive_interval=2,keep_alive_max_attempt=3"
"""Seconds to wait for more nodes once enough have joined, and to detect a lost one (6). A two-node
job that loses a node makes no progress for 20 s; with torch's defaults of 30 and 15, for 43 s.
"""


def torchrun_command(options: Options) -> list[str]:
    """Return the command that starts all ranks of this node.

    Raises:
        UsageError: the mesh cannot be divided equally over the nodes, or they have no rendezvous.
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


def rank_environment(faults: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the ranks' environment, with one thread each by default and the faults.

    Raises:
        UsageError: a fault is not valid.
    """
    for fault in faults:
        parse_fault(fault)
    changed = {"OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS", "1")}
    # A store shared over restarts gives new ranks the dead ranks' addresses:
    # https://github.com/pytorch/pytorch/issues/135712
    changed["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    if faults:
        changed[places.ENV_FAULTS] = SEPARATOR.join(faults)
    return {**environment, **changed}


def _supervise(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run torchrun, forward signals to it, and wait until it and all its ranks have ended."""
    process = subprocess.Popen(command, env=dict(environment), start_new_session=True)
    previous = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        previous[number] = signal.signal(number, lambda *_: process.send_signal(signal.SIGTERM))
    try:
        return process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _resolved(options: Options, run_dir: Path) -> Options:
    """Return the options with absolute paths, as the ranks need them."""
    result = str(Path(options.run.json).absolute()) if options.run.json else ""
    return replace(options, run=replace(options.run, run_dir=str(run_dir), json=result))


def _run(command: Sequence[str], options: Options, run_dir: Path, faults: Sequence[str]) -> int:
    environment = rank_environment(faults, os.environ)
    prepare_shards(run_dir / SHARDS_DIRECTORY, options.data.data or None, options.data.data_bytes)
    resolved = _resolved(options, run_dir)
    print(f"configuration: {json.dumps(as_table(resolved))}", file=sys.stderr, flush=True)
    marker = run_dir / PREEMPTED_MARKER
    marker.unlink(missing_ok=True)
    code = _supervise([*command, *as_flags(resolved)], environment)
    if marker.exists():
        return EXIT_PREEMPTED
    return 1 if code else 0


def launch(options: Options, faults: Sequence[str]) -> int:
    """Validate, prepare the data, start the ranks and return the exit code.

    Raises:
        StepwatchError: an input cannot be used; no process was started.
    """
    validate(options)
    validate_faults(options, filter(None, map(parse_fault, faults)))
    command = torchrun_command(options)
    require_writable_parent(options.run.json)
    for warning in warnings_for(options):
        print(f"warning: {warning}", file=sys.stderr)
    with launcher_directory(options.run.run_dir) as run_dir:
        return _run(command, options, run_dir, faults)


def under_torchrun(environment: Mapping[str, str]) -> bool:
    """Return whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in environment
