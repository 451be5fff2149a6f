from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind

from .links import INTERFACE, Links, rate_of

FAULT = with_fault(FaultKind.SLOW_LINK, 1, effect=2.0).faults[0]
_INSIDE = "from tests.verdicts.real.links import enter; import socket, sys; enter(sys.argv[1]); "


def test_a_link_is_as_slow_as_the_gradients_of_a_step_need() -> None:
    assert rate_of(2.0, 0.3) == 200_000
    assert rate_of(1.5, 0.3) == 400_000


def test_a_node_sees_only_its_end_of_a_link_that_becomes_slow() -> None:
    if os.geteuid():
        pytest.skip("only root may make a network namespace")
    try:
        links = Links(0.3)
    except OSError as error:
        pytest.skip(f"no network namespaces here: {error}")
    try:
        name = links.environ["STEPWATCH_TEST_NODE_SPACES"].split(":")[0]
        inside = [sys.executable, "-c", f"{_INSIDE}print(socket.if_nameindex())", name]
        interfaces = subprocess.run(inside, capture_output=True, text=True, check=True).stdout
        assert INTERFACE in interfaces
        assert "eth0" not in interfaces
        links.begin(FAULT, [])
        shown = ["tc", "-n", name, "qdisc", "show", "dev", INTERFACE]
        assert "rate 1600Kbit" in subprocess.run(shown, capture_output=True, text=True).stdout
    finally:
        links.close()
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert name not in namespaces
