"""The proxy between a client and a server, from `http_proxy`, `https_proxy` and `no_proxy`."""

from __future__ import annotations

import os

from stepwatch.signals import places
from stepwatch.signals.errors import ConfigurationError

from .address import Address


def proxy_for(address: Address) -> Address | None:
    """Return the environment's proxy for an address; None for a direct connection.

    Raises:
        ConfigurationError: the proxy's URL does not begin with `http://`.
    """
    named = any(name.lower().endswith("_proxy") for name in os.environ)
    if not named or not places.may_use_proxy(address.origin):
        return None
    # It imports much, and few nodes have a proxy.
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    url = proxies.get(address.scheme) or proxies.get("all")
    if not url or proxy_bypass(address.place, proxies):
        return None
    try:
        proxy = Address.parse(url if "://" in url else f"http://{url}")
    except ValueError:
        proxy = None
    if proxy is None or proxy.scheme != "http":
        raise ConfigurationError(
            f"the proxy of {address.scheme}_proxy or all_proxy cannot be used: it must be "
            "http://HOST:PORT"
        )
    return proxy
