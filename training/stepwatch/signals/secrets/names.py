"""Finds setting names that announce a secret value. Pure."""

from __future__ import annotations

import re

_ALWAYS = frozenset(
    [
        "secret",
        "secrets",
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "credential",
        "credentials",
        "authorization",
        "pwd",
        "apikey",
        "accesskey",
        "secretkey",
        "privatekey",
    ]
)
"""Words that mark a secret anywhere in a name."""
_AT_ITS_END = frozenset(["auth", "cookie", "cookies"])
_PASSES = frozenset(["forward", "backward", "first", "second", "single", "multi", "per"])
"""Words before `pass` that make it no password."""
_OF_KEYS = frozenset(
    [
        "api",
        "access",
        "private",
        "secret",
        "account",
        "signing",
        "encryption",
        "ssh",
        "client",
        "service",
        "license",
        "storage",
        "sas",
        "wandb",
        "hf",
        "openai",
        "anthropic",
        "aws",
        "azure",
        "gcp",
        "comet",
        "neptune",
        "mlflow",
        "registry",
        "deploy",
    ]
)
"""Words before `key` that make it a secret: `ssh_key`, and not `sort_key`."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_secret_name(name: str, *, is_number: bool) -> bool:
    """Return whether a setting with a dotted name may be a secret, or lie inside one.

    A number is not a token: `flops_per_token` is none, nor is `pad_token` if it is a number.

    >>> [is_secret_name(each, is_number=False) for each in ("s3.secret.id", "hubToken", "sort_key")]
    [True, True, False]
    """
    return any(_is_secret(part, is_number) for part in name.split("."))


def _is_secret(part: str, is_number: bool) -> bool:
    words = [word.lower() for word in _WORDS.findall(part)]
    if not words:
        return False
    if not _ALWAYS.isdisjoint(words) or words[-1] in _AT_ITS_END:
        return True
    if words[-1] == "data":  # `client-key-data` in a kubeconfig
        words = words[:-1] or words
    previous = words[-2] if len(words) > 1 else ""
    if words[-1] == "key":
        return previous in _OF_KEYS
    if is_number:
        return False
    if words[-1] == "pass":
        return previous not in _PASSES
    return words[-1].endswith("token") or words == ["tokens"]
