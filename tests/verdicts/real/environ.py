"""Environment variables that configure the ranks of a real run, and the signals that they obey."""

from __future__ import annotations

import signal

ENV_NODE_RINGS = "STEPWATCH_TEST_NODE_RINGS"
"""Ring directories, one a node, divided by colons; ranks fill one node after the other."""
ENV_NODE_SPACES = "STEPWATCH_TEST_NODE_SPACES"
"""Network namespaces, one a node, divided by colons."""
ENV_STORAGE = "STEPWATCH_TEST_STORAGE"
"""Socket of the storage that serves the batches."""
ENV_BATCHES = "STEPWATCH_TEST_BATCHES"
"""Batch files, one a node, divided by colons; a node with an empty entry reads none."""
ENV_BUSY = "STEPWATCH_TEST_BUSY"
"""Share of its time in which a rank computes."""
BUSY_SHARE = 0.15
"""The default of `ENV_BUSY`."""

LEAVE = signal.SIGRTMIN + 1
"""The process ends with code 0."""
FAIL = signal.SIGRTMIN + 2
"""The main thread raises an error."""
SLEEP = signal.SIGRTMIN + 3
"""The main thread sleeps for ever."""
SPIN = signal.SIGRTMIN + 4
"""The main thread computes for ever."""
