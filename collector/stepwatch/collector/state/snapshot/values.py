"""Python values and numpy arrays as a document with plain lists, and back; never code.

A document holds numbers, texts and lists whose first element is a type tag:

    ["tuple", 1, 2]             ["bytes", "AAE="]
    ["array", 3]                array 3
    ["row", 2, 7]               row 7 of array 2
    ["list", 5, 1, 2]           a list of 1 and 2, which has number 5
    ["map", 6, "a", 1, "b", 2]
    ["object", 7, "collector.state.job:LiveJob", "name", "llama", ...]
    ["same", 5]                 the list a second time

Arrays are stored beside the document, unchanged.
"""

from __future__ import annotations

import base64
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.state.snapshot.classes import known_classes, name_of
from stepwatch.signals.errors import SnapshotError

Array = np.ndarray[Any, np.dtype[Any]]
_PLAIN = (bool, int, float, str, type(None))
DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors raised by reading a damaged document."""
_MONOTONIC = "monotonic_s"
"""Suffix of field names with moments on the collector's monotonic clock."""


class Document(NamedTuple):
    """A serialised value: its structure, and the arrays that it names by number."""

    tree: Any
    arrays: list[Array]


def taken_apart(value: Any) -> Document:
    """Serialise a value; later changes to the value do not affect the document.

    Raises:
        SnapshotError: it holds a value that no document can, or two arrays that share memory.
    """
    writer = _Writer()
    tree = writer.tree(value)
    return Document(tree, writer.finished())


def put_together(document: Document, monotonic_shift_s: float = 0.0) -> Any:
    """Restore the value in a document; monotonic moments move by `monotonic_shift_s`.

    Raises:
        SnapshotError: it is damaged, or names a class that this version does not know.
    """
    try:
        return _Reader(document.arrays, monotonic_shift_s).value(document.tree)
    except DAMAGE as error:
        raise SnapshotError(f"its document is damaged: {error}") from error


