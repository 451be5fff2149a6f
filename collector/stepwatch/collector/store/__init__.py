"""The collector's database, through SQLAlchemy: SQLite by default."""

from stepwatch.collector.store.store import SCHEMA_VERSION, Store, StoredPayload, StoredSegment

__all__ = ["SCHEMA_VERSION", "Store", "StoredPayload", "StoredSegment"]
