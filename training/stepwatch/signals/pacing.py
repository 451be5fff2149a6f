"""The agents' flush interval: a collector requests it, an agent applies and reports it."""

from __future__ import annotations

FLUSH_HEADER = "stepwatch-flush-seconds"
"""Header in an answer to segments: the requested seconds from one flush to the next."""
MOST_ASKED_SECONDS = 10.0
"""The longest interval to request or apply: a verdict waits for the records in it."""
NODE_REPORT_SECONDS = 30.0
"""The longest time from one node report to the next, whether or not the node has a problem.
A fact that begins, changes or ends is reported with the next flush.
"""
