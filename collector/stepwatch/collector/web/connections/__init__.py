"""Connections to the collector: their number, the time limit per request stage, and accept."""

from .listener import Listener
from .protocol import TimedProtocol
from .room import connections_allowed
from .seldom import Seldom
from .table import Connection, Table

__all__ = ["Connection", "Listener", "Seldom", "Table", "TimedProtocol", "connections_allowed"]
