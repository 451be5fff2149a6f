"""Tables for requested profiles and their traces."""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.collector.store.schema import metadata

profile_request = sa.Table(
    "profile_request",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Column("rank", sa.BigInteger, nullable=False),
    sa.Column("node", sa.String(63), nullable=False),
    sa.Column("peer", sa.BigInteger, nullable=False),
    sa.Column("peer_node", sa.String(63), nullable=False),
    sa.Column("first_step", sa.BigInteger, nullable=False),
    sa.Column("steps", sa.Integer, nullable=False),
    # Ids of the incidents about the rank that were open then.
    sa.Column("incidents", sa.JSON, nullable=False),
    # By the database's clock.
    sa.Column("requested_ns", sa.BigInteger, nullable=False),
    sa.Column("requested_by", sa.String(80), nullable=False),
    # `asked` also after its expiry: only `requested_ns` tells that one has expired.
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("sentence", sa.String(1000), nullable=False),
    sa.Column("comparison", sa.JSON(none_as_null=True)),
    sa.Index("profile_request_job", "job", "requested_ns"),
    sa.Index("profile_request_state", "state", "requested_ns"),
)

profile_trace = sa.Table(
    "profile_trace",
    metadata,
    sa.Column("request", sa.String(16), primary_key=True),
    sa.Column("rank", sa.BigInteger, primary_key=True),
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("node", sa.String(63), nullable=False),
    # Why there is no trace; empty with one.
    sa.Column("reason", sa.String(200), nullable=False),
    # The gzip trace, null without one or after its retention.
    sa.Column("payload", sa.LargeBinary),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Index("profile_trace_received_ns", "received_ns"),
    sa.Index("profile_trace_job", "job"),
)
