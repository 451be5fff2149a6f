"""A pickle machine that imports nothing and calls nothing.

Opcodes come from `pickletools`. A global becomes a `Name`, a call becomes a `Call`. Values may
share parts without bound, so that no function here compares, hashes or prints a container.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

Value = Any
"""None, a number, str, bytes, list, tuple, or one of the types below."""


class PickleError(Exception):
    """A pickle that cannot be parsed; the message is the reason."""


class Source(Protocol):
    """The file object that `pickletools` reads."""

    def read(self, count: int, /) -> bytes:
        """Return at most `count` bytes."""
        ...

    def readline(self) -> bytes:
        """Return one line."""
        ...


@dataclass(slots=True, eq=False)
class Name:
    """A global: `torch._utils` and `_rebuild_tensor_v2`."""

    module: str
    name: str


@dataclass(slots=True, eq=False)
class Pairs:
    """A dictionary as its pairs, in order."""

    pairs: list[tuple[Value, Value]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Call:
    """The object that a load would make by calling `function`."""

    function: Value
    arguments: Value
    state: Value = None
    pairs: list[tuple[Value, Value]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Stored:
    """An object outside the pickle, such as a tensor's storage, by its persistent id."""

    id: Value


@dataclass
class Pickle:
    """One parsed pickle.

    `names` maps each (module, name) to whether a load calls it; `computed` lists callables without
    a name. `error` is the reason why parsing ended early; names before it are complete.
    """

    root: Value = None
    names: dict[tuple[str, str], bool] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    error: str | None = None

    def made_by(self, module: str, name: str) -> Iterator[Call]:
        """Yield the objects of a type."""
        for call in self.calls:
            function = call.function
            if isinstance(function, Name) and (function.module, function.name) == (module, name):
                yield call


_OPAQUE = Name("", "opaque")
_LONGEST_STRING = 4096
"""Characters of a string that are kept for the search of secrets."""


def read_pickle(source: Source, check: Callable[[], None] | None = None) -> Pickle:
    """Parse one pickle up to its STOP.

    `check` is called now and then and may raise to end a long parse.
    """
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(source)):  # type: ignore[arg-type]
            if check is not None and not count % 65536:
                check()
            machine.step(opcode.name, argument)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        text = "its stack is wrong" if not isinstance(error, ValueError) else str(error)
        machine.pickle.error = text[:120]
    return machine.pickle


def entries(value: Value) -> list[tuple[Value, Value]]:
    """Return the pairs of a dictionary, of a subclass of one, or of an object's attributes."""
    if isinstance(value, Pairs):
        return value.pairs
    if isinstance(value, Call):
        return [*value.pairs, *(value.state.pairs if isinstance(value.state, Pairs) else ())]
    return []


class _Machine:
    def __init__(self) -> None:
        self.pickle = Pickle()
        self.stack: list[Value] = []
        self.outer: list[list[Value]] = []
        self.memo: dict[int, Value] = {}

    def step(self, opcode: str, argument: Value) -> None:
        handler = _HANDLERS.get(opcode)
        if handler is not None:
            handler(self, argument)
        elif opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode])
        elif opcode not in _IGNORED:  # all others push their argument
            if isinstance(argument, str):
                self.pickle.strings.append(argument[:_LONGEST_STRING])
            self.stack.append(argument)

    def from_mark(self) -> list[Value]:
        """Return the values above the newest mark, and remove both."""
        values, self.stack = self.stack, self.outer.pop()
        return values

    def name(self, module: Value, name: Value, *, called: bool = False) -> Value:
        if not isinstance(module, str) or not isinstance(name, str):
            self.pickle.computed.append("a name that is computed")
            return _OPAQUE
        key = (module, name)
        self.pickle.names[key] = self.pickle.names.get(key, False) or called
        return Name(module, name)

    def call(self, function: Value, arguments: Value, *, creates: bool = False) -> Value:
        if not isinstance(function, Name):
            self.pickle.computed.append("the result of a call")
            return _OPAQUE
        key = (function.module, function.name)
        if key in _GETATTR:
            return self._attribute(arguments)
        if not creates and key in _CREATORS:
            creates = True
            if isinstance(arguments, tuple) and arguments and not isinstance(arguments[0], Name):
                self.pickle.computed.append("a class that is computed")
        if not creates:
            self.pickle.names[key] = True
        result = Call(function, arguments)
        self.pickle.calls.append(result)
        return result

    def _attribute(self, arguments: Value) -> Value:
        """Return `getattr(global, "name")` as a name; Python 3.11 pickles enum members so."""
        match arguments:
            case (Name(module=module, name=name), str(attribute)):
                return self.name(module, f"{name}.{attribute}")
        self.pickle.computed.append("an attribute that is computed")
        return _OPAQUE


_GETATTR = {("builtins", "getattr"), ("__builtin__", "getattr")}
_CREATORS = {
    ("copyreg", "_reconstructor"),
    ("copy_reg", "_reconstructor"),
    ("copyreg", "__newobj__"),
    ("copyreg", "__newobj_ex__"),
}
"""They create an instance of their first argument."""
_CONSTANTS: dict[str, Value] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_IGNORED = frozenset({"PROTO", "FRAME", "READONLY_BUFFER"})


