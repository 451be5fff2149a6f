"""A run in a tracker: what `stepwatch track` writes into."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping

from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.secrets import known_secrets, without_secrets

from .sample import Note, Sample


class TargetError(StepwatchError):
    """The tracker does not take or return data now; a later try may succeed."""

    @classmethod
    def of(cls, tracker: str, error: BaseException) -> TargetError:
        """Return the first line of a library's `error`, without the secrets in its address."""
        line = str(error).partition("\n")[0]
        return cls(f"{tracker}: {without_secrets(line, known_secrets(os.environ))}")


class Target(ABC):
    """One run in a tracker.

    The run itself says what was written, so that a process that was killed continues.
    """

    @abstractmethod
    def newest_step(self) -> int:
        """Return the newest written step, -1 without any.

        Raises:
            TargetError: the tracker does not answer.
        """

    @abstractmethod
    def headlines(self) -> Mapping[str, str]:
        """Return the headline of each written note, by incident.

        Raises:
            TargetError: the tracker does not answer.
        """

    @abstractmethod
    def write(self, sample: Sample) -> None:
        """Write a sample durably.

        Raises:
            TargetError: the tracker did not take it.
        """

    @abstractmethod
    def note(self, note: Note) -> None:
        """Write a note durably, in place of the earlier one about its incident.

        Raises:
            TargetError: the tracker did not take it.
        """

    @abstractmethod
    def close(self) -> None:
        """End the connection to the tracker."""
