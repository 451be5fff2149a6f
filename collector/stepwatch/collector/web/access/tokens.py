"""Bearer tokens by role, from files that may change at runtime."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals import places
from stepwatch.signals.access import checked_token, read_small, stamp_of, warn_of_readers
from stepwatch.signals.access.files import Stamp
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import file_problem

from .roles import EVERYTHING, Role

logger = logging.getLogger(__name__)

MOST_TOKENS = 20_000
"""Limit over all files: one per node in a store."""
SHORT = 16
"""A token with fewer characters can be guessed."""


_KEY = secrets.token_bytes(32)


class Grant(NamedTuple):
    """One token's permissions; `node` is the only node it may send for, empty for any."""

    digest: bytes
    roles: frozenset[Role]
    node: str = ""


class Tokens:
    """Known tokens as digests; the tokens themselves are not stored.

    Digests are keyed with a per-process secret, so no client can choose tokens with similar
    digests: lookup time reveals nothing about a token.
    """

    def __init__(self, grants: Iterable[Grant]) -> None:
        self._grants = {grant.digest: grant for grant in grants}

    @classmethod
    def single(cls, token: str) -> Tokens:
        """Return one token with all roles."""
        return cls([Grant(_digest(token.encode()), EVERYTHING)])

    def find(self, presented: bytes) -> Grant | None:
        """Return a presented token's grant, if any."""
        return self._grants.get(_digest(presented))

    def described(self) -> str:
        """Return the token count per role, for the log."""
        counts = Counter("+".join(sorted(grant.roles)) for grant in self._grants.values())
        return ", ".join(f"{count} {roles}" for roles, count in sorted(counts.items()))


class TokenFiles:
    """Token files per role, and their current tokens.

    Each line is a token. In a file with `Role.INGEST` alone, a line may be a node name and a token,
    which binds the token to that node. Empty lines and `#` comments are skipped. Two lines are two
    valid tokens: add the new one, replace it at the clients, then remove the old one.

    Raises:
        ConfigurationError: a file cannot be read, has no token, or has an invalid line.
    """

    def __init__(self, files: Sequence[tuple[Path, frozenset[Role]]]) -> None:
        self._files = tuple(files)
        self._stamps = self._look()
        self.tokens = self._read()

    def refresh(self) -> None:
        """Reread the files if one changed.

        On an error the old tokens stay and the error is logged.
        """
        stamps = self._look()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self.tokens = self._read()
        except ConfigurationError as error:
            logger.error("the tokens read before stay in force: %s", error)
        else:
            logger.info("read the tokens again: %s", self.tokens.described())

    def _look(self) -> list[Stamp]:
        return [stamp_of(path) for path, _ in self._files]

    def _read(self) -> Tokens:
        grants = [grant for path, roles in self._files for grant in _grants_in(path, roles)]
        if len(grants) > MOST_TOKENS:
            raise ConfigurationError(f"{len(grants)} tokens; give at most {MOST_TOKENS}")
        return Tokens(_joined(grants))


def _grants_in(path: Path, roles: frozenset[Role]) -> Iterator[Grant]:
    try:
        lines = read_small(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read the token file {path}: {file_problem(error)}"
        ) from error
    warn_of_readers(path)
    entries = [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not entries:
        raise ConfigurationError(f"the token file {path} is empty; put one token on each line")
    for words in entries:
        yield _grant(words, path, roles)


def _grant(words: list[str], path: Path, roles: frozenset[Role]) -> Grant:
    *node, token = words
    if node and (roles != {Role.INGEST} or len(node) > 1):
        raise ConfigurationError(
            f"{path}: a line is one token; in an --ingest-token-file also NODE TOKEN"
        )
    if len(checked_token(token, path)) < SHORT:
        logger.warning("%s: a token of fewer than %d characters can be guessed: openssl rand "
                       "-hex 32 makes a better one", path, SHORT)  # fmt: skip
    name = places.checked_name(node[0], f"{path}: node") if node else ""
    return Grant(_digest(token.encode()), roles, name)


def _joined(grants: Iterable[Grant]) -> Iterator[Grant]:
    """Yield one grant per token: a token in two files has the roles from both."""
    by_digest: dict[bytes, Grant] = {}
    for grant in grants:
        previous = by_digest.get(grant.digest)
        if previous is not None and previous.node != grant.node:
            raise ConfigurationError(
                f"one token is bound to node {previous.node or 'any'!r} and to "
                f"{grant.node or 'any'!r}; give each node one of its own"
            )
        by_digest[grant.digest] = grant if previous is None else previous._replace(
            roles=previous.roles | grant.roles
        )  # fmt: skip
    yield from by_digest.values()


def _digest(token: bytes) -> bytes:
    return hmac.digest(_KEY, token, "sha256")
