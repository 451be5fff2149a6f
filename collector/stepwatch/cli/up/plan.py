"""Plan of `stepwatch up`: ports and paths, validated before anything starts."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

from stepwatch.cli.up.ports import HOST, free_port
from stepwatch.signals import presence
from stepwatch.signals.errors import ConfigurationError


@dataclass(frozen=True)
class Plan:
    """Ports on loopback, the folder for store, spool and logs, and the ring directory."""

    port: int
    agent_port: int
    folder: Path
    rings: Path

    @property
    def url(self) -> str:
        """Base URL of the collector and its pages."""
        return f"http://{HOST}:{self.port}"

    @property
    def store(self) -> Path:
        """The collector's store."""
        return self.folder / "store.db"


def default_folder() -> Path:
    """Return the user's directory for persistent program state (XDG base directories, state)."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "stepwatch"


def make_plan(arguments: argparse.Namespace) -> Plan:
    """Check the options and create the folder.

    Raises:
        ConfigurationError: a port is in use, an agent already reads these rings, or the folder
            cannot be written.
    """
    _refuse_second_agent(arguments.ring_dir)
    port = free_port(arguments.port, "--port", "the collector and its page")
    agent_port = free_port(arguments.agent_port, "--agent-port", "/metrics of the agent")
    try:
        arguments.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        (arguments.dir / ".writable").touch()
        (arguments.dir / ".writable").unlink()
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {arguments.dir}: {error.strerror}; pass --dir DIR"
        ) from error
    return Plan(port, agent_port, arguments.dir.absolute(), arguments.ring_dir.absolute())


def _refuse_second_agent(rings: Path) -> None:
    agent = presence.read(rings)
    lives = agent is not None and Path(f"/proc/{agent.pid}").exists()
    if agent is not None and lives and agent.is_fresh(time.monotonic_ns()):
        raise ConfigurationError(
            f"an agent (pid {agent.pid}) reads {rings} already; its page: {agent.page}; "
            "stop it, or pass another --ring-dir"
        )
