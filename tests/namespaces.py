"""Network namespaces and the commands that make them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable


def ip(*words: str) -> None:
    """Run `ip` with these words.

    Raises:
        OSError: it failed: only root may.
    """
    run("ip", *words)


def run(*words: str) -> None:
    """Run a command.

    Raises:
        OSError: it failed, with its error output.
    """
    completed = subprocess.run(words, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise OSError(f"{' '.join(words)}: {completed.stderr.strip()}")


def remove(names: Iterable[str]) -> None:
    """Remove the namespaces that exist, with their links."""
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
