"""Files by `torch.save` before 1.6, and without its zip format since.

Five pickles (magic number, protocol, system, the object, storage keys), then each storage: its
number of elements as int64, and its bytes.
"""

from __future__ import annotations

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.pickles import Pickle, read_pickle
from stepwatch.agent.checkpoints.reading import DamageError, Session, Window, WindowFile

from .pickle_facts import add_pickle
from .torch_zip import storages

MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""The first pickle: 0x1950a86a20f9469cfc6c."""
_BEFORE, _AFTER = 3, 1
"""Pickles before and after the object's."""


def examine(window: Window, facts: FileFacts, session: Session) -> None:
    """Add the object's values and the problems of pickles and storages to `facts`.

    Raises:
        DamageError: it is cut short.
        UncheckableError: a pickle is larger than the limit.
        OSError: the storage cannot be read.
    """
    facts.format = "torch-legacy"
    file = WindowFile(window, session.limits.pickle_bytes)
    pickles: list[Pickle] = []
    for _ in range(_BEFORE + 1 + _AFTER):
        pickle = read_pickle(file, session.check_deadline)
        add_pickle(facts, pickle, is_root=len(pickles) == _BEFORE)
        if pickle.error is not None:
            return
        pickles.append(pickle)
    keys = pickles[-1].root
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise DamageError("its list of storages is damaged")
    sizes = storages(pickles[_BEFORE])
    if missing := [key for key in sizes if key not in keys]:
        facts.add(f"the storage {missing[0]} of its tensors is missing")
    _check_places(window, file.tell(), [(key, sizes.get(key)) for key in keys])


def _check_places(
    window: Window, position: int, storage_sizes: list[tuple[str, int | None]]
) -> None:
    """Follow the storages to the end of the file."""
    for index, (_, size) in enumerate(storage_sizes):
        header = window.read(position, 8)
        if len(header) < 8:
            raise DamageError(f"it is cut short at its storage {index}")
        if size is None:
            return
        count = int.from_bytes(header, "little")
        if (count == 0) != (size == 0) or (count and size % count):
            raise DamageError(f"its storage {index} has {count} elements for {size} bytes")
        position += 8 + size
    if position > window.size:
        raise DamageError(f"it is cut short: {window.size} bytes instead of {position}")
    if position < window.size:
        raise DamageError(f"{window.size - position} bytes follow its end")
