"""Runbooks: one page per alert, with the values of an incident filled into its commands."""

from .library import load, names, render
from .page import Page

__all__ = ["Page", "load", "names", "render"]
