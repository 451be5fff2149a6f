"""The collector's TLS certificate, which may be renewed at runtime."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from stepwatch.signals.access import stamp_of, warn_of_readers
from stepwatch.signals.errors import ConfigurationError

logger = logging.getLogger(__name__)


class Certificate:
    """A TLS context for a PEM certificate chain and its key; TLS 1.2 and later.

    Raises:
        ConfigurationError: the files cannot be read or do not match.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain, self._key = chain, key
        self._stamps = self._look()
        self.context = self._load()
        warn_of_readers(key)

    def refresh(self) -> None:
        """Reload changed files for new connections.

        A new certificate takes effect once its key has arrived, too.
        """
        stamps = self._look()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._load()  # a mismatched key would leave the context without a certificate
            self.context.load_cert_chain(self._chain, self._key, _no_password)
        except (ConfigurationError, OSError) as error:
            logger.error("the certificate read before stays in use: %s", error)
        else:
            logger.info("read the certificate %s again", self._chain)

    def _look(self) -> tuple[object, ...]:
        return stamp_of(self._chain), stamp_of(self._key)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self._chain, self._key, _no_password)
        except OSError as error:  # SSLError is one
            raise ConfigurationError(
                f"cannot use the certificate {self._chain} with the key {self._key}: "
                f"{_reason(error)}"
            ) from error
        return context


def _no_password() -> bytes:
    """Return an empty password instead of a prompt on the terminal."""
    return b""


def _reason(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is of another certificate"
    return "one of them is not a PEM file, or the key has a password"
