"""Environment variables, default places and the rules for names that become path components."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

from stepwatch.signals.errors import ConfigurationError

ENV_DISABLE = "STEPWATCH_DISABLE"
"""Any value except empty or `0` turns every hook into a no-op."""
ENV_QUIET = "STEPWATCH_QUIET"
"""Any value except empty or `0` suppresses the lines that a run prints at its start and end."""
ENV_STDERR = "STEPWATCH_STDERR"
"""`0` leaves the ranks' stderr alone: their last lines are not kept."""
ENV_COLLECTOR = "STEPWATCH_COLLECTOR"
"""The collector's base URL, for agents and every verb that queries a collector."""
ENV_JOB = "STEPWATCH_JOB"
ENV_JOB_CLASS = "STEPWATCH_JOB_CLASS"
ENV_MESH = "STEPWATCH_MESH"
"""Axes and sizes of the job's mesh, the slowest first: `pp=2,dp=4`."""
ENV_ATTEMPT_BASE = "STEPWATCH_ATTEMPT_BASE"
"""Attempt number for the first incarnation under this launcher; restarts count on from it."""
ENV_RING_DIR = "STEPWATCH_RING_DIR"
ENV_NODE = "STEPWATCH_NODE"
ENV_CHECKPOINTS, ENV_DATA = "STEPWATCH_CHECKPOINTS", "STEPWATCH_DATA"
"""A job's checkpoint directory and its dataset, for `stepwatch doctor`."""
ENV_TOKEN_FILE = "STEPWATCH_TOKEN_FILE"
"""File whose first line is the bearer token that agents and readers present."""
ENV_CA = "STEPWATCH_CA"
"""PEM file with the authorities for a collector's certificate; replaces the system's."""
ENV_LOG_FORMAT = "STEPWATCH_LOG_FORMAT"
"""`json`: agents and collectors log one JSON object a line."""
ENV_RATES = "STEPWATCH_RATES"
"""A rate card: the prices of device-hours."""
ENV_COMMIT = "STEPWATCH_COMMIT"
"""The training code's version, if it is in no Git repository."""
ENV_PROJECT = "STEPWATCH_PROJECT"
ENV_TEAM = "STEPWATCH_TEAM"
ENV_COST_CENTRE = "STEPWATCH_COST_CENTRE"
"""The cost centre for a run, for reports."""
ENV_FAULTS = "STEPWATCH_FAULTS"
ENV_FAULT_LOG = "STEPWATCH_FAULT_LOG"
"""File to which an injected fault adds a line when it triggers for the first time."""

DEFAULT_RING_DIR = Path("/dev/shm/stepwatch")
DEFAULT_SPOOL = Path("/var/tmp/stepwatch/spool")
DEFAULT_COLLECTOR = "http://127.0.0.1:8480"
DEFAULT_COLLECTOR_PORT = 8480
DEFAULT_AGENT_PORT = 8481

NODE_STREAM = "@node"
"""Replaces the job in a segment's key, for an agent's report about its node, with any job on it.
It is not a valid name, so no job can have it; an older collector refuses the segment.
"""
NAME_LIMIT = 63
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def is_name(name: str) -> bool:
    """Return whether `name` may be a path component and a label value."""
    return _NAME.fullmatch(name) is not None


def checked_name(name: str, kind: str) -> str:
    """Return `name` if it may be a path component and a label value.

    Raises:
        ConfigurationError: it is empty, too long, or holds a character that is not a letter,
            digit or one of `._-`.
    """
    if not is_name(name):
        raise ConfigurationError(
            f"{kind} {name[:80]!r} must be 1-{NAME_LIMIT} letters, digits, '.', '_' or '-', "
            "starting with a letter or digit"
        )
    return name


def collector_url() -> str:
    """Return the collector's base URL: `STEPWATCH_COLLECTOR`, else this machine's."""
    return os.environ.get(ENV_COLLECTOR) or DEFAULT_COLLECTOR


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address without brackets, is only this machine's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int, guarded: bool, option: str) -> socket.socket:
    """Open a listening socket; port 0 takes a free one.

    `guarded`: clients must present a token; `option` is the option that names it.

    Raises:
        ConfigurationError: the port is in use, or the address is beyond loopback without a token.
    """
    if not guarded and not is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached from other machines: pass {option}, or listen on 127.0.0.1"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(128)
    except (OSError, OverflowError) as error:
        opened.close()
        reason = getattr(error, "strerror", None) or "no such port"
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {reason}; pass another --port"
        ) from error
    return opened


def may_use_proxy(url: str) -> bool:
    """Return whether a client for `url` follows `http_proxy` etc.: no proxy reaches loopback."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return True
    return not is_loopback(host or "")


def ring_dir() -> Path:
    """Return the directory for all this node's rings."""
    return Path(os.environ.get(ENV_RING_DIR) or DEFAULT_RING_DIR)


def node_name() -> str:
    """Return this node's name: `STEPWATCH_NODE`, else the host name's first label."""
    raw = os.environ.get(ENV_NODE) or os.uname().nodename.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]", "-", raw)[:NAME_LIMIT].lstrip("._-") or "node"
