"""The collector's database, through SQLAlchemy: SQLite by default."""

from stepwatch.collector.store.database import SCHEMA_VERSION
from stepwatch.collector.store.store import (
    Added,
    Store,
    StoredPayload,
    StoredSegment,
)

__all__ = ["SCHEMA_VERSION", "Added", "Store", "StoredPayload", "StoredSegment"]
