"""Vocabulary that all parts share: records, names, wire format, clock, errors.

It needs numpy; the wire format also needs zstandard, which agent and collector install.
`__version__` is here, because `stepwatch` itself is a namespace, which holds no module.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name):
        # Read only on demand: a trainer does not wait for the metadata search.
        if name == "__version__":
            from .version import version

            return version() or "unknown"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
