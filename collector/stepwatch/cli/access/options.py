"""Access options of `stepwatch collector`: tokens for sending, reading and changes; certificate."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from stepwatch.signals import places
from stepwatch.signals.errors import UsageError

if TYPE_CHECKING:
    from stepwatch.collector.web.access import TokenFiles
    from stepwatch.collector.web.access.certificate import Certificate

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the token files and the certificate."""
    purposes = {
        "--token-file": "tokens that may do everything, one a line; files are read again on change",
        "--ingest-token-file": "tokens of agents, one a line; NODE TOKEN binds one to a node",
        "--read-token-file": "tokens that may read, one a line",
        "--admin-token-file": "tokens that may read, silence, note and acknowledge, one a line",
    }
    for option, purpose in purposes.items():
        parser.add_argument(option, type=Path, metavar="FILE", help=purpose)
    parser.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM: serve https only"
    )
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    parser.add_argument(
        "--public-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that browsers know it by, as behind a proxy; may be given several times",
    )


def tokens_of(arguments: argparse.Namespace) -> TokenFiles | None:
    """Return the tokens from all files; None if no file is named, so requests need no token.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    from stepwatch.collector.web.access import Role, TokenFiles
    from stepwatch.collector.web.access.roles import EVERYTHING

    named = [
        (arguments.token_file, EVERYTHING),
        (arguments.ingest_token_file, frozenset({Role.INGEST})),
        (arguments.read_token_file, frozenset({Role.READ})),
        (arguments.admin_token_file, frozenset({Role.ADMIN})),
    ]
    files = [(path, roles) for path, roles in named if path is not None]
    return TokenFiles(files) if files else None


def certificate_of(arguments: argparse.Namespace) -> Certificate | None:
    """Return the certificate that the collector serves with; None for plain HTTP.

    Raises:
        ConfigurationError: its files cannot be used.
        UsageError: one of the two options is missing.
    """
    from stepwatch.collector.web.access.certificate import Certificate

    chain, key = arguments.tls_cert, arguments.tls_key
    if (chain is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key go together; pass both, or neither")
    return None if chain is None else Certificate(chain, key)


def warn_of_plain(host: str, certificate: Certificate | None) -> None:
    """Warn in one line that tokens and records cross a network unencrypted."""
    if certificate is None and not places.is_loopback(host):
        logger.warning(
            "no --tls-cert: tokens and records cross the network unencrypted; give a certificate, "
            "or put a proxy in front"
        )
