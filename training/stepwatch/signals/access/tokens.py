"""A client's bearer token, from a file that may be replaced while it runs."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import file_problem

from .files import Stamp, read_small, stamp_of, warn_of_readers

logger = logging.getLogger(__name__)

_TOKEN = re.compile(r"[!-~]{1,512}")


def checked_token(text: str, path: str | Path) -> str:
    """Return `text` if it can travel in a header; the error shows nothing from it.

    Raises:
        ConfigurationError: it is empty, too long, or holds a space or a character that is not
            visible ASCII.
    """
    if not _TOKEN.fullmatch(text):
        raise ConfigurationError(
            f"{path}: a token is 1 to 512 visible ASCII characters without a space; "
            f"make one: openssl rand -hex 32 > {path}"
        )
    return text


def read_token(path: str | Path | None) -> str | None:
    """Read a bearer token from a file's first line; None if no file is named.

    One log line warns if other users can read the file.

    Raises:
        ConfigurationError: the file cannot be read, is empty, or holds no token.
    """
    if not path:
        return None
    try:
        lines = read_small(Path(path)).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read the token file {path}: {file_problem(error)}"
        ) from error
    if not lines or not lines[0].strip():
        raise ConfigurationError(f"the token file {path} is empty; put one token on its first line")
    token = checked_token(lines[0].strip(), path)
    warn_of_readers(Path(path))
    return token


class TokenFile:
    """The token in a file, read again after a change: replacing it needs no restart.

    Raises:
        ConfigurationError: the file cannot be read or holds no token.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: Stamp = stamp_of(path)
        self._token = read_token(path) or ""

    def current(self) -> str:
        """Return the newest token; the previous one if the file holds none any more."""
        now = stamp_of(self._path)
        if now != self._stamp:
            self._stamp = now
            self._read_again()
        return self._token

    def _read_again(self) -> None:
        try:
            self._token = read_token(self._path) or ""
        except ConfigurationError as error:
            logger.warning("the token read before stays in use: %s", error)
        else:
            logger.info("read the token in %s again", self._path)
