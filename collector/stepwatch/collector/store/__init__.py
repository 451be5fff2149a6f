"""The collector's database, through SQLAlchemy: SQLite by default."""

from stepwatch.collector.store.store import (
    SCHEMA_VERSION,
    Added,
    Store,
    StoredPayload,
    StoredSegment,
)

__all__ = ["SCHEMA_VERSION", "Added", "Store", "StoredPayload", "StoredSegment"]
