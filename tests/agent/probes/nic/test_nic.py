"""The nic probe reads the kernel's counters, and says unknown where there are none."""

from __future__ import annotations

import math
import socket
from pathlib import Path

import pytest

from stepwatch.agent.probes.nic import NicProbe, parse_snmp
from stepwatch.signals.clock import SystemClock
from tests.agent.probes import rows_of

SNMP = "Ip: A B\nIp: 1 2\nTcp: RtoMin OutSegs RetransSegs MaxConn\nTcp: 200 5000 25 -1\nUdp: A\n"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node with two interfaces, one of them down, and loopback."""
    counters = {
        "rx_bytes": 100, "tx_bytes": 200, "rx_errors": 3, "tx_errors": 4, "rx_dropped": 5,
        "tx_dropped": 6,
    }  # fmt: skip
    for name, speed in (("eth0", "100000\n"), ("eth1", "-1\n"), ("lo", "")):
        folder = tmp_path / "sys" / "class" / "net" / name
        (folder / "statistics").mkdir(parents=True)
        (folder / "speed").write_text(speed)
        (folder / "carrier_changes").write_text("7\n")
        for counter, value in counters.items():
            (folder / "statistics" / counter).write_text(f"{value}\n")
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "snmp").write_text(SNMP)
    return tmp_path


def probe(node: Path) -> NicProbe:
    return NicProbe(SystemClock(), node / "sys", node / "proc")


def test_counters_of_interfaces_and_of_tcp(node: Path) -> None:
    assert probe(node).supported()
    first, second, tcp = probe(node).read()
    assert [first["interface"], second["interface"], tcp["interface"]] == [b"eth0", b"eth1", b""]
    assert (first["received_bytes"], first["sent_bytes"]) == (100, 200)
    assert (first["errors"], first["drops"], first["carrier_changes"]) == (7, 11, 7)
    assert first["speed_bits_per_second"] == 100e9
    assert math.isnan(second["speed_bits_per_second"]), "an interface that is down has no speed"
    assert math.isnan(first["tcp_retransmits"]) and math.isnan(tcp["errors"])
    assert (tcp["tcp_sent_segments"], tcp["tcp_retransmits"]) == (5000, 25)


def test_what_the_kernel_does_not_tell_is_unknown(node: Path) -> None:
    (node / "sys/class/net/eth0/statistics/rx_errors").unlink()
    (node / "sys/class/net/eth1/carrier_changes").write_text("garbage")
    (node / "proc/net/snmp").unlink()
    first, second, tcp = probe(node).read()
    assert math.isnan(first["errors"]) and first["drops"] == 11
    assert math.isnan(second["carrier_changes"])
    assert math.isnan(tcp["tcp_sent_segments"])
    assert not probe(node / "nowhere").supported()
    with pytest.raises(OSError):
        probe(node / "nowhere").read()


def test_metrics_hold_what_is_known_of_each_interface(node: Path) -> None:
    (node / "sys/class/net/eth1/carrier_changes").write_text("garbage")
    nic = probe(node)
    values_by_gauge = {
        (gauge.metric.name, *gauge.labels): gauge.value for gauge in nic.gauges(rows_of(nic))
    }
    assert values_by_gauge["stepwatch_node_network_bytes_total", "eth0", "received"] == 100
    assert values_by_gauge["stepwatch_node_network_bytes_total", "eth1", "sent"] == 200
    assert values_by_gauge["stepwatch_node_network_faults_total", "eth0", "drops"] == 11
    assert math.isnan(
        values_by_gauge["stepwatch_node_network_faults_total", "eth1", "carrier-changes"]
    )
    assert values_by_gauge[("stepwatch_node_tcp_retransmits_total",)] == 25


@pytest.mark.parametrize("text", ["", "Tcp:", "Tcp: A\nTcp: 1 2\n", "Tcp: A\nTcp: x\n", "\0"])
def test_garbage_in_snmp_holds_no_counter(text: str) -> None:
    assert parse_snmp(text, "Tcp") == {}


def test_this_node_counts_segments_that_are_sent() -> None:
    real = NicProbe(SystemClock())
    sent_before = real.read()[-1]["tcp_sent_segments"]
    if math.isnan(sent_before):
        pytest.skip("this kernel shows no /proc/net/snmp")
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver:
            sender.sendall(b"x" * 1000)
            receiver.recv(1000)
    assert real.read()[-1]["tcp_sent_segments"] > sent_before
