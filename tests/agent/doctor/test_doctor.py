"""The doctor: each check passes, warns, fails or does not know, and says what to do."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from stepwatch.agent.doctor import CHECKS, Outcome, Problem, Result, examine, hardware, job, limits
from stepwatch.agent.doctor.result import Surroundings
from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.cli.verbs.doctor import line
from tests.agent.conftest import collector

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN


def about(check: str, results: Iterator[Result]) -> list[tuple[Outcome, str]]:
    return [(result.outcome, result.text) for result in results if result.check == check]


@pytest.mark.parametrize(
    ("environ", "outcome", "words"),
    [
        ({}, PASS, "no ranks are described here"),
        ({"WORLD_SIZE": "8", "RANK": "7", "LOCAL_WORLD_SIZE": "4"}, PASS, "8 ranks"),
        ({"WORLD_SIZE": "8", "RANK": "8"}, FAIL, "ranks count from 0"),
        ({"WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "4"}, FAIL, "does not fit"),
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "4"}, FAIL, "does not fit"),
        ({"WORLD_SIZE": "eight"}, FAIL, "is not a number"),
        ({"WORLD_SIZE": "8", "SLURM_NTASKS": "4"}, WARN, "SLURM_NTASKS=4 but WORLD_SIZE=8"),
        ({"WORLD_SIZE": "8", "SLURM_NTASKS": "8"}, PASS, "8 ranks"),
    ],
)
def test_ranks(environ: dict[str, str], outcome: Outcome, words: str) -> None:
    ((actual, text),) = about("ranks", job.check(Surroundings(environ)))
    assert actual is outcome and words in text


def test_rendezvous_of_rank_0_needs_its_port() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ((outcome, text),) = about("rendezvous", job.check(Surroundings(environ)))
        assert outcome is FAIL and text.startswith(f"rank 0 cannot listen on 127.0.0.1:{port}")
        other_rank = Surroundings({**environ, "RANK": "3"})
        assert about("rendezvous", job.check(other_rank)) == [(PASS, f"127.0.0.1:{port} answers")]
    assert about("rendezvous", job.check(Surroundings(environ)))[0][0] is PASS
    ((outcome, text),) = about("rendezvous", job.check(other_rank))
    assert outcome is UNKNOWN and "does not listen" in text, "it may only not have started yet"


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", "29500"), ("localhost", "0")])
def test_a_rendezvous_that_cannot_be(host: str, port: str) -> None:
    environ = {"MASTER_ADDR": host, "MASTER_PORT": port}
    assert about("rendezvous", job.check(Surroundings(environ)))[0][0] is FAIL


def test_variables_of_nccl(tmp_path: Path) -> None:
    for name in ("lo", "ens5", "ib0"):
        (tmp_path / "class/net" / name).mkdir(parents=True)

    def results_with(**environ: str) -> list[tuple[Outcome, str]]:
        return about("nccl", job.check(Surroundings(environ, sys=tmp_path)))

    assert results_with() == [
        (PASS, "0 variables set; an InfiniBand peer is given up after 34 s or more")
    ]
    ((_, text),) = results_with(NCCL_IB_TIMEOUT="22", NCCL_IB_RETRY_CNT="3")
    assert text == "2 variables set; an InfiniBand peer is given up after 69 s or more"
    ((outcome, text),) = results_with(NCCL_SOKCET_IFNAME="eth0")
    assert outcome is WARN and "did you mean 'NCCL_SOCKET_IFNAME'?" in text
    ((outcome, text),) = results_with(NCCL_SOCKET_IFNAME="eth0,bond")
    assert outcome is FAIL and text == "NCCL_SOCKET_IFNAME=eth0,bond: this node has ens5, ib0, lo"
    assert results_with(NCCL_SOCKET_IFNAME="ens")[0][0] is PASS, "a prefix"
    assert results_with(NCCL_SOCKET_IFNAME="=ens")[0][0] is FAIL, "a whole name"
    assert results_with(NCCL_SOCKET_IFNAME="^docker0")[0][0] is PASS, "all others"
    ((outcome, text),) = results_with(NCCL_IB_DISABLE="1")
    assert outcome is WARN and "collectives go over TCP" in text
    assert results_with(NCCL_IB_DISABLE="0")[0][0] is PASS


def test_a_needed_variable_is_never_shown() -> None:
    environ = {"TOKEN": "s3cret", "EMPTY": ""}
    results = list(job.check(Surroundings(environ, needed=("TOKEN", "EMPTY", "NONE"))))
    assert [result.outcome for result in results if result.check.startswith("variable")] == [
        PASS,
        FAIL,
        FAIL,
    ]
    assert "s3cret" not in repr(results)


def test_the_place_of_checkpoints_is_tried(tmp_path: Path) -> None:
    def results_for(place: Path) -> tuple[Outcome, str]:
        (result,) = about("checkpoints", job.check(Surroundings({}, checkpoints=place)))
        return result

    assert results_for(tmp_path)[0] is PASS and not list(tmp_path.iterdir())
    outcome, text = results_for(tmp_path / "none")
    assert outcome is FAIL and text.endswith("No such file or directory")


def test_the_collector_and_its_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def result_of(url: str) -> tuple[Outcome, str]:
        (result,) = about("collector", limits.check(Surroundings({}, collector=url)))
        return result

    assert result_of("")[0] is UNKNOWN
    assert result_of("http://127.0.0.1:9")[0] is WARN
    assert result_of("nonsense")[0] is WARN
    with collector(tmp_path / "store.db") as url:
        assert result_of(url) == (PASS, f"{url} answers, and its clock agrees to 2 s")
        real = parsedate_to_datetime
        hour = timedelta(hours=1)
        monkeypatch.setattr(limits, "parsedate_to_datetime", lambda text: real(text) - hour)
        outcome, text = result_of(url)
        assert outcome is WARN and re.match(r"the clock is \+3(59|60)\d s off that of ", text)
        monkeypatch.undo()


def test_shared_memory_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs("/")
    for mebibytes, outcome in ((64, FAIL), (512, WARN), (8192, PASS)):
        sized = os.statvfs_result((4096, 4096, mebibytes * 256, *real[3:]))
        monkeypatch.setattr(os, "statvfs", lambda _, sized=sized: sized)
        assert about("shared-memory", limits.check(Surroundings({})))[0][0] is outcome
    monkeypatch.undo()
    missing = Surroundings({}, shared_memory=tmp_path / "none")
    assert about("shared-memory", limits.check(missing))[0][0] is UNKNOWN


def test_hardware_that_the_kernel_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "ROUNDS_SECONDS", (0.0, 1.0, 2.0))
    log = tmp_path / "kmsg"
    time_us = time.monotonic_ns() // 1000
    log.write_text(
        f"3,1,{time_us},-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        f"3,2,{time_us},-;mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error\n"
        f"3,3,{time_us},-;EDAC MC1: 2 CE memory scrubbing error on DIMM#0\n"
    )
    results = list(hardware.check(Surroundings({}, kernel_log=log)))
    by_name = {result.check: result for result in results}
    xid = by_name["xid"]
    assert (xid.outcome, xid.remedy) == (FAIL, "drain the node and reboot it")
    assert xid.text.startswith("XID 79 (GPU no longer reachable over PCIe) of 0000:3b:00: NVRM")
    assert by_name["port-module"].outcome is WARN and xid.source
    assert by_name["hardware-errors"].outcome is PASS, "corrected ones are no reason to wait"
    assert "kernel-log" not in by_name and by_name["host"].outcome is PASS


def test_a_probe_that_cannot_read_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "ROUNDS_SECONDS", (0.0,))
    results = hardware.check(Surroundings({}, kernel_log=tmp_path))
    (result,) = (candidate for candidate in results if candidate.check == "kernel-log")
    assert result.outcome is UNKNOWN and "Is a directory" in result.text and result.remedy


def test_a_check_that_fails_itself_is_unknown_and_the_others_go_on() -> None:
    def broken(_: Surroundings) -> Iterator[Result]:
        yield Result("first", PASS, "fine")
        raise KeyError("odd")

    checks = {"broken": broken, "other": lambda _: [Result("other", PASS, "fine")]}
    results = list(examine(Surroundings({}), checks=checks))
    assert [(result.check, result.outcome) for result in results] == [
        ("first", PASS),
        ("broken", UNKNOWN),
        ("other", PASS),
    ]


def test_a_slow_check_begins_first_and_delays_no_other() -> None:
    others_are_done = threading.Event()

    def slow(_: Surroundings) -> Iterator[Result]:
        assert others_are_done.wait(60)
        yield Result("slow", PASS, "fine")

    def quick(_: Surroundings) -> Iterator[Result]:
        yield Result("quick", PASS, "fine")
        others_are_done.set()

    checks = {"hardware": slow, "other": quick}
    results = examine(Surroundings({}), checks=checks)
    assert [result.check for result in results] == ["quick", "slow"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_slow_check_with_an_unexpected_error_is_unknown() -> None:
    def broken(_: Surroundings) -> Iterator[Result]:
        yield Result("first", PASS, "fine")
        raise EOFError("unexpected")

    (result,) = examine(Surroundings({}), checks={"libraries": broken})
    for thread in threading.enumerate():
        if thread.name == "libraries":
            thread.join()  # its error must not arrive in the next test
    assert (result.check, result.outcome) == ("libraries", UNKNOWN)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hardware, "ROUNDS_SECONDS", (0.0,))
    for name in ("MASTER_ADDR", "WORLD_SIZE", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    log = tmp_path / "kmsg"
    log.touch()
    words = ["doctor", "--kernel-log", str(log)]
    assert main(words) == OK
    text = capsys.readouterr().out
    assert text.splitlines()[-1].startswith("0 FAIL, ")
    assert text.splitlines()[-1].endswith(": a job may start here")
    assert main([*words, "--strict"]) == PROBLEM, "the collector was not asked: unknown"
    capsys.readouterr()
    assert main([*words, "--need", "NO_SUCH_SECRET", "--json"]) == PROBLEM
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    (failed_check,) = (check for check in document["checks"] if check["outcome"] == "FAIL")
    assert (
        failed_check["check"] == "variable NO_SUCH_SECRET"
        and failed_check["problem"] == "user_problem"
    )
    assert main([*words, "--burn", "-1"]) == USAGE
    assert main([*words, "--rendezvous", "node-0:29400"]) == USAGE, "it needs --burn"
    for odd in (["node-0"], ["node-0:x"], ["node-0:1", "--nodes", "1"], ["node-0:1", "--nodes", "2",
                "--node-rank", "2"]):  # fmt: skip
        assert main([*words, "--burn", "1", "--rendezvous", *odd]) == USAGE


def test_under_slurm_a_line_says_whose_it_is() -> None:
    bad = Result("disk-full", FAIL, "text", "do", "", Problem.NODE)
    assert line(bad, in_slurm=True) == "FAIL     [node_problem] disk-full: text\n         → do"
    assert "[" not in line(bad._replace(outcome=PASS), in_slurm=True)


def test_all_groups_of_checks() -> None:
    assert list(CHECKS) == ["hardware", "topology", "limits", "libraries", "job", "watchdogs"]
