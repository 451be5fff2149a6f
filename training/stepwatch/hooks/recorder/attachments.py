"""A Watch's attachments to the trainer's objects, so that closing the Watch removes them."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from stepwatch.hooks.guard import Guard, guarded

_ABSENT = object()


class Removable(Protocol):
    """A torch handle, or a similar object; it keeps no trainer object alive."""

    def remove(self) -> None:
        """Remove the handle's attachment."""


class Attachments:
    """One Watch's hooks and replaced attributes.

    An attachment that cannot be removed, because the trainer has wrapped it meanwhile, stays and
    does nothing: each hook checks that its recorder has no timeline any more.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._handles: list[Removable] = []

    def keep(self, handle: Removable) -> None:
        """Remove `handle` when the Watch closes."""
        self._handles.append(handle)

    def has(self, value: Any) -> bool:
        """Return whether `value` already replaces another one for this Watch.

        A trainer's wrapper that copies its original's attributes counts as well.
        """
        return getattr(value, "stepwatch_by", None) is self

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner`'s attribute `name` to a function or an object, until the Watch closes."""
        marked = getattr(value, "__func__", value)
        marked.stepwatch_by = self
        marked.stepwatch_stead = owner.__dict__.get(name, _ABSENT)
        setattr(owner, name, value)
        self.keep(_Replaced(owner, name, marked))

    def remove_all(self) -> None:
        """Remove every attachment, the newest first."""
        while self._handles:
            self._remove(self._handles.pop())

    @guarded()
    def _remove(self, handle: Removable) -> None:
        handle.remove()


class _Replaced:
    """A replaced attribute; only the replacement knows the original."""

    def __init__(self, owner: Any, name: str, marked: Any) -> None:
        self._owner = weakref.ref(owner)
        self._name = name
        self._marked = weakref.ref(marked)

    def remove(self) -> None:
        """Restore the original, unless the trainer has replaced it since."""
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
