"""The options of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .limits import Limits
from .result import FileDigest


@dataclass(frozen=True)
class Options:
    """The options of a verification.

    `timeout_s` is in seconds and `rate` in bytes a second, both without a limit if None. `expected`
    maps relative paths to earlier digests. With `digests` the report has those of all files. With
    `owner`, a user id, only that user's files and folders are read.
    """

    timeout_s: float | None = None
    rate: float | None = None
    digests: bool = False
    expected: Mapping[str, FileDigest] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    owner: int | None = None
