"""What the doctor does in other processes: torch and drivers are loaded there, and may hang."""

from .asking import ChildError, answers

__all__ = ["ChildError", "answers"]
