"""The names by which a server on this machine may be addressed.

Another site's page can resolve its own name to 127.0.0.1 after loading, and then read everything
that a program on this machine may read. The browser still sends that name as `Host`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def host_name(host: str) -> str:
    """Return the name or address in a `Host` header, without port, brackets and the last dot."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def may_be_asked_as(host: str, names: Collection[str] = ()) -> bool:
    """Return whether a `Host` header names an address, `localhost`, or one of `names` (lower case).

    An address belongs to no other site. A browser always sends the header.
    """
    name = host_name(host)
    if not name or name == "localhost" or name.endswith(".localhost") or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
