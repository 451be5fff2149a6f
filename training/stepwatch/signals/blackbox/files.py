"""A ring's file: created whole, closed to writers, and replaced when it was lost.

Its mode is 0400: the rank writes through the mapping that it made first. So no program of the same
user cuts the file by accident; the superuser, and a user who changes the mode, still can.
"""

from __future__ import annotations

import contextlib
import enum
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from stepwatch.signals.places.owned import PRIVATE_MODE, open_new

_MODE = 0o400
_MAP_FIXED = 0x10
"""Linux, on every architecture that Python supports; the module `mmap` does not name it."""
_FAILED = (1 << 64) - 1


class FileCondition(enum.Enum):
    """The condition of a ring's file; the value states it in a sentence."""

    WHOLE = "kept"
    REMOVED = "removed"
    CUT = "cut short"


@contextlib.contextmanager
def new_file(path: Path, size: int) -> Iterator[int]:
    """Open a new file with `size` bytes, to read and write, that gets its name at the end.

    All its blocks are allocated: a store into a hole in a full file system would end the process.

    Raises:
        OSError: the folder cannot be written, or the file system is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_MODE)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = open_new(temporary, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)
        yield handle
        os.fchmod(handle, _MODE)
        os.rename(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def renew(mapped: mmap.mmap, content: bytes | None, path: Path) -> None:
    """Map a new file at `path` over `mapped`, whose address stays.

    It holds `content`. If that is None, the file behind `mapped` is whole and is copied.

    Raises:
        OSError: no file can be created; with `content`, `mapped` is private memory then.
    """
    try:
        with new_file(path, len(mapped)) as handle, mmap.mmap(handle, len(mapped)) as fresh:
            map_over = _mapper(mapped)
            # From here on no call releases the interpreter's lock on purpose.
            fresh[:] = mapped[:] if content is None else content
            map_over(handle, mmap.MAP_SHARED)
    except OSError:
        if content is not None:
            _mapper(mapped)(-1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            mapped[:] = content
        raise


def _mapper(mapped: mmap.mmap) -> Callable[[int, int], None]:
    """Return a function that maps a file, or memory (-1), over `mapped`; it raises OSError."""
    import ctypes  # imported only here: most ranks never need it

    libc = ctypes.PyDLL(None, use_errno=True)  # unlike CDLL it keeps the interpreter's lock
    libc.mmap.restype = ctypes.c_size_t
    libc.mmap.argtypes = [
        *(ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
    ]
    address, size = ctypes.addressof(ctypes.c_char.from_buffer(mapped)), len(mapped)
    reach = mmap.PROT_READ | mmap.PROT_WRITE

    def map_over(handle: int, flags: int) -> None:
        if libc.mmap(address, size, reach, flags | _MAP_FIXED, handle, 0) == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return map_over
