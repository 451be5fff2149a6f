"""Checks for the job's settings: ranks, rendezvous, NCCL variables, secrets, checkpoints."""

from __future__ import annotations

import os
import socket
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from stepwatch.signals.phrases import closest_hint

from .result import Outcome, Problem, Result, Surroundings

_IB_TIMEOUT = 20
"""NCCL_IB_TIMEOUT default since NCCL 2.14."""
_IB_RETRIES = 7
_WRITE_BYTES = 4 << 20
SLOW_WRITE_SECONDS = 2.0


def check(around: Surroundings) -> Iterator[Result]:
    """Check ranks, rendezvous, NCCL, required variables and the checkpoint folder."""
    yield from _ranks(around.environ)
    yield _rendezvous(around.environ)
    yield from _nccl(around)
    for name in around.needed:
        yield _needed(name, around.environ)
    if around.checkpoints is not None:
        yield _checkpoints(around.checkpoints)


def _ranks(environ: Mapping[str, str]) -> Iterator[Result]:
    """Check the variables that torchrun or Slurm set, if one is used."""
    numbers: dict[str, int] = {}
    for name in ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "SLURM_NTASKS"):
        value = environ.get(name)
        if value is None:
            continue
        if not value.isdecimal():
            text = f"{name}={value[:20]!r} is not a number"
            yield _wrong("ranks", text, f"unset or correct {name}")
            return
        numbers[name] = int(value)
    world, local = numbers.get("WORLD_SIZE"), numbers.get("LOCAL_WORLD_SIZE")
    if world is None:
        yield Result("ranks", Outcome.PASS, "no ranks are described here", problem=Problem.USER)
    elif numbers.get("RANK", 0) >= world:
        text = f"RANK={numbers['RANK']} of WORLD_SIZE={world}: ranks count from 0"
        yield _wrong("ranks", text, "start WORLD_SIZE ranks")
    elif local and (world % local or numbers.get("LOCAL_RANK", 0) >= local):
        text = f"LOCAL_WORLD_SIZE={local} does not fit WORLD_SIZE={world} or LOCAL_RANK"
        yield _wrong("ranks", text, "start the same number of ranks on every node")
    elif "SLURM_NTASKS" in numbers and numbers["SLURM_NTASKS"] not in (world, 1):
        text = f"SLURM_NTASKS={numbers['SLURM_NTASKS']} but WORLD_SIZE={world}"
        yield Result(
            "ranks",
            Outcome.WARN,
            text,
            "start one task a rank, or one torchrun a node",
            problem=Problem.USER,
        )
    else:
        yield Result("ranks", Outcome.PASS, f"{world} ranks", problem=Problem.USER)


def _rendezvous(environ: Mapping[str, str]) -> Result:
    host, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT", "29500")
    if host is None:
        text = "MASTER_ADDR is not set: torchrun or the launcher will"
        return Result("rendezvous", Outcome.PASS, text, problem=Problem.USER)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        text = f"MASTER_PORT={port[:20]!r} is not a port"
        return _wrong("rendezvous", text, "set one from 1024 up")
    try:
        address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        return _wrong("rendezvous", f"MASTER_ADDR={host!r}: {error}", "use a name that resolves")
    if environ.get("RANK", environ.get("SLURM_PROCID", "0")) != "0":
        return _reaches(host, int(port), address)
    try:
        with socket.socket(address[0], socket.SOCK_STREAM) as listening:
            listening.bind(address[4])
    except OSError as error:
        text = f"rank 0 cannot listen on {host}:{port}: {error.strerror or error}"
        return _wrong("rendezvous", text, "another job may hold the port: set another MASTER_PORT")
    return Result("rendezvous", Outcome.PASS, f"{host}:{port} is free", problem=Problem.USER)


def _reaches(host: str, port: int, address: tuple[object, ...]) -> Result:
    try:
        with socket.create_connection((host, port), timeout=2.0):
            pass
    except ConnectionRefusedError:
        text = f"{host} answers, and rank 0 does not listen on {port} yet"
        return Result("rendezvous", Outcome.UNKNOWN, text, problem=Problem.USER)
    except OSError as error:
        text = f"{host}:{port} cannot be reached: {error.strerror or error}"
        return Result("rendezvous", Outcome.FAIL, text, "look at routes and firewalls between them")
    return Result("rendezvous", Outcome.PASS, f"{host}:{port} answers", problem=Problem.USER)


