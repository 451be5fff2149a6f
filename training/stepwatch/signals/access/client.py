"""How a client reaches a collector: with which token, and whose certificates it trusts."""

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
    """Token and trust of one client. Certificates are always verified; there is no way not to.

    `token_file` holds the bearer token, `ca` the certificates (PEM) of those who may sign the
    collector's; without it these are the usual public ones. Both files may be replaced meanwhile.

    Raises:
        ConfigurationError: a file cannot be used.
    """

    def __init__(self, token_file: Path | None = None, ca: Path | None = None) -> None:
        self._token = TokenFile(token_file) if token_file else None
        self._ca = ca
        self._stamp: Stamp = stamp_of(ca) if ca else None
        self._context = _trusting(ca) if ca else None

    @classmethod
    def of(cls, token_file: str | None, ca: str | None) -> Access:
        """From an option's values, else from `STEPWATCH_TOKEN_FILE` and `STEPWATCH_CA`."""
        path = token_file or os.environ.get(places.ENV_TOKEN_FILE)
        trusted = ca or os.environ.get(places.ENV_CA)
        return cls(Path(path) if path else None, Path(trusted) if trusted else None)

    @property
    def presents_token(self) -> bool:
        """Whether requests carry a token."""
        return self._token is not None

    @property
    def verify(self) -> ssl.SSLContext | bool:
        """What httpx takes for `verify`: a context that trusts `ca` alone, or the public ones."""
        return True if self._context is None else self._context

    def authorization(self) -> str | None:
        """The header's value for the next request; takes up files that changed."""
        self._trust_again()
        return None if self._token is None else f"Bearer {self._token.current()}"

    def _trust_again(self) -> None:
        """Trust the certificates that were added to `ca`, too, from the next connection on."""
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
