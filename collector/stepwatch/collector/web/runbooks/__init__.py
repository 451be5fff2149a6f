"""Runbooks for the page, filled in with an incident's values."""

from .view import ReadRunbook, relevant, runbook_document

__all__ = ["ReadRunbook", "relevant", "runbook_document"]