def _pairs(values: list[Value]) -> list[tuple[Value, Value]]:
    return list(zip(values[::2], values[1::2], strict=True))


def _mark(machine: _Machine, _: Value) -> None:
    machine.outer.append(machine.stack)
    machine.stack = []


def _pop(machine: _Machine, _: Value) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.from_mark()


def _pop_mark(machine: _Machine, _: Value) -> None:
    machine.from_mark()


def _extend(machine: _Machine, values: list[Value]) -> None:
    target = machine.stack[-1]
    if isinstance(target, list):
        target.extend(values)
    elif not isinstance(target, Call | Name):
        raise IndexError


def _set_pairs(machine: _Machine, values: list[Value]) -> None:
    target = machine.stack[-1]
    if isinstance(target, Pairs | Call):
        target.pairs.extend(_pairs(values))
    elif not isinstance(target, Name):
        raise IndexError


def _build(machine: _Machine, _: Value) -> None:
    state = machine.stack.pop()
    if isinstance(machine.stack[-1], Call):
        machine.stack[-1].state = state


def _stop(machine: _Machine, _: Value) -> None:
    machine.pickle.root = machine.stack.pop()


def _from_mark(convert: Callable[[list[Value]], Value]) -> Callable[[_Machine, Value], None]:
    def handle(machine: _Machine, _: Value) -> None:
        values = machine.from_mark()  # it replaces the stack: the append comes second
        machine.stack.append(convert(values))

    return handle


def _tuple_of(count: int) -> Callable[[_Machine, Value], None]:
    def handle(machine: _Machine, _: Value) -> None:
        if len(machine.stack) < count:
            raise IndexError
        machine.stack[-count:] = [tuple(machine.stack[-count:])]

    return handle


def _stored(machine: _Machine, argument: Value) -> None:
    stored = Stored(argument if argument is not None else machine.stack.pop())
    machine.pickle.stored.append(stored)
    machine.stack.append(stored)


def _global(machine: _Machine, argument: str) -> None:
    machine.stack.append(machine.name(*argument.split(" ", 1)))


def _stack_global(machine: _Machine, _: Value) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(machine.name(module, name))


def _inst(machine: _Machine, argument: str) -> None:
    arguments = tuple(machine.from_mark())
    machine.stack.append(machine.call(machine.name(*argument.split(" ", 1)), arguments))


def _obj(machine: _Machine, _: Value) -> None:
    function, *arguments = machine.from_mark()
    machine.stack.append(machine.call(function, tuple(arguments)))


def _reduce(machine: _Machine, _: Value) -> None:
    arguments, function = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(machine.call(function, arguments))


def _new(machine: _Machine, _: Value) -> None:
    arguments, function = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(machine.call(function, arguments, creates=True))


def _new_with_keywords(machine: _Machine, _: Value) -> None:
    machine.stack.pop()
    _new(machine, None)


def _extension(machine: _Machine, argument: int) -> None:
    machine.pickle.computed.append(f"extension {argument} of copyreg")
    machine.stack.append(_OPAQUE)


def _get(machine: _Machine, argument: Value) -> None:
    machine.stack.append(machine.memo[int(argument)])


def _put(machine: _Machine, argument: Value) -> None:
    machine.memo[int(argument)] = machine.stack[-1]


_HANDLERS: dict[str, Callable[[_Machine, Value], None]] = {
    "MARK": _mark,
    "POP": _pop,
    "POP_MARK": _pop_mark,
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "EMPTY_SET": lambda machine, _: machine.stack.append([]),
    "EMPTY_TUPLE": lambda machine, _: machine.stack.append(()),
    "EMPTY_DICT": lambda machine, _: machine.stack.append(Pairs()),
    "LIST": _from_mark(list),
    "FROZENSET": _from_mark(list),
    "TUPLE": _from_mark(tuple),
    "DICT": _from_mark(lambda values: Pairs(_pairs(values))),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "APPEND": lambda machine, _: _extend(machine, [machine.stack.pop()]),
    "APPENDS": lambda machine, _: _extend(machine, machine.from_mark()),
    "ADDITEMS": lambda machine, _: _extend(machine, machine.from_mark()),
    "SETITEM": lambda machine, _: _set_pairs(
        machine, [machine.stack.pop(), machine.stack.pop()][::-1]
    ),
    "SETITEMS": lambda machine, _: _set_pairs(machine, machine.from_mark()),
    "GET": _get,
    "BINGET": _get,
    "LONG_BINGET": _get,
    "PUT": _put,
    "BINPUT": _put,
    "LONG_BINPUT": _put,
    "MEMOIZE": lambda machine, _: _put(machine, len(machine.memo)),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "INST": _inst,
    "OBJ": _obj,
    "REDUCE": _reduce,
    "NEWOBJ": _new,
    "NEWOBJ_EX": _new_with_keywords,
    "BUILD": _build,
    "PERSID": _stored,
    "BINPERSID": _stored,
    "EXT1": _extension,
    "EXT2": _extension,
    "EXT4": _extension,
    "NEXT_BUFFER": lambda machine, _: machine.stack.append(_OPAQUE),
    "STOP": _stop,
}
