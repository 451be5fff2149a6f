"""Runbooks: one page per alert, with the values of an incident filled into its commands; and
playbooks, one per decision."""

from .library import PLAYBOOKS, RUNBOOKS, Family, load, names, render
from .page import Page

__all__ = ["PLAYBOOKS", "RUNBOOKS", "Family", "Page", "load", "names", "render"]
