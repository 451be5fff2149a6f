"""How a collector asks agents to flush less often, and what an agent grants it."""

from __future__ import annotations

FLUSH_HEADER = "stepwatch-flush-seconds"
"""Header of an answer to segments: the seconds from one flush to the next that are asked for."""
MOST_ASKED_SECONDS = 10.0
"""The longest interval that is asked for or granted: a verdict waits for the records in it."""
