"""How often agents send: what a collector asks for and an agent grants, and reports of a node."""

from __future__ import annotations

FLUSH_HEADER = "stepwatch-flush-seconds"
"""Header of an answer to segments: the seconds from one flush to the next that are asked for."""
MOST_ASKED_SECONDS = 10.0
"""The longest interval that is asked for or granted: a verdict waits for the records in it."""
NODE_REPORT_SECONDS = 30.0
"""The longest time from one report of a node to the next, whether or not anything is wrong with it.
A fact that begins, changes or ends is reported with the next flush."""
