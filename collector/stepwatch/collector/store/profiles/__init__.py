"""Requested profiles of a slow rank and its peer, with their traces and comparison."""

from .requests import DayOfProfiles, Profiles, ProfileState, Request, Trace, Wanted

__all__ = ["DayOfProfiles", "ProfileState", "Profiles", "Request", "Trace", "Wanted"]
