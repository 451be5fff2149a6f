"""Configurations that are refused before any process starts, and warnings."""

from __future__ import annotations

import pytest

from stepwatch.faults import parse_fault
from stepwatch.signals.errors import UsageError
from stepwatch.trainer.config.validation import validate, validate_faults, warnings_for
from tests.trainer.builders import options_of

REFUSED = {
    "--mesh pp=3": "4 layers of tiny cannot be divided into 3 stages",
    "--mesh pp=4 --schedule interleaved": "into 8 stages",
    "--mesh tp=8": "4 heads of tiny cannot be divided by tp=8",
    "--mesh tp=4": "2 key-value heads of tiny cannot be divided by tp=4",
    "--mesh tp=2 --length 33": "--length 33 cannot be divided by tp=2",
    "--mesh dp_shard=3": "--batch 32 cannot be divided by 3 data ranks x 4 micro-batches; 24 can",
    "--mesh pp=4 --microbatches 2": "1f1b needs at least 4 micro-batches for pp=4",
    "--mesh pp=2 --schedule interleaved --microbatches 5 --batch 20": "multiple of it, such as 4",
    "--mesh pp=2 --schedule zbv --compile true": "torch.compile cannot do",
    "--mesh pp=2 --schedule zero-bubble --activations full": "use --activations keep",
    "--mesh tp=2 --compile true": "leave one of the two out",
    "--mesh dp_shard=2 --compression bf16": "only with a mesh of dp_replicate alone",
    "--model debag": "did you mean 'debug'?",
    "--steps 0": "--steps must be at least 1",
    "--lr nan": "--lr must be at least 0",
    "--lr inf": "--lr must be finite",
    "--final-lr nan": "--final-lr must be at least 0",
    "--weight-decay -1": "--weight-decay must be at least 0",
    "--timeout-seconds inf": "--timeout-seconds must be finite",
}


@pytest.mark.parametrize(("flags", "reason"), REFUSED.items(), ids=REFUSED)
def test_an_invalid_configuration_is_refused_with_the_reason(flags: str, reason: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]*$") as refusal:
        validate(options_of(flags))
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--mesh dp_replicate=2 --compression powersgd",
        "--mesh pp=2,dp_shard=2,tp=2 --schedule interleaved",
        "--model 8b --mesh pp=4,dp_shard=8,tp=8 --batch 1024 --microbatches 16 --length 8192",
    ],
)
def test_what_torch_supports_is_accepted(flags: str) -> None:
    validate(options_of(flags))


def test_too_few_microbatches_give_a_warning_with_the_idle_time() -> None:
    (warning,) = warnings_for(options_of("--mesh pp=4 --schedule gpipe --microbatches 2"))
    assert "is idle for 60% of the step; with 16 for 16%" in warning
    assert warnings_for(options_of("--mesh pp=2")) == []


@pytest.mark.parametrize(
    ("fault", "flags", "reason"),
    [
        ("wrong-order", "", "has none to swap"),
        ("skewed-shard", "", "same length"),
        ("stage-imbalance", "--mesh dp_shard=2", "a pp of at least 2"),
        ("nan-gradients", "--compile true", "leave out --compile"),
        ("stage-imbalance", "", ""),
        ("nan-gradients", "", ""),
    ],
)
def test_a_fault_that_cannot_be_injected_is_refused_with_the_reason(
    fault: str, flags: str, reason: str
) -> None:
    requested = [parsed for parsed in [parse_fault(fault)] if parsed is not None]
    if not reason:
        validate_faults(options_of(flags), requested)
        return
    with pytest.raises(UsageError, match=reason):
        validate_faults(options_of(flags), requested)
