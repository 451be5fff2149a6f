"""Sweeps: trials with one prefix in their names, their settings, and what each reached."""

from .routes import SweepsApi
from .trials import TRIAL

__all__ = ["TRIAL", "SweepsApi"]
