"""Human response to incidents: silences, and notes such as an acknowledgement."""

from .notes import EVENTS, Note, Notes, response_of
from .silences import Silence, Silences, Wanted

__all__ = ["EVENTS", "Note", "Notes", "Silence", "Silences", "Wanted", "response_of"]
