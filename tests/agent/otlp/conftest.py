"""The scripted driver, for readings of devices."""

from tests.agent.probes.conftest import driver, library

__all__ = ["driver", "library"]
