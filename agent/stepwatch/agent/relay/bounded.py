"""Size limits for answers: httpx decompresses without a limit.

A few kilobytes of gzip, brotli or zstd may expand to gigabytes. So requests accept no encoding,
and an encoded answer is refused before its body is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import httpx

MOST_BYTES = 256 << 20
"""Far above a collector's largest answer, the heat map for 16,384 ranks."""
AS_SENT = {"accept-encoding": "identity"}


def limit_answers(client: httpx.Client, most: int = MOST_BYTES) -> httpx.Client:
    """Limit each answer to `client` to `most` bytes, and return the client.

    Requests raise `httpx.DecodingError` if the answer is compressed or longer.
    """

    def limit(response: httpx.Response) -> None:
        check_coding(response)
        # A synchronous client has only streams with this type.
        response.stream = _Bounded(cast(httpx.SyncByteStream, response.stream), most)

    client.headers.update(AS_SENT)
    client.event_hooks["response"].append(limit)
    return client


def check_coding(response: httpx.Response) -> None:
    """Refuse a compressed answer.

    Raises:
        httpx.DecodingError: the answer is compressed.
    """
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise httpx.DecodingError(
            f"the answer is compressed ({coding[:40]}), which was not asked for"
        )


class _Bounded(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > self._most:
                raise httpx.DecodingError(f"the answer is longer than {self._most} bytes")
            yield piece

    def close(self) -> None:
        self._stream.close()
