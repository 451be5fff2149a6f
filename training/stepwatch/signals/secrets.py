"""Which settings and texts may hold secrets, and the same without them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

WITHHELD = "(withheld)"
"""In place of what may be a secret."""

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
"""Words of which a name may hold none, wherever they stand."""
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

# No part may repeat without a bound: a text of thousands of beginnings would take seconds.
_VALUES = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY[^\n]{0,4096}"
    r"|\beyJ[\w-]{8,2000}\.[\w-]{8,2000}\.[\w-]{0,2000}"  # a JSON web token
    r"|\b(?:bearer|basic)\s{1,8}[\w.~+/=-]{8,2000}"
    r"|(?:token|secret|password|passwd|pwd|passphrase|signature|sig|api[_-]?key|access[_-]?key)"
    r"[\"']?\s{0,8}[=:]\s{0,8}[\"']?[^\s\"'&;,]{1,2000}"
    r"|://[^/\s:@]{0,64}:[^\s@]{1,256}@"  # an address with a password, which may hold a slash
    r"|\b(?:sk|hf|glpat|xox[abprs]|gh[pousr]|github_pat)[-_][\w-]{10,200}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{12,64}|\bAIza[\w-]{20,64}",
    re.IGNORECASE,
)
"""What secrets of well-known services and tools look like."""
_ASSIGNED = re.compile(r"([A-Za-z_][\w.-]{0,80})[\"']?\s{0,3}([=:])\s{0,3}([\"']?)(?=[^\s\"'])")
_FLAG = re.compile(r"(?:(?<=\s)|^)--?([A-Za-z][\w-]{1,60})[ =](\S{1,2000})")
_NUMBER = re.compile(r"[+-]?[\d.,]{1,12}[\"',;)}\]]{0,4}$")
_FOLDERS = ("PWD", "OLDPWD")
"""Variables of shells whose names only look like a password's."""
_LEAST_KNOWN = 6
"""A shorter value of a variable may be part of any word."""


def is_secret_name(name: str, *, is_number: bool) -> bool:
    """Whether a setting of a dotted name may be a secret, or lie in something that is one.

    A number is no token: `flops_per_token` is one, and `pad_token` too where it is a number.

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
    before = words[-2] if len(words) > 1 else ""
    if words[-1] == "key":
        return before in _OF_KEYS
    if is_number:
        return False
    if words[-1] == "pass":
        return before not in _PASSES
    return words[-1].endswith("token") or words == ["tokens"]


def holds_secret(text: str) -> bool:
    """Whether a text looks like a secret, or holds one, whatever it is called."""
    return _VALUES.search(text) is not None


def known_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables whose names say that they are secrets, the longest first."""
    found = {
        value
        for name, value in environ.items()
        if len(value) >= _LEAST_KNOWN
        and name not in _FOLDERS
        and is_secret_name(name, is_number=value.isdigit())
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """One line of text with `WITHHELD` in place of what may be a secret, and of all `known`.

    What is assigned to a secret's name is withheld to the end of the line: it may be of any form.

    >>> without_secrets("PermissionError: s3://me:hush@host/x")
    'PermissionError: s3(withheld)host/x'
    """
    for secret in known:
        text = text.replace(secret, WITHHELD)
    for found in _ASSIGNED.finditer(text):
        if is_secret_name(found[1], is_number=_is_number(text[found.end() :])):
            return _without_forms(text[: found.start()]) + found[0] + WITHHELD
    return _without_forms(text)


def _without_forms(text: str) -> str:
    return _FLAG.sub(_withheld_flag, _VALUES.sub(WITHHELD, text))


def _withheld_flag(found: re.Match[str]) -> str:
    if not is_secret_name(found[1], is_number=_is_number(found[2])):
        return found[0]
    return found[0][: -len(found[2])] + WITHHELD


def _is_number(text: str) -> bool:
    """Whether `text` is a number short enough to count something."""
    return _NUMBER.match(text) is not None
