"""The doctor's child processes: they load torch and drivers, and may hang."""

from .asking import ChildError, answers

__all__ = ["ChildError", "answers"]
