"""Bytes per TCP connection, from the kernel's socket diagnosis (sock_diag(7))."""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _NLMSG_ERROR, _NLMSG_DONE = 20, 2, 3
_REQUEST_DUMP = 0x301
_TCP_INFO_ATTRIBUTE = 2
_ESTABLISHED = 1 << 1
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port in nlmsghdr
_REQUEST = struct.Struct("=BBBBI48x")  # family, protocol, extensions, padding, states
_INODE_AT, _MESSAGE_BYTES = 68, 72  # in inet_diag_msg
_ATTRIBUTE = struct.Struct("=HH")
_BYTES_ACKED_AT = 120  # in tcp_info, since Linux 4.1; bytes_received follows
_CARRIED = struct.Struct("=QQ")
_ANSWER_SECONDS = 0.5
_BUFFER = 1 << 16
_SOCKET = re.compile(r"socket:\[(\d{1,20})\]")


def carried_bytes() -> dict[int, int]:
    """Return received plus acknowledged bytes for each connection in this namespace.

    Keys are socket inodes.

    Raises:
        OSError: the kernel lacks this diagnosis, or does not answer.
    """
    carried: dict[int, int] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as diagnosis:
        diagnosis.settimeout(_ANSWER_SECONDS)
        for family in (socket.AF_INET, socket.AF_INET6):
            extension = 1 << (_TCP_INFO_ATTRIBUTE - 1)
            body = _REQUEST.pack(family, socket.IPPROTO_TCP, extension, 0, _ESTABLISHED)
            head = (_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, family, 0)
            diagnosis.send(_HEADER.pack(*head) + body)
            while _take(diagnosis.recv(_BUFFER), carried):
                pass
    return carried


def sockets_of(pid: int, proc: Path) -> frozenset[int]:
    """Return the inodes for a process's open sockets.

    Raises:
        OSError: the process is gone, or its descriptors cannot be read.
    """
    folder = f"{proc}/{pid}/fd"
    return frozenset(_inodes(folder, os.listdir(folder)))


def shares_network(pid: int, proc: Path) -> bool:
    """Return whether a process shares this network namespace, so that its connections show."""
    try:
        return os.readlink(f"{proc}/{pid}/ns/net") == os.readlink(f"{proc}/self/ns/net")
    except OSError:
        return False


def _inodes(folder: str, names: list[str]) -> Iterator[int]:
    for name in names:
        try:
            named = _SOCKET.fullmatch(os.readlink(f"{folder}/{name}"))
        except OSError:  # closed meanwhile
            continue
        if named is not None:
            yield int(named[1])


def _take(answer: bytes, carried: dict[int, int]) -> bool:
    """Add one answer's connections; return False for the last one.

    Raises:
        OSError: the kernel refused.
    """
    offset = 0
    while offset + _HEADER.size <= len(answer):
        length, kind, *_ = _HEADER.unpack_from(answer, offset)
        if kind == _NLMSG_DONE:
            return False
        if kind == _NLMSG_ERROR or length < _HEADER.size:
            raise OSError("sock_diag refused")
        _add(answer[offset + _HEADER.size : offset + length], carried)
        offset += (length + 3) & ~3
    return True


def _add(message: bytes, carried: dict[int, int]) -> None:
    if len(message) < _MESSAGE_BYTES:
        return
    (inode,) = struct.unpack_from("=I", message, _INODE_AT)
    offset = _MESSAGE_BYTES
    while offset + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        info = message[offset + _ATTRIBUTE.size : offset + length]
        if kind == _TCP_INFO_ATTRIBUTE and len(info) >= _BYTES_ACKED_AT + _CARRIED.size:
            carried[inode] = sum(_CARRIED.unpack_from(info, _BYTES_ACKED_AT))
        offset += max((length + 3) & ~3, _ATTRIBUTE.size)
