"""Runbooks (one page per alert, with an incident's values in its commands) and playbooks.

A playbook is one page per decision.
"""

from .library import PLAYBOOKS, RUNBOOKS, Family, load, names, render
from .page import Page

__all__ = ["PLAYBOOKS", "RUNBOOKS", "Family", "Page", "load", "names", "render"]
