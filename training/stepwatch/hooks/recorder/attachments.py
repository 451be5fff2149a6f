"""What a Watch puts on objects of the trainer, so that closing it takes that off again."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from stepwatch.hooks.guard import Guard, guarded

_ABSENT = object()


class Removable(Protocol):
    """A handle of torch's, or one that behaves so; it keeps no object of the trainer alive."""

    def remove(self) -> None:
        """Take off what the handle stands for."""


class Attachments:
    """Hooks and replaced attributes of one Watch.

    What it cannot take off, since the trainer has wrapped it meanwhile, stays and does nothing:
    that is up to each hook, which sees that its recorder has no timeline any more.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._handles: list[Removable] = []

    def keep(self, handle: Removable) -> None:
        """Remove `handle` when the Watch closes."""
        self._handles.append(handle)

    def has(self, value: Any) -> bool:
        """Whether `value` stands in for another one already, on behalf of this Watch.

        A wrapper of the trainer's that copies attributes of what it wraps counts as well.
        """
        return getattr(value, "stepwatch_by", None) is self

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set attribute `name` of `owner`, until the Watch closes, to a function or an object."""
        marked = getattr(value, "__func__", value)
        marked.stepwatch_by = self
        marked.stepwatch_stead = owner.__dict__.get(name, _ABSENT)
        setattr(owner, name, value)
        self.keep(_Replaced(owner, name, marked))

    def remove_all(self) -> None:
        """Take everything off, the newest first."""
        while self._handles:
            self._remove(self._handles.pop())

    @guarded()
    def _remove(self, handle: Removable) -> None:
        handle.remove()


class _Replaced:
    """An attribute that was replaced; what it held before is known to what replaced it alone."""

    def __init__(self, owner: Any, name: str, marked: Any) -> None:
        self._owner = weakref.ref(owner)
        self._name = name
        self._marked = weakref.ref(marked)

    def remove(self) -> None:
        """Put back what was there, unless the trainer has replaced it since."""
        owner, marked = self._owner(), self._marked()
        if owner is None or marked is None:
            return
        current = owner.__dict__.get(self._name)
        if getattr(current, "__func__", current) is not marked:
            return
        original = marked.stepwatch_stead
        if original is _ABSENT:
            delattr(owner, self._name)
        else:
            setattr(owner, self._name, original)
