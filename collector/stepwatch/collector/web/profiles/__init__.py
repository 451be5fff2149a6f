"""Profiles of ranks over HTTP: requested by an administrator, made by agents."""

from .placement import PLACEMENT
from .routes import ProfilesApi

__all__ = ["PLACEMENT", "ProfilesApi"]