class _Writer:
    """Serialises one value; a repeated object is referenced by its number."""

    def __init__(self) -> None:
        self._arrays: list[Array] = []
        self._places: dict[int, int] = {}
        """Index in `_arrays` by array id."""
        self._numbers: dict[int, int] = {}
        self._rows: dict[np.dtype[Any], tuple[int, list[bytes]]] = {}
        self._kept: list[Any] = []
        """All numbered objects: a deleted object could pass its id to another one."""

    def tree(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in _WRITERS:
            return _WRITERS[kind](self, value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.void):
            return self._row(value)
        if isinstance(value, np.generic):
            return ["number", value.dtype.str, value.item()]
        if isinstance(value, Enum):
            return ["enum", _state_class_name(kind), value.value]
        if isinstance(value, type):
            return ["class", _state_class_name(value)]
        if isinstance(value, tuple):
            return ["record", _state_class_name(kind), *map(self.tree, value)]
        return self._object(value)

    def finished(self) -> list[Array]:
        """Return copies of all arrays, with rows of equal dtype combined in one array.

        Raises:
            SnapshotError: two arrays share memory: as copies they would no longer change together.
        """
        _refuse_shared(self._arrays)
        for dtype, (number, rows) in self._rows.items():
            self._arrays[number] = np.frombuffer(b"".join(rows), dtype=dtype)
        return [array.copy() for array in self._arrays]

    def container(self, name: str, value: Any, content: Iterable[Any]) -> Any:
        """Return a container with its number, or a reference if it is repeated."""
        number = self._numbers.get(id(value))
        return ["same", number] if number is not None else [name, self._number(value), *content]

    def _number(self, value: Any) -> int:
        number = self._numbers[id(value)] = len(self._kept)
        self._kept.append(value)
        return number

    def _array(self, value: Array) -> Any:
        if value.dtype.hasobject:
            raise SnapshotError("an array of objects cannot be stored")
        if id(value) not in self._places:
            self._places[id(value)] = len(self._arrays)
            self._arrays.append(value)
        return ["array", self._places[id(value)]]

    def _row(self, value: np.void) -> Any:
        if value.dtype not in self._rows:
            self._rows[value.dtype] = len(self._arrays), []
            self._arrays.append(np.zeros(0, dtype=value.dtype))
        number, rows = self._rows[value.dtype]
        rows.append(value.tobytes())
        return ["row", number, len(rows) - 1]

    def _object(self, value: Any) -> Any:
        name = _state_class_name(type(value))
        fields = (entry for item in vars(value).items() for entry in (item[0], self.tree(item[1])))
        return self.container("object", value, itertools.chain([name], fields))


def _map(writer: _Writer, value: dict[Any, Any]) -> Any:
    return writer.container(
        "map", value, (writer.tree(element) for it in value.items() for element in it)
    )


def _deque(writer: _Writer, value: deque[Any]) -> Any:
    content = itertools.chain([value.maxlen], map(writer.tree, value))
    return writer.container("deque", value, content)


def _mutable(name: str) -> Callable[[_Writer, Any], Any]:
    return lambda writer, value: writer.container(name, value, map(writer.tree, value))


def _fixed(name: str) -> Callable[[_Writer, Any], Any]:
    return lambda writer, value: [name, *map(writer.tree, value)]


_WRITERS: dict[type, Callable[[_Writer, Any], Any]] = {
    dict: _map,
    deque: _deque,
    set: _mutable("set"),
    list: _mutable("list"),
    frozenset: _fixed("frozen"),
    tuple: _fixed("tuple"),
    bytes: lambda _, value: ["bytes", base64.b64encode(value).decode("ascii")],
}


class _Reader:
    """Restores one value."""

    def __init__(self, arrays: list[Array], shift_s: float) -> None:
        self._arrays = arrays
        self._objects: dict[int, Any] = {}
        self._shift_s = shift_s

    def value(self, tree: Any) -> Any:
        if type(tree) in _PLAIN:
            return tree
        name, *content = tree
        return _READERS[name](self, content)

    def values(self, content: list[Any]) -> Iterator[Any]:
        return map(self.value, content)

    def sequence(self, content: list[Any]) -> Any:
        elements: list[Any] = []
        self._objects[content[0]] = elements
        elements.extend(self.values(content[1:]))
        return elements

    def members(self, content: list[Any]) -> Any:
        elements: set[Any] = set()
        self._objects[content[0]] = elements
        elements.update(self.values(content[1:]))
        return elements

    def queue(self, content: list[Any]) -> Any:
        queue: deque[Any] = deque(maxlen=content[1])
        self._objects[content[0]] = queue
        queue.extend(self.values(content[2:]))
        return queue

    def mapping(self, content: list[Any]) -> Any:
        mapping: dict[Any, Any] = {}
        self._objects[content[0]] = mapping
        for key, value in zip(content[1::2], content[2::2], strict=True):
            mapping[self.value(key)] = self.value(value)
        return mapping

    def array(self, content: list[Any]) -> Array:
        array: Array = self._arrays[content[0]]
        return array

    def row(self, content: list[Any]) -> Any:
        # A copy: a view would keep the whole array in memory.
        array, index = self._arrays[content[0]], int(content[1])
        if not 0 <= index < len(array):
            raise SnapshotError("it names a row that is not there")
        return np.frombuffer(array[index].tobytes(), array.dtype)[0]

    def record(self, content: list[Any]) -> Any:
        kind = _class(content[0])
        fields = getattr(kind, "_fields", None)
        if not issubclass(kind, tuple) or fields is None or len(fields) != len(content) - 1:
            raise SnapshotError(f"it holds another {content[0]} than this version")
        values = self.values(content[1:])
        return kind(*map(self._moved, fields, values))

    def object(self, content: list[Any]) -> Any:
        number, kind = content[0], _class(content[1])
        instance: Any = object.__new__(kind)
        self._objects[number] = instance
        names, values = content[2::2], content[3::2]
        for name, tree in zip(names, values, strict=True):
            vars(instance)[name] = self._moved(name, self.value(tree))
        return instance

    def shared(self, content: list[Any]) -> Any:
        return self._objects[content[0]]

    def _moved(self, name: str, value: Any) -> Any:
        if not self._shift_s or not name.endswith(_MONOTONIC) or value is None:
            return value
        if isinstance(value, np.ndarray):
            value += self._shift_s
            return value
        return value + self._shift_s


_READERS: dict[str, Callable[[_Reader, list[Any]], Any]] = {
    "list": _Reader.sequence,
    "set": _Reader.members,
    "deque": _Reader.queue,
    "map": _Reader.mapping,
    "tuple": lambda reader, content: tuple(reader.values(content)),
    "frozen": lambda reader, content: frozenset(reader.values(content)),
    "bytes": lambda _, content: base64.b64decode(content[0], validate=True),
    "number": lambda _, content: _number(*content),
    "enum": lambda _, content: _class(content[0])(content[1]),
    "class": lambda _, content: _class(content[0]),
    "array": _Reader.array,
    "row": _Reader.row,
    "record": _Reader.record,
    "object": _Reader.object,
    "same": _Reader.shared,
}


def _number(descr: str, value: float) -> Any:
    dtype = np.dtype(descr)
    if dtype.kind not in "biuf":
        raise SnapshotError(f"it holds a number of type {descr[:20]}")
    return dtype.type(value)


def _class(name: str) -> type:
    kind = known_classes().get(name)
    if kind is None:
        raise SnapshotError(f"it names {name[:80]}, which this version does not know")
    return kind


def _state_class_name(kind: type) -> str:
    name = name_of(kind)
    if known_classes().get(name) is not kind:
        raise SnapshotError(f"{name} is not a class of the state")
    return name


def _refuse_shared(arrays: list[Array]) -> None:
    spans = sorted((*_span(array), index) for index, array in enumerate(arrays) if array.nbytes)
    for (_, end, lower), (start, _, upper) in itertools.pairwise(spans):
        if start < end:
            shapes = f"{arrays[lower].shape} and {arrays[upper].shape}"
            raise SnapshotError(f"arrays of shapes {shapes} share memory")


def _span(array: Array) -> tuple[int, int]:
    """Return the addresses of the first byte and behind the last byte."""
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    start = int(array.__array_interface__["data"][0])
    low = start + sum(step for step in steps if step < 0)
    return low, start + sum(step for step in steps if step > 0) + array.itemsize
