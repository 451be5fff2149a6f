"""The parts of a base URL that a connection needs."""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

Parameters = dict[str, str]
"""A query string's names and values."""

_PORTS = {"http": 80, "https": 443}
_IN_PATHS = "/?%:@!$&'()*+,;=~"


class Address(NamedTuple):
    """A base URL; `path` has no slash at its end, `login` is `user:password` or empty."""

    scheme: str
    host: str
    port: int
    path: str = ""
    login: str = ""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Return the parts of an `http` or `https` URL.

        Raises:
            ValueError: it is not one.
        """
        if not url.isprintable() or " " in url:
            raise ValueError("a space or a control character")
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme not in _PORTS or not host or parts.port == 0:
            raise ValueError("no scheme, host or port")
        login = "" if parts.username is None else f"{parts.username}:{parts.password or ''}"
        ascii_host = host if ":" in host else host.encode("idna").decode()
        port = parts.port or _PORTS[parts.scheme]
        return cls(parts.scheme, ascii_host, port, parts.path.rstrip("/"), unquote(login))

    @property
    def place(self) -> str:
        """Host and port; the scheme's own port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.place}"

    @property
    def basic(self) -> str | None:
        """The authorization header of the login; None without a login."""
        if not self.login:
            return None
        return f"Basic {base64.b64encode(self.login.encode()).decode()}"

    def target(self, path: str, parameters: Parameters | None) -> str:
        """Return path and query of a request below the base URL."""
        query = urlencode(parameters) if parameters else ""
        whole = quote(self.path + path, safe=_IN_PATHS) or "/"
        return f"{whole}{'&' if '?' in whole else '?'}{query}" if query else whole
