"""Connections to the collector: how many, how long each stage of a request may take, and accept."""

from .listener import Listener
from .protocol import TimedProtocol
from .room import connections_allowed
from .seldom import Seldom
from .table import Connection, Table

__all__ = ["Connection", "Listener", "Seldom", "Table", "TimedProtocol", "connections_allowed"]
