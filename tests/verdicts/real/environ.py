"""What the environment of a real run says to its ranks, and the signals they obey."""

from __future__ import annotations

import signal

ENV_NODE_RINGS = "STEPWATCH_TEST_NODE_RINGS"
"""Directories of rings, one a node, divided by colons; ranks fill one node after the other."""
ENV_NODE_SPACES = "STEPWATCH_TEST_NODE_SPACES"
"""Network namespaces, likewise."""
ENV_STORAGE = "STEPWATCH_TEST_STORAGE"
"""Socket of the storage that batches come from."""
ENV_BATCHES = "STEPWATCH_TEST_BATCHES"
"""Files that batches are read from, one a node, likewise; of a node without one, none is read."""
ENV_BUSY = "STEPWATCH_TEST_BUSY"
"""Share of its time in which a rank computes."""
BUSY_SHARE = 0.15
"""The same where nobody says so."""

LEAVE = signal.SIGRTMIN + 1
"""The process ends with code 0."""
FAIL = signal.SIGRTMIN + 2
"""Its main thread raises an error."""
SLEEP = signal.SIGRTMIN + 3
"""Its main thread sleeps for good."""
SPIN = signal.SIGRTMIN + 4
"""Its main thread computes for good."""
