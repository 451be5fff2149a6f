"""Requested profiles of a slow rank and its peer, with their traces and comparison."""

from .requests import Profiles, ProfileState, Request, Trace, Wanted

__all__ = ["ProfileState", "Profiles", "Request", "Trace", "Wanted"]
