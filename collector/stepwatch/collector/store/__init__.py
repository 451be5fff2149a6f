"""The collector's database, through SQLAlchemy: SQLite by default, or PostgreSQL."""

from stepwatch.collector.store.database import SCHEMA_VERSION, shown
from stepwatch.collector.store.payload import StoredPayload
from stepwatch.collector.store.store import (
    Added,
    Store,
    StoredSegment,
)

__all__ = ["SCHEMA_VERSION", "Added", "Store", "StoredPayload", "StoredSegment", "shown"]
