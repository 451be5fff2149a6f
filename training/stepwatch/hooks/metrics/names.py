"""The numbers that stand for metric names in one rank's records."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.records import DTYPES, MOST_METRICS, Better, Kind

_SIZES = {
    field: DTYPES[Kind.METRIC_NAME][field].itemsize for field in ("text", "unit", "evaluation")
}
_BETTER = {"": Better.UNKNOWN, "lower": Better.LOWER, "higher": Better.HIGHER}
TOO_MANY = f"more than {MOST_METRICS} metrics: further names are left out"
BAD_NAME = (
    f"a metric's name must be a text with 1 to {_SIZES['text']} printable bytes and no space at "
    "its ends: the metric is left out"
)
SECRET = "a metric's name looks like a secret: the metric is left out"


class Declaration(NamedTuple):
    """A metric's unit, and the direction in which it improves."""

    unit: str = ""
    better: Better = Better.UNKNOWN


_UNDECLARED = Declaration()


class MetricNames:
    """Gives each metric of this rank a number, and writes the METRIC_NAME records.

    A refused name counts as misuse and is logged once.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._misuse = recorder.guard.misuse
        self._numbers: dict[tuple[str, str], int] = {}
        self._declared: dict[str, Declaration] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether a metric of steps has this name."""
        return ("", name) in self._numbers

    def declare(self, name: str, unit: str, better: str) -> None:
        """Note a metric's unit and direction; a metric that is in use is announced again."""
        if not self._is_usable(name, "text"):
            return
        if better not in _BETTER:
            self._misuse(f"better={better!r:.40} is unknown; write 'lower', 'higher' or ''")
            better = ""
        if unit and not self._is_usable(unit, "unit"):
            unit = ""
        if len(self._declared) >= MOST_METRICS and name not in self._declared:
            self._misuse(TOO_MANY)
            return
        self._declared[name] = Declaration(unit, _BETTER[better])
        for (evaluation, used_name), number in self._numbers.items():
            if used_name == name:
                self._announce(number, name, evaluation)

    def number(self, name: str, evaluation: str = "") -> int:
        """Return a metric's number, a new one for a new name; 0 if the name is refused."""
        number = self._numbers.get((evaluation, name))
        if number is not None:
            return number
        if len(self._numbers) >= MOST_METRICS:
            self._misuse(TOO_MANY)
            return 0
        if not self._is_usable(name, "text"):
            return 0
        number = self._numbers[evaluation, name] = len(self._numbers) + 1
        self._announce(number, name, evaluation)
        return number

    def is_evaluation(self, name: str) -> bool:
        """Return whether `name` can name an evaluation."""
        return self._is_usable(name, "evaluation")

    def announce(self) -> None:
        """Write all names again: the earlier records may be overwritten before an agent came."""
        for (evaluation, name), number in self._numbers.items():
            self._announce(number, name, evaluation)

    def _announce(self, number: int, name: str, evaluation: str) -> None:
        recorder = self._recorder
        if recorder.ring is None or recorder.timeline is None:
            return
        declared = self._declared.get(name, _UNDECLARED)
        texts = (name.encode(), declared.unit.encode(), evaluation.encode())
        recorder.ring.write(
            *(Kind.METRIC_NAME, recorder.step_number, recorder.clock()),
            *(number, int(declared.better), *texts),
        )

    def _is_usable(self, text: object, field: str) -> bool:
        """Return whether a text has no `problem`; one that has is counted and logged once."""
        problem = self.problem(text, field)
        if problem:
            self._misuse(problem)
        return not problem

    @staticmethod
    def problem(text: object, field: str) -> str:
        """Return why a text is no name for a record's `field`; empty if it is one.

        It fits the field, is printable, and is no secret.
        """
        if (
            not isinstance(text, str)
            or not text
            or text != text.strip()
            or not text.isprintable()
            or plain_line(text) != text
            or len(text.encode()) > _SIZES[field]
        ):
            return BAD_NAME if field == "text" else f"a bad {field} of a metric is left out"
        # Imported at the first name: compiling its patterns takes milliseconds.
        from stepwatch.signals.secrets import holds_secret, is_secret_name

        if is_secret_name(text.replace("/", "."), is_number=True) or holds_secret(text):
            return SECRET
        return ""
