"""Profiles of ranks: requested over HTTP or for an incident, made by agents."""

from .of_incidents import IncidentProfiles
from .placement import PLACEMENT
from .routes import ProfilesApi

__all__ = ["PLACEMENT", "IncidentProfiles", "ProfilesApi"]
