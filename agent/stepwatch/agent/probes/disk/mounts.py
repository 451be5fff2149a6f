"""Mounts from `/proc/self/mountinfo`; pure."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_MOUNTS = 64
"""Maximum number of file systems; a container has hundreds of mounts, mostly without a disk."""
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay"})
_NFS = frozenset({"nfs", "nfs4"})
_REMOTE = _NFS | {
    *("lustre", "beegfs", "ceph", "gpfs", "wekafs", "cifs", "smb3", "9p", "virtiofs", "glusterfs"),
    "fuse",
}
_LOCAL_FUSE = frozenset(
    f"fuse.{name}" for name in ("lxcfs", "fuse-overlayfs", "snapfuse", "portal", "gvfsd-fuse")
)
"""FUSE file systems without a remote machine."""
_SYSTEM = ("/run", "/sys", "/proc")
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One file system: mount point, type, source, and whether it is writable."""

    path: str
    kind: str
    source: str
    is_writable: bool

    @property
    def is_remote(self) -> bool:
        """Whether another machine serves it and may not answer."""
        return _is_remote(self.kind)

    @property
    def is_nfs(self) -> bool:
        """Whether the kernel counts its calls in `mountstats`."""
        return self.kind in _NFS


def parse_mounts(text: str) -> list[Mount]:
    """Return file systems with user files, each once, local ones first (proc(5), mountinfo).

    A line is `36 35 98:0 /root /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue`: the
    fields after the hyphen belong to the file system, the fields before it to this mount.
    """
    mounts: dict[str, Mount] = {}
    for line in text.splitlines():
        front, hyphen, back = line.partition(" - ")
        fields, source_fields = front.split(), back.split()
        if not hyphen or len(fields) < 6 or len(source_fields) < 3:
            continue
        kind, path = source_fields[0], _plain(fields[4])
        if kind not in _LOCAL and not _is_remote(kind):
            continue
        if kind == "tmpfs" and path != "/dev/shm":  # other tmpfs mounts belong to the system
            continue
        if path.startswith(_SYSTEM):
            continue
        options = {*fields[5].split(","), *source_fields[2].split(",")}
        # A file system that is mounted several times is one: the first mount counts.
        mounts.setdefault(
            fields[2], Mount(path, kind, _plain(source_fields[1]), "ro" not in options)
        )
    return sorted(mounts.values(), key=lambda mount: mount.is_remote)


def _is_remote(kind: str) -> bool:
    return kind in _REMOTE or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)


def _plain(text: str) -> str:
    r"""Decode a path: `\040` stands for a blank."""
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 8)), text)
