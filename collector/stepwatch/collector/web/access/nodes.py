"""Checks that a request's segments match the node in its token."""

from __future__ import annotations

from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError


def why_foreign(body: bytes, node: str) -> str:
    """Return in one line why a token for `node` may not send `body`, empty if it may."""
    for data in wire.split(body):
        try:
            name = wire.peek_key(data).node
        except SegmentError as error:
            return f"this token is bound to node {node}, and a segment names none: {error}"
        if name != node:
            return (
                f"this token is bound to node {node}, and a segment is of {name[:63]!r}: use that "
                "node's token, or one that is bound to none"
            )
    return ""
