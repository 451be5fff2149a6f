"""How a rank's exception and last lines explain its end, and the finding's words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from stepwatch.collector.detect.finding import Evidence, text_evidence
from stepwatch.signals.exits import Explained, Weight, explain

_SHOWN = 100
_EXITS = "SystemExit"


def explained(failure: str, lines: Sequence[str]) -> Explained | None:
    """Return the explanation in the exception, or else in the last lines; None if unknown.

    A rank that reported its exception ended by it, whatever else it wrote. The report is truncated,
    so the full line is read if there is one.
    """
    if not failure or failure.startswith(_EXITS):
        return explain(lines)
    full_line = next((line for line in reversed(lines) if failure in line), failure)
    return explain([full_line])


def is_symptom(failure: str, lines: Sequence[str]) -> bool:
    """Return whether the failure and lines only report that another rank was lost."""
    explanation = explained(failure, lines)
    return explanation is not None and explanation.pattern.weight is Weight.SYMPTOM


def named_end(explanation: Explained | None, otherwise: str) -> str:
    """Return how the rank ended, in words: a specific pattern's, or `otherwise`, with its line."""
    if explanation is None:
        return otherwise
    line = (
        explanation.line
        if len(explanation.line) <= _SHOWN
        else f"{explanation.line[: _SHOWN - 3]}..."
    )
    if explanation.pattern.weight is Weight.SPECIFIC:
        return f"{explanation.pattern.words}: {line}"
    return otherwise if line in otherwise else f"{otherwise}: {line}"


def evidence(explanation: Explained | None, lines: Sequence[str], reason: str) -> list[Evidence]:
    """Return the line that shows the reason, with the recommended action.

    Without one, the row holds the last line, or the `reason` why there is no line.
    """
    if explanation is not None:
        action = explanation.pattern.action
        return [text_evidence("it wrote at last", explanation.line, action)]
    if lines:
        return [text_evidence("it wrote at last", lines[-1], "no known reason to end")]
    return [text_evidence("its last lines", reason, "")] if reason else []
