"""The catalogues of facts and of XID errors are complete and consistent, and decode real lines."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from stepwatch.signals import node_facts
from stepwatch.signals.node_facts.actions import ACTIONS, Action
from stepwatch.signals.node_facts.catalogue import CATALOGUE, Severity, kind_of
from stepwatch.signals.node_facts.xids import known_xids, xid_of
from stepwatch.signals.records import NodeFact

DOCUMENT = tomllib.loads(resources.files(node_facts).joinpath("xids.toml").read_text())


def test_every_fact_is_in_the_catalogue_once() -> None:
    text = resources.files(node_facts).joinpath("catalogue.toml").read_text()
    named = [item["name"] for item in tomllib.loads(text)["fact"]]
    assert sorted(named) == sorted(fact.name.lower().replace("_", "-") for fact in NodeFact)
    for fact, kind in CATALOGUE.items():
        assert kind.fact is fact and kind.quiet_seconds > 0 and kind.source
    assert kind_of(9999) is None and kind_of(3) is CATALOGUE[NodeFact.XID]


def test_facts_keep_their_numbers() -> None:
    # Written down: a fact keeps its number for ever.
    assert [(fact.name, int(fact)) for fact in NodeFact][:5] == [
        *(("PROBE_HANGS", 1), ("DEVICE_LOST", 2), ("XID", 3), ("SXID", 4), ("OUT_OF_MEMORY", 5)),
    ]
    assert len(set(NodeFact)) == len(CATALOGUE) >= 45


def test_every_action_has_words() -> None:
    assert set(ACTIONS) == set(Action)


def test_each_xid_is_one_row_with_one_action_and_its_source() -> None:
    codes = [item["code"] for item in DOCUMENT["xid"]]
    assert codes == sorted(codes) and known_xids() == tuple(codes) and len(set(codes)) == 81
    meanings: dict[str, tuple[Severity, Action]] = {}
    for code in codes:
        xid = xid_of(code)
        assert xid.meaning and xid.source, xid
        meant = meanings.setdefault(xid.source, (xid.severity, xid.action))
        assert (xid.severity, xid.action) == meant, "one word of the catalog, one action"
    assert len(meanings) == 15


@pytest.mark.parametrize(
    ("code", "severity", "action"),
    [
        (79, Severity.FATAL, Action.REBOOT),
        (48, Severity.FATAL, Action.RESET_DEVICE),
        (119, Severity.FATAL, Action.RESET_DEVICE),
        (13, Severity.EVIDENCE, Action.RESTART_APP),
        (31, Severity.EVIDENCE, Action.RESTART_APP),
        (45, Severity.EVIDENCE, Action.NONE),
        (54, Severity.DEGRADED, Action.CHECK_CABLING),
        (74, Severity.DEGRADED, Action.RESET_DEVICE),
        (12345, Severity.DEGRADED, Action.DRAIN),
    ],
)
def test_an_xid_is_as_bad_as_the_catalog_says(
    code: int, severity: Severity, action: Action
) -> None:
    xid = xid_of(code)
    assert (xid.severity, xid.action) == (severity, action)


# Lines as drivers wrote them: the tests of leptonai/gpud and NVIDIA/NVSentinel, and the issues of
# NVIDIA/open-gpu-kernel-modules.
START = "NVRM: Xid (PCI:0018:01:00): "
NVLINK5 = [
    (
        145,
        "pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13 "
        "(0x0409a0c2 0x00000008 0x00000001 0x00000000)",
        Severity.EVIDENCE,
        "RLW_RXPIPE, link 13",
    ),
    (
        145,
        "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a4c2 0x00000002 0x00000001)",
        Severity.FATAL,
        "RLW_RXPIPE, link 13",
    ),
    (
        149,
        "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x00000000)",
        Severity.FATAL,
        "NETIR",
    ),
    (
        149,
        "NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000)",
        Severity.FATAL,
        "NETIR_LINK_EVT, link 09",
    ),
    (
        149,
        "NETIR_BER_EVENT Nonfatal XC0 i0 Link 04 (0x00400626 0x00000002)",
        Severity.EVIDENCE,
        "NETIR_BER_EVENT, link 04",
    ),
    (
        144,
        "SAW_MVB Fatal XC1 i0 Link 02 (0x00000021 0x00000010)",
        Severity.FATAL,
        "SAW_MVB, link 02",
    ),
]


@pytest.mark.parametrize(("code", "text", "severity", "where"), NVLINK5)
def test_nvlink_5_is_as_bad_as_its_line_says(
    code: int, text: str, severity: Severity, where: str
) -> None:
    xid = xid_of(code, f"{START}{code}, {text}")
    assert xid.severity is severity and xid.meaning.endswith(f"; {where}")
    assert (xid.action is Action.RESET_DEVICE) == (severity is Severity.FATAL)
    assert xid_of(code).severity is Severity.DEGRADED, "without its line nobody knows"


@pytest.mark.parametrize(
    ("text", "severity", "action"),
    [
        ("from 0x0 (None) to 0x2 (Node Reboot Required)", Severity.FATAL, Action.REBOOT),
        ("from 0x0 (None) to 0x2 (OS Reboot)", Severity.FATAL, Action.REBOOT),
        ("from 0x0 (None) to 0x1 (GPU Reset Required)", Severity.FATAL, Action.RESET_DEVICE),
        ("from 0x1 (GPU Reset Required) to 0x0 (None)", Severity.EVIDENCE, Action.NONE),
        ("from 0x0 (None) to 0x9 (Something New)", Severity.FATAL, Action.DRAIN),
        ("", Severity.EVIDENCE, Action.NONE),
    ],
)
def test_154_is_what_it_changed_to(text: str, severity: Severity, action: Action) -> None:
    xid = xid_of(154, f"{START}154, GPU recovery action changed {text}")
    assert (xid.severity, xid.action) == (severity, action)
