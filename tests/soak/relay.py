"""`python -m tests.soak.relay PORT TARGET_PORT`: forwards TCP connections, both on loopback.

Stopped by SIGSTOP it is a silent network: connections stay open and carry nothing, new ones get no
answer. After SIGCONT it continues.
"""

from __future__ import annotations

import asyncio
import sys

_CHUNK_BYTES = 1 << 16


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def serve(port: int, target_port: int) -> None:
    """Hand on until it is killed."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", target_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, forth), _copy(back, writer))

    server = await asyncio.start_server(handle, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
