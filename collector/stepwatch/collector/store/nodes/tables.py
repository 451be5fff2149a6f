"""Tables of nodes: when each reported last, and what was found wrong there."""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.collector.store.schema import metadata

node = sa.Table(
    "node",
    metadata,
    sa.Column("node", sa.String(63), primary_key=True),
    # When the newest report was made, by the node's clock, and when it came, by a collector's;
    # 0 of a node of which only segments of jobs came.
    sa.Column("reported_ns", sa.BigInteger, nullable=False),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("version", sa.String(24), nullable=False),
)

node_fact = sa.Table(
    "node_fact",
    metadata,
    sa.Column("node", sa.String(63), primary_key=True),
    # Of the agent that reports it. It and the agent's own clock name a fact, as wall time may jump.
    sa.Column("spool", sa.BigInteger, primary_key=True),
    sa.Column("fact", sa.Integer, primary_key=True),
    sa.Column("subject", sa.String(40), primary_key=True),
    sa.Column("code", sa.Integer, primary_key=True),
    sa.Column("monotonic_ns", sa.BigInteger, primary_key=True),
    # Wall time of the node; 0 where its end was not reported.
    sa.Column("began_ns", sa.BigInteger, nullable=False),
    sa.Column("seen_ns", sa.BigInteger, nullable=False),
    sa.Column("ended_ns", sa.BigInteger, nullable=False),
    sa.Column("received_ns", sa.BigInteger, nullable=False),
    sa.Column("times", sa.BigInteger, nullable=False),
    sa.Column("text", sa.String(200), nullable=False),
    # Of a job that ran there then; empty and -1 where none did.
    sa.Column("job", sa.String(63), nullable=False),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Index("node_fact_received_ns", "received_ns"),
)
"""One row for each fact that one agent found, from its beginning to its end: whoever writes one
again joins it with what is there, so that neither order nor repetition changes anything."""
