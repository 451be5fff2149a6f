"""Progress of a demo: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Any

from stepwatch.cli import terminal, text

_PLAIN_EVERY_SECONDS = 5.0
_BAR = 12


def _pace(seconds: float | None) -> str:
    return "" if seconds is None else f"{text.seconds(seconds)}/step"


class Progress:
    """Shows the run's progress; `note` adds a permanent line."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._is_live = terminal.is_redrawn()
        self._shown_at = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._show_live("")

    def note(self, message: str) -> None:
        """Print a permanent line."""
        self._show_live("")
        print(message, flush=True)

    def show(self, job: dict[str, Any] | None, elapsed: float) -> None:
        """Show the job as the collector reports it; None before its first record."""
        line = self._line(job, elapsed)
        if self._is_live:
            self._show_live(line)
        elif time.monotonic() - self._shown_at >= _PLAIN_EVERY_SECONDS:
            self._shown_at = time.monotonic()
            self.note(line)

    def _show_live(self, line: str) -> None:
        if self._is_live:
            terminal.redraw(line)

    def _line(self, job: dict[str, Any] | None, elapsed: float) -> str:
        if job is None or job["step"] is None:
            return f"{elapsed:4.0f} s  starting four ranks"
        steps_done = min(job["step"] + 1, self._steps) if job["loss_last"] is not None else 0
        filled = _BAR * steps_done // self._steps
        bar = "#" * filled + "." * (_BAR - filled)
        count = job["open_incidents"]
        incidents = f"  {count} open incident{'' if count == 1 else 's'}" if count else ""
        return (
            f"{elapsed:4.0f} s  [{bar}] step {steps_done}/{self._steps}  "
            f"loss {text.number(job['loss_last'])}  "
            f"{_pace(job['recent_step_seconds'])}{incidents}"
        )
