"""A client's access to a collector: its token, and the certificates that it trusts."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

from stepwatch.signals import places
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import file_problem

from .files import Stamp, stamp_of
from .tokens import TokenFile

logger = logging.getLogger(__name__)


class Access:
    """One client's token and trust. Certificates are always verified; this cannot be disabled.

    `token_file` holds the bearer token. `ca` holds the certificates (PEM) of the authorities that
    may sign the collector's; without it those of this system apply. Both files may be replaced
    meanwhile.

    Raises:
        ConfigurationError: a file cannot be used.
    """

    def __init__(self, token_file: Path | None = None, ca: Path | None = None) -> None:
        self._token = TokenFile(token_file) if token_file else None
        self._ca = ca
        self._stamp: Stamp = stamp_of(ca) if ca else None
        self._context = _trusting(ca) if ca else None

    @classmethod
    def from_options(cls, token_file: str | None, ca: str | None) -> Access:
        """Build it from option values, else from `STEPWATCH_TOKEN_FILE` and `STEPWATCH_CA`."""
        path = token_file or os.environ.get(places.ENV_TOKEN_FILE)
        trusted = ca or os.environ.get(places.ENV_CA)
        return cls(Path(path) if path else None, Path(trusted) if trusted else None)

    @property
    def presents_token(self) -> bool:
        """Return whether requests carry a token."""
        return self._token is not None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context: it trusts only `ca`, or the authorities of this system."""
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context

    def authorization(self) -> str | None:
        """Return the header's value for the next request; reads changed files again."""
        self._trust_again()
        return None if self._token is None else f"Bearer {self._token.current()}"

    def _trust_again(self) -> None:
        """Trust new certificates in `ca`, too, from the next connection on."""
        if self._ca is None or self._context is None:
            return
        now = stamp_of(self._ca)
        if now == self._stamp:
            return
        self._stamp = now
        try:
            self._context.load_verify_locations(self._ca)
        except OSError as error:
            logger.warning("the CAs read before stay in use: cannot read %s: %s", self._ca, error)


def _trusting(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # SSLError is one
        reason = (
            "it holds no certificate" if isinstance(error, ssl.SSLError) else file_problem(error)
        )
        raise ConfigurationError(
            f"cannot use the CA file {ca}: {reason}; pass --ca FILE with certificates in PEM"
        ) from error
