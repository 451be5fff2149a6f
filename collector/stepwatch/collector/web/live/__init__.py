"""Live events: one stream a page tab, from one reading of the jobs a round."""

from .hub import Hub
from .routes import LiveApi

__all__ = ["Hub", "LiveApi"]
