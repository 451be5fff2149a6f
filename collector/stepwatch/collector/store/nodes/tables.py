"""Tables for nodes: each node's last report, and its faults."""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.collector.store.schema import metadata

node = sa.Table(
    "node",
    metadata,
    sa.Column("node", sa.String(63), primary_key=True),
    # Time of the newest report, by the node's clock and by a collector's clock; 0 if only job
    # segments were received from the node.
    sa.Column("reported_ns", sa.BigInteger, nullable=False),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("version", sa.String(24), nullable=False),
)

node_fact = sa.Table(
    "node_fact",
    metadata,
    sa.Column("node", sa.String(63), primary_key=True),
    # The reporting agent's spool. Spool and agent clock identify a fact, because wall time may
    # jump.
    sa.Column("spool", sa.BigInteger, primary_key=True),
    sa.Column("fact", sa.Integer, primary_key=True),
    sa.Column("subject", sa.String(40), primary_key=True),
    sa.Column("code", sa.Integer, primary_key=True),
    sa.Column("monotonic_ns", sa.BigInteger, primary_key=True),
    # The node's wall time; 0 if the end was not reported.
    sa.Column("began_ns", sa.BigInteger, nullable=False),
    sa.Column("seen_ns", sa.BigInteger, nullable=False),
    sa.Column("ended_ns", sa.BigInteger, nullable=False),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("times", sa.BigInteger, nullable=False),
    sa.Column("text", sa.String(200), nullable=False),
    # The job that ran at that time; empty and -1 without a job.
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Index("node_fact_received_ns", "received_ns"),
)
"""One row per fact and agent, from its beginning to its end.

A repeated write merges with the stored row, so neither order nor repetition changes the result.
"""
