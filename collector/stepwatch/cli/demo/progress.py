"""Progress of a demo: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from stepwatch.cli import text

_PLAIN_EVERY_SECONDS = 5.0
_BAR = 12


def _pace(seconds: float | None) -> str:
    return "" if seconds is None else f"{text.seconds(seconds)}/step"


class Progress:
    """Shows where the run is; `note` adds a line that stays."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._console = Console(file=sys.stdout, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._shown_at = 0.0

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def note(self, message: str) -> None:
        """Print a line that stays."""
        self._console.print(message, markup=False, soft_wrap=True)

    def show(self, job: dict[str, Any] | None, elapsed: float) -> None:
        """Show the job as the collector sees it; None before its first record."""
        line = self._line(job, elapsed)
        if self._console.is_terminal:
            self._live.update(Text(line[: self._console.width - 1]), refresh=True)
        elif time.monotonic() - self._shown_at >= _PLAIN_EVERY_SECONDS:
            self._shown_at = time.monotonic()
            self.note(line)

    def _line(self, job: dict[str, Any] | None, elapsed: float) -> str:
        if job is None or job["step"] is None:
            return f"{elapsed:4.0f} s  starting four ranks"
        done = min(job["step"] + 1, self._steps) if job["loss_last"] is not None else 0
        filled = _BAR * done // self._steps
        bar = "#" * filled + "." * (_BAR - filled)
        count = job["open_incidents"]
        incidents = f"  {count} open incident{'' if count == 1 else 's'}" if count else ""
        return (
            f"{elapsed:4.0f} s  [{bar}] step {done}/{self._steps}  "
            f"loss {text.number(job['loss_last'])}  "
            f"{_pace(job['recent_step_seconds'])}{incidents}"
        )
