"""Files by `torch.save`: a zip archive with `data.pkl` and one member a storage.

TorchScript archives and other zip archives are checked by their CRCs; their pickles are scanned.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.pickles import Name, Pickle, Stored, read_pickle
from stepwatch.agent.checkpoints.reading import DamageError, Session, UncheckableError, Window
from stepwatch.agent.checkpoints.result import Weight
from stepwatch.agent.checkpoints.sweep import DEFLATED, Span

from .pickle_facts import add_pickle
from .torch_types import STORAGE_BYTES
from .zip_archive import Member, read_members


def examine(window: Window, facts: FileFacts, session: Session, *, offset: int = 0) -> None:
    """Add the archive's members, its pickle's values and its problems to `facts`.

    `offset` is the window's place in the file, for an archive inside another file.

    Raises:
        DamageError, UncheckableError: it is no whole archive, or too large to check.
        OSError: the storage cannot be read.
    """
    members = read_members(window, session.limits)
    if unread := [member for member in members if member.method not in (0, DEFLATED)]:
        facts.add(f"its member {unread[0].name} has an unknown compression", Weight.UNKNOWN)
    is_checked = not members or any(member.crc for member in members)
    facts.spans += [
        Span(offset + member.start, offset + member.stop, member.name, member.crc, member.method,
             member.size)
        for member in members
        if is_checked and member.method in (0, DEFLATED)
    ]  # fmt: skip
    if not is_checked:
        facts.add("its writer computed no CRCs: only sizes are checked", Weight.NOTICE)
    for member in members:
        if member.name.endswith(".pkl") and member.method == 0:
            pickle = _pickle_of(window, member, session)
            add_pickle(facts, pickle, is_root=member.name.endswith("data.pkl"))
            if member.name.endswith("data.pkl") and pickle.error is None:
                _check_storages(facts, member.name[: -len("data.pkl")], members, pickle)
    if not offset:
        facts.format = _format(members)


def _format(members: Iterable[Member]) -> str:
    names = [member.name for member in members]
    if any("/code/" in name for name in names):
        return "torchscript"
    return "torch" if any(name.endswith("data.pkl") for name in names) else "zip"


def _pickle_of(window: Window, member: Member, session: Session) -> Pickle:
    if member.size > session.limits.pickle_bytes:
        raise UncheckableError(f"its pickle {member.name} has {member.size} bytes")
    data = window.read(member.start, member.size)
    if len(data) < member.size:
        raise DamageError(f"its member {member.name} is cut short")
    file = io.BytesIO(data)
    pickle = read_pickle(file, session.check_deadline)
    if pickle.error is None and file.tell() != member.size:
        pickle.error = f"{member.size - file.tell()} bytes follow its end"
    return pickle


def _check_storages(
    facts: FileFacts, prefix: str, members: Iterable[Member], pickle: Pickle
) -> None:
    """Compare the storages that the pickle names with the members."""
    sizes = {member.name: member.size for member in members}
    for key, size in storages(pickle).items():
        member_size = sizes.get(f"{prefix}data/{key}")
        if member_size is None:
            facts.add(f"the storage {key} of its tensors is missing")
        elif size is not None and member_size != size:
            facts.add(f"its storage {key} has {member_size} bytes instead of {size}")
    for key, (needed, size) in extents(pickle).items():
        if needed > size:
            facts.add(f"a tensor needs {needed} elements of storage {key}, which has {size}")


def storages(pickle: Pickle) -> dict[str, int | None]:
    """Return bytes by key for each storage that a pickle names; None with an unknown type."""
    sizes: dict[str, int | None] = {}
    for stored in pickle.stored:
        match stored.id:
            case ("storage", Name(name=kind), str(key), str(location), int(count), *_):
                if location != "meta":
                    element = STORAGE_BYTES.get(kind)
                    sizes[key] = None if element is None else element * count
    return sizes


def extents(pickle: Pickle) -> dict[str, tuple[int, int]]:
    """Return by storage key the elements that its tensors need at most, and those it has."""
    needs: dict[str, tuple[int, int]] = {}
    for call in pickle.made_by("torch._utils", "_rebuild_tensor_v2"):
        match call.arguments:
            case (Stored(id=("storage", Name(), str(key), str(), int(count), *_)), int(offset),
                  tuple(shape), tuple(stride), *_):  # fmt: skip
                if not all(isinstance(number, int) for number in (*shape, *stride)):
                    continue
                last = sum((n - 1) * step for n, step in zip(shape, stride, strict=False))
                needed = offset + last + 1 if all(shape) else 0
                needs[key] = (max(needed, needs.get(key, (0, 0))[0]), count)
    return needs
