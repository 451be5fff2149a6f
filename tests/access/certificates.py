"""A certificate authority of a test, and certificates that it signs."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from pathlib import Path

import trustme

from stepwatch.collector.web.access.certificate import Certificate

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates; its own is the file `ca`, its pairs lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA()
        self.folder = folder
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)
        self.chain, self.key = folder / "tls.crt", folder / "tls.key"

    def sign(self, *names: str, begins: datetime.datetime = NOW - DAY, days: float = 10.0) -> bytes:
        """Replace the pair of files; return the certificate's serial number as bytes."""
        until = begins + days * DAY
        pair = self._authority.issue_cert(*names, not_before=begins, not_after=until)
        self.key.write_bytes(pair.private_key_pem.bytes())
        self.key.chmod(0o600)
        self.chain.write_bytes(b"".join(pem.bytes() for pem in pair.cert_chain_pems))
        return self.chain.read_bytes()

    def sign_expired(self, *names: str) -> None:
        """Write a pair that was valid until yesterday."""
        self.sign(*names, begins=NOW - 3 * DAY, days=2.0)

    @property
    def options(self) -> list[str]:
        """For `stepwatch collector`."""
        return ["--tls-cert", str(self.chain), "--tls-key", str(self.key)]


def secret(path: Path, text: str) -> Path:
    """Write a file that only its user may read, with an atomic replacement as `kubelet` and `mv` do
    it."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(text)
    unfinished.chmod(0o600)
    unfinished.replace(path)
    return path


def shakes_hands(certificate: Certificate, ca: Path) -> bool:
    """Return whether a client that trusts `ca` accepts a server with this certificate."""
    server, client = socket.socketpair()
    server.settimeout(30)
    client.settimeout(30)
    accepting = threading.Thread(
        target=lambda: certificate.context.wrap_socket(server, True).close()
    )
    accepting.start()
    context = ssl.create_default_context(cafile=ca)
    try:
        context.wrap_socket(client, server_hostname="localhost").close()
    finally:
        accepting.join(30)
    return True
