"""Stored lines hold no secret and no control byte, whatever was written."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepwatch.signals.secrets import WITHHELD, holds_secret, known_secrets, without_secrets
from stepwatch.signals.stderr.lines import KEPT_CHARACTERS, KEPT_LINES, last_lines

# A secret has its own alphabet, so that the text around it cannot contain it by chance.
PLANTED = st.text("QXZJK7849", min_size=24, max_size=40)
PLACES = [
    "HF_TOKEN={}",
    "export AWS_SECRET_ACCESS_KEY='{}'",
    "Authorization: Bearer {}",
    "authorization: token {}",
    "GET https://user:{}@host/path failed",
    "postgresql://me:{}@db:5432/x",
    "hf_{}",
    "ghp_{} is expired",
    "AKIA{}",
    "wandb login failed: api_key={}",
    '{{"password": "{}", "user": "me"}}',
    "train.py --hub-token {} --lr 3",
    "train.py --db-password={}",
    "ValueError: bad secret {{'client_secret': '{}'}}",
    "url?sig=1&signature={}&x=2",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----{}",
    "{}\n-----END PRIVATE KEY-----",
]


AROUND = st.text(st.characters(exclude_characters="QXZJK7849", codec="utf-8"), max_size=60)


@example("4" * 24, "hf_{}", "0\x1b", "", False)
@example("4" * 24, "\x1b[1mhf_{}", "0\x1b[0m", "", False)
@example("4" * 24, "h\x1b[0mf_{}", "0", "", False)
@given(PLANTED, st.sampled_from(PLACES), AROUND, AROUND, st.booleans())
def test_a_planted_secret_never_gets_out(
    secret: str, place: str, prefix: str, suffix: str, split: bool
) -> None:
    text = f"{prefix} {place.format(secret)}{' ' if split else chr(10)}{suffix}\n"
    assert secret[4:] not in "\n".join(last_lines(text.encode(), cut=False))


@given(st.text("QXZJK7849", min_size=6, max_size=40), st.binary(max_size=200))
def test_what_the_environment_calls_a_secret_is_withheld_wherever_it_stands(
    secret: str, around: bytes
) -> None:
    secrets = known_secrets({"MY_API_KEY": secret, "PWD": "/home/me", "PIN_TOKEN": "12"})
    assert secrets == (secret,)
    lines = last_lines(around + secret.encode() + around, cut=False, secrets=secrets)
    assert not any(secret in line for line in lines)


@example(b"\x80\x80\xee", False)
@example("\xa0\xad\u3000\ue000".encode(), False)
@given(st.binary(max_size=400), st.booleans())
def test_lines_are_short_printable_and_few(data: bytes, cut: bool) -> None:
    lines = last_lines(data * 20, cut)
    assert len(lines) <= KEPT_LINES
    assert all(line.isprintable() and 0 < len(line) <= KEPT_CHARACTERS for line in lines)


def test_a_line_whose_beginning_is_gone_is_left_out() -> None:
    assert last_lines(b"alf of a secret\nwhole\n", cut=True) == ["whole"]
    assert last_lines(b"alf of a secret", cut=True) == []


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
        "KeyError: 'input_ids'",
        "AssertionError: 7 tokens for 8 ranks",
        "ModuleNotFoundError: No module named 'flash_attn'",
        "OSError: [Errno 28] No space left on device: '/ckpt/step-400/part-3'",
        "ValueError: sort_key=length is not a column",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    assert last_lines(line.encode(), cut=False) == [line] and not holds_secret(line)


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "=",
        "token=",
        "eyJ-",
        "://a:",
        "sk-",
        "--a ",
        "bearer ",
        "a.",
        "-----BEGIN ",
        "\x1b[",
        "a:",
    ],
)
def test_a_long_line_takes_no_long_time(part: str) -> None:
    data = (part * 200_000)[:16_384].encode()
    began = process_time()
    last_lines(data, cut=False)
    assert process_time() - began < 2.0


def test_what_is_assigned_to_a_secret_is_withheld_to_the_end() -> None:
    text = without_secrets("password: correct horse, battery")
    assert "horse" not in text and text.endswith(WITHHELD)
