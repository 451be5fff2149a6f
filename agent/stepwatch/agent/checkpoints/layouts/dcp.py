"""torch.distributed.checkpoint: `.metadata` names each item's file, offset and length.

`torch.distributed.checkpoint.filesystem` of torch 2.13: `__<rank>_<file>.distcp`, each item by
`torch.save`.
"""

from __future__ import annotations

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.folder import Folder
from stepwatch.agent.checkpoints.formats import torch_zip
from stepwatch.agent.checkpoints.formats.pickle_facts import add_pickle
from stepwatch.agent.checkpoints.formats.zip_archive import LOCAL
from stepwatch.agent.checkpoints.pickles import entries, read_pickle
from stepwatch.agent.checkpoints.reading import DamageError, Session, Window, WindowFile
from stepwatch.agent.checkpoints.result import Weight

NAME = "dcp"
METADATA = ".metadata"
_SUFFIX = ".distcp"


def recognizes(folder: Folder) -> bool:
    """Return whether the folder has DCP's metadata or data."""
    return METADATA in folder.files or any(name.endswith(_SUFFIX) for name in folder.files)


def read_metadata(window: Window, facts: FileFacts, session: Session) -> None:
    """Add the items that `.metadata` lists to `facts`; the pickle is scanned, never loaded.

    Raises:
        DamageError: it is damaged.
        UncheckableError: it is larger than the limit.
        OSError: the storage cannot be read.
    """
    facts.format = "dcp-metadata"
    if not window.size:
        raise DamageError("it is empty")
    pickle = read_pickle(WindowFile(window, session.limits.pickle_bytes), session.check_deadline)
    add_pickle(facts, pickle)
    if pickle.error is not None:
        return
    for info in pickle.made_by("torch.distributed.checkpoint.filesystem", "_StorageInfo"):
        values = dict((key, value) for key, value in entries(info) if isinstance(key, str))
        match values:
            case {"relative_path": str(path), "offset": int(offset), "length": int(length)}:
                if path.startswith("/") or ".." in path.split("/") or min(offset, length) < 0:
                    raise DamageError(f"it names the file {path[:80]!r}")
                facts.items.setdefault(path, []).append((offset, length))
            case _:
                raise DamageError("an item in it has no file, offset or length")
    if not facts.items and "storage_data" not in facts.keys:
        facts.add("it holds no metadata of a checkpoint")


def examine_items(
    window: Window, items: list[tuple[int, int]], facts: FileFacts, session: Session
) -> None:
    """Examine each item of a data file; most are archives by `torch.save`.

    Raises:
        DamageError: an item is damaged, or reaches beyond the file.
        UncheckableError: an item is too large to check.
        OSError: the storage cannot be read.
    """
    facts.format = "dcp"
    ordered = sorted(set(items))
    end = max(offset + length for offset, length in ordered)
    if end > window.size:
        raise DamageError(f"it is cut short: {window.size} bytes instead of {end}")
    others = []
    for offset, length in ordered:
        session.check_deadline()
        part = window.part(offset, length)
        if not part.read(0, 4).startswith(LOCAL):
            others.append(offset)
            continue
        try:
            torch_zip.examine(part, facts, session, offset=offset)
        except DamageError as error:
            facts.add(f"its item at byte {offset}: {error}")
    if others and len(others) < len(ordered):
        raise DamageError(f"its item at byte {others[0]} is no archive")
    if others:
        facts.add("its items are not by torch.save: only sizes are checked", Weight.NOTICE)


def check(folder: Folder) -> None:
    """Compare the metadata with the data files."""
    metadata = folder.files.get(METADATA)
    if metadata is None:
        folder.missing(METADATA, ": the save did not end")
        return
    for name in sorted(metadata.items):
        if "/" not in name and name not in folder.files:
            folder.missing(name)
    others = [n for n in folder.files if n.endswith(_SUFFIX) and n not in metadata.items]
    if others and metadata.items:
        folder.add(sorted(others)[0], "its metadata does not name it", Weight.NOTICE)
