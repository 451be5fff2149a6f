"""Versions of driver, CUDA and NCCL: which fit each other, and what is said of the others."""

from __future__ import annotations

import pytest

from stepwatch.agent.doctor import Outcome, libraries
from stepwatch.agent.doctor.libraries import compared

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
HERE = {"driver": "535.104.05", "driver_cuda": "12.2", "driver_devices": 8, "driver_error": None}
TORCH = {"torch": "2.13.0", "torch_cuda": "12.8", "torch_nccl": "2.27.3", "devices": 8}
CASES: dict[str, tuple[dict[str, object], str, Outcome, str]] = {
    "it fits": ({}, "torch", PASS, "needs driver 525 or later: this is 535.104.05"),
    "too old": ({"torch_cuda": "13.0"}, "torch", FAIL, "needs driver 580 or later"),
    "of one major version": ({"driver": "525.60.13"}, "torch", PASS, "this is 525.60.13"),
    "older by its last number": (
        {"torch_cuda": "11.8", "driver": "450.80.01"},
        "torch",
        FAIL,
        "450.80.02 or later",
    ),
    "a later CUDA": ({"torch_cuda": "17.1"}, "torch", UNKNOWN, "not known here"),
    "without CUDA": ({"torch_cuda": None, "torch_nccl": None}, "torch", WARN, "without CUDA"),
    "no torch": ({"torch": None}, "torch", UNKNOWN, "not installed"),
    "hidden devices": ({"devices": 4}, "torch", WARN, "uses 4 of 8 devices"),
    "no driver": ({"driver": None}, "torch", UNKNOWN, "no driver to compare it with"),
    "upgraded while it ran": (
        {"driver": None, "driver_error": 18},
        "driver",
        FAIL,
        "of different versions",
    ),
    "NCCL": ({}, "torch-nccl", PASS, "NCCL 2.27.3"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_fits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, check, outcome, words = CASES[name]
    monkeypatch.setattr(libraries, "installed_nccl", lambda: "")
    (result,) = (
        candidate
        for candidate in compared({**HERE, **TORCH, **changed})
        if candidate.check == check
    )
    assert result.outcome is outcome and words in result.text
    assert outcome is PASS or result.remedy


def test_another_nccl_than_the_one_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome_with(installed: str) -> Outcome:
        monkeypatch.setattr(libraries, "installed_nccl", lambda: installed)
        return next(
            result for result in compared({**HERE, **TORCH}) if "nccl" in result.check
        ).outcome

    assert outcome_with("2.27.3") is outcome_with("2.27.3.post1") is PASS
    assert outcome_with("2.21.5") is WARN


def test_devices_on_the_bus_without_a_driver() -> None:
    no_driver = {"driver": None, "driver_error": 12, "driver_says": "NVML Shared Library Not Found"}
    behind = next(iter(compared({**no_driver, "torch": None}, on_bus=8)))
    assert behind.outcome is FAIL and behind.text.startswith("8 NVIDIA device(s) on the PCI bus")
    assert next(iter(compared({**no_driver, "torch": None}))).outcome is PASS