@cache
def _known_variables() -> Mapping[str, str]:
    """Return NCCL's variables, each with the warning for a set value; most have none."""
    text = resources.files(__package__).joinpath("nccl.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return {**dict.fromkeys(document["known"], ""), **document["warn"]}


def _nccl(around: Surroundings) -> Iterator[Result]:
    source = "NVIDIA, NCCL user guide, environment variables"
    variables = {name: value for name, value in around.environ.items() if name.startswith("NCCL_")}
    documented = _known_variables()
    odd = False
    for name, value in sorted(variables.items()):
        if name not in documented:
            odd = True
            hint = closest_hint(name, documented, list_known=False)
            text = f"{name} is not a variable of NCCL's guide{f'; {hint}' if hint else ''}"
            remedy = "NCCL ignores unknown variables: correct or unset it"
            yield Result("nccl", Outcome.WARN, text, remedy, source, Problem.USER)
        elif documented[name] and value not in ("", "0"):
            odd = True
            yield Result(
                "nccl",
                Outcome.WARN,
                f"{name}={value[:40]}: {documented[name]}",
                "",
                source,
                Problem.USER,
            )
    missing = _missing_interface(around, variables.get("NCCL_SOCKET_IFNAME", ""))
    if missing:
        odd = True
        remedy = "name one that `ip link` shows on every node"
        yield Result("nccl", Outcome.FAIL, missing, remedy, source, Problem.USER)
    if not odd:
        yield Result("nccl", Outcome.PASS, _timeouts(variables), "", source, Problem.USER)


def _missing_interface(around: Surroundings, pattern: str) -> str:
    """Return a problem text if no interface matches `NCCL_SOCKET_IFNAME`, else an empty text.

    The variable is a prefix list; `=eth0` means exact names, `^docker` excludes names.
    """
    if not pattern or pattern.startswith("^"):
        return ""
    exact, names = pattern.startswith("="), pattern.lstrip("=").split(",")
    try:
        interfaces = [path.name for path in (around.sys / "class" / "net").iterdir()]
    except OSError:
        return ""
    fits = any(
        interface == name if exact else interface.startswith(name)
        for name in names
        for interface in interfaces
    )
    return (
        ""
        if fits
        else f"NCCL_SOCKET_IFNAME={pattern[:40]}: this node has {', '.join(sorted(interfaces))}"
    )


def _timeouts(variables: Mapping[str, str]) -> str:
    """Describe how long NCCL tries before it gives up a connection.

    The time is 4.096 µs times 2 to the timeout, for each retry; a card may take up to four times
    that.
    """
    texts = variables.get("NCCL_IB_TIMEOUT", ""), variables.get("NCCL_IB_RETRY_CNT", "")
    exponent = int(texts[0]) if texts[0].isdecimal() and int(texts[0]) < 32 else _IB_TIMEOUT
    retries = int(texts[1]) if texts[1].isdecimal() and int(texts[1]) < 8 else _IB_RETRIES
    seconds = 4.096e-6 * 2**exponent * (retries + 1)
    count = len(variables)
    return f"{count} variables set; an InfiniBand peer is given up after {seconds:.0f} s or more"


def _needed(name: str, environ: Mapping[str, str]) -> Result:
    """Check that a variable is set; its value is a secret and never shown."""
    if environ.get(name):
        return Result(f"variable {name}", Outcome.PASS, "is set", problem=Problem.USER)
    state = "is empty" if name in environ else "is not set"
    return _wrong(f"variable {name}", state, f"set {name} for the job")


def _checkpoints(folder: Path) -> Result:
    begins = time.monotonic()
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".stepwatch-doctor-") as file:
            file.write(os.urandom(_WRITE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        text = f"{folder}: {error.strerror or error}"
        return _wrong("checkpoints", text, "create it, or let the job's user write there")
    took = time.monotonic() - begins
    text = f"{folder}: {_WRITE_BYTES >> 20} MiB written and flushed in {took:.2f} s"
    if took > SLOW_WRITE_SECONDS:
        return Result(
            "checkpoints", Outcome.WARN, text, "look at the load of the file system or its server"
        )
    return Result("checkpoints", Outcome.PASS, text)


def _wrong(check: str, text: str, remedy: str) -> Result:
    return Result(check, Outcome.FAIL, text, remedy, problem=Problem.USER)
