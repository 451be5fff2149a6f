"""Explains in one line why a collector accepted nothing, and what to do."""

from __future__ import annotations

import socket
import ssl
from http import HTTPStatus
from typing import NamedTuple

from stepwatch.signals.http import Address, AnswerError, CutOffError, HttpError

AWAY, CERTIFICATE, PLAIN_OR_TLS = "away", "certificate", "plain-or-tls"
TOKEN, FORBIDDEN, BUSY, ANSWER = "token", "forbidden", "busy", "answer"
SPOOL = "spool"
REASONS = (AWAY, CERTIFICATE, PLAIN_OR_TLS, TOKEN, FORBIDDEN, BUSY, ANSWER, SPOOL)
"""Every `reason` for a `Problem`."""
LOOK_SECONDS = 3.0
"""Seconds to find out whether a port without plain HTTP speaks TLS."""

# OpenSSL error numbers (x509_vfy.h, X509_V_ERR_...).
_EXPIRED, _NOT_YET, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64
_UNKNOWN_SIGNER = {2, 18, 19, 20, 21}
_ONLY_PLAIN = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}


class Problem(NamedTuple):
    """A `reason` from `REASONS`, and its explanation."""

    reason: str
    text: str


def of_error(error: Exception, url: Address) -> Problem:
    """Explain an exception from a request to `url`."""
    cause = _tls_error(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Problem(CERTIFICATE, _of_certificate(cause, url))
    if cause is not None and cause.reason in _ONLY_PLAIN:
        return Problem(
            PLAIN_OR_TLS, f"{url.origin} speaks no TLS: pass --collector http://{url.place}, "
            "or start the collector with --tls-cert and --tls-key"
        )  # fmt: skip
    if url.scheme == "http" and isinstance(error, CutOffError) and _speaks_tls(url):
        return Problem(
            PLAIN_OR_TLS, f"{url.place} speaks TLS only: pass --collector https://{url.place}"
        )
    if isinstance(error, AnswerError):
        return Problem(ANSWER, str(error))
    if isinstance(error, HttpError):
        return Problem(AWAY, f"{type(error).__name__}: {error}")
    return Problem(ANSWER, str(error))


def of_status(status: int, body: str) -> Problem:
    """Explain a status that is not 200; `body` is the start of the answer's body."""
    text = f"HTTP {status}: {body}"
    if status == HTTPStatus.UNAUTHORIZED:
        return Problem(TOKEN, f"{text}; look at --token-file, which is read again when it changes")
    if status == HTTPStatus.FORBIDDEN:
        return Problem(FORBIDDEN, f"{text}; look at --token-file")
    return Problem(BUSY if status in (429, 503) else ANSWER, text)


def _of_certificate(error: ssl.SSLCertVerificationError, url: Address) -> str:
    subject = f"the certificate of {url.origin}"
    code = error.verify_code
    if code == _EXPIRED:
        return f"{subject} has expired: renew it at the collector, or set this node's clock"
    if code == _NOT_YET:
        return f"{subject} is not valid yet: set the clock of this node or of who signed it"
    if code in (_OTHER_NAME, _OTHER_ADDRESS):
        return f"{subject} is for another name: use that name in --collector, or sign a new one"
    if code in _UNKNOWN_SIGNER:
        return f"{subject} has no trusted signer: pass --ca FILE with the signer's"
    return f"{subject} is refused: {error.verify_message}"


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS library's error behind the HTTP libraries' errors."""
    for _ in range(8):
        if error is None or isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _speaks_tls(url: Address) -> bool:
    """Return whether a handshake reaches a certificate; nothing else is sent."""
    place = url.host, url.port
    try:
        with (
            socket.create_connection(place, timeout=LOOK_SECONDS) as plain,
            ssl.create_default_context().wrap_socket(plain, server_hostname=url.host),
        ):
            return True
    except ssl.SSLCertVerificationError:
        return True
    except (OSError, ValueError):
        return False
