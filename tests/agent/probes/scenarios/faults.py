"""The faults: how each is brought about and ended, and what must be found.

What is expected is written down here once more, not taken from the catalogue: the two must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .node import BUS, GROUP, FaultyNode

Change = Callable[[FaultyNode], object]
DEVICE = f"0000:{BUS + 1:02x}:00"
"""The device that breaks, of rank 1."""
CARD = "0000:5e:00.0"


class Scenario(NamedTuple):
    """A fault. `ends` is None where the source reports an event: it is over once none follows.

    `words` stand in what the on-call reads, `authority` is who says what it means or what to do.
    """

    name: str
    begins: Change
    ends: Change | None
    fact: str
    subject: str
    severity: str
    action: str
    words: str
    authority: str
    code: int = -1
    rank: int = -1
    over_at_once: bool = False
    """Whether the source itself says that it is over."""


def says(text: str) -> Change:
    """The kernel logs this."""
    return lambda node: node.kernel_says(text)


def xid(
    code: int, line: str, severity: str, action: str, words: str, advice: str, rank: int = -1
) -> Scenario:
    """An XID error of the second device, as the driver logs it."""
    text = f"NVRM: Xid (PCI:{DEVICE}): {code}, {line}"
    return Scenario(
        name=f"xid-{code}",
        begins=says(text),
        ends=None,
        fact="xid",
        subject=DEVICE,
        severity=severity,
        action=action,
        words=f"XID {code} ({words}",
        authority=advice,
        code=code,
        rank=rank,
    )


def event(
    name: str, line: str, fact: str, subject: str, severity: str, action: str, words: str,
    authority: str, code: int = -1, rank: int = -1,
) -> Scenario:  # fmt: skip
    """A message of the kernel."""
    return Scenario(
        name, says(line), None, fact, subject, severity, action, words, authority, code, rank
    )


_OF_PID = "pid=42, name=python3"
XIDS = [
    xid(13, f"{_OF_PID}, Graphics SM Warp Exception on (GPC 4, TPC 2): Illegal Instruction",
        "evidence", "restart-app", "kernel faulted in compute engine", "RESTART_APP", rank=1),
    xid(31, f"{_OF_PID}, Ch 00000012, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0",
        "evidence", "restart-app", "GPU MMU fault", "RESTART_APP", rank=1),
    xid(45, f"{_OF_PID}, Ch 00000010", "evidence", "none",
        "driver tore down a process's channel", "WORKFLOW_XID_45", rank=1),
    xid(48, "pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error",
        "fatal", "reset-device", "uncorrectable (double-bit) ECC error", "WORKFLOW_XID_48"),
    xid(63, "Row Remapper: New row (0x0000000bcd24a000) marked for remapping",
        "evidence", "none", "bad memory row or page recorded", "IGNORE"),
    xid(64, "Row Remapper: failed to record a row", "fatal", "reset-device",
        "recording a row remap or page retirement failed", "RESET_GPU"),
    xid(74, "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        "degraded", "reset-device", "NVLink fault", "WORKFLOW_NVLINK_ERR"),
    xid(79, f"{_OF_PID}, GPU has fallen off the bus.", "fatal", "reboot",
        "GPU no longer reachable over PCIe", "RESTART_BM", rank=1),
    xid(92, "High single-bit ECC error rate", "evidence", "none",
        "corrected single-bit ECC errors", "IGNORE"),
    xid(94, f"{_OF_PID}, Contained: CE User Channel (0x9). RST: No, D-RST: No", "evidence",
        "restart-app", "memory error contained to one application", "RESTART_APP", rank=1),
    xid(95, f"{_OF_PID}, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", "fatal",
        "reset-device", "memory error not contained", "RESET_GPU", rank=1),
    xid(109, f"{_OF_PID}, Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x5c009", "fatal",
        "reset-device", "context switch did not finish in time", "RESET_GPU", rank=1),
    xid(119, f"{_OF_PID}, Timeout after 6s of waiting for RPC response from GPU1 GSP!", "fatal",
        "reset-device", "GPU system processor (GSP) did not answer", "RESET_GPU", rank=1),
    xid(140, "Uncorrectable ECC error, page could not be retired in time", "fatal",
        "reset-device", "uncorrectable memory error escaped", "RESET_GPU"),
    xid(145, "RLW_REMAP Fatal XC0 i0 Link 12 (0x00000004 0x00000040 0x00000000)", "fatal",
        "reset-device", "NVLink 5 RLW unit error", "WORKFLOW_NVLINK5_ERR"),
    xid(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "fatal",
        "reboot", "driver's required recovery action changed", "XID_154"),
]  # fmt: skip

KERNEL = [
    event("sxid-fatal", "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM",
          "sxid", "0000:86:00.0", "degraded", "drain", "sxid", "Fabric Manager", code=20034),
    event("memory-error-corrected", "EDAC MC1: 2 CE memory scrubbing error on CPU_SrcID#0_MC#1",
          "hardware-errors", "mc1", "evidence", "none", "", "EDAC"),
    event("memory-error", "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
          "machine-check", "mc0", "fatal", "replace", "machine check", "memory-failure.c"),
    event("machine-check", "mce: [Hardware Error]: CPU 12: Machine Check Exception: Uncorrected "
          "error, Bank 7: be00000000800400",
          "machine-check", "cpu", "fatal", "replace", "machine check", "mce"),
    event("page-poisoned", "Memory failure: 0x3f2a11: Killing python3:42 due to hardware memory "
          "corruption", "machine-check", "0x3f2a11", "fatal", "replace", "machine check",
          "memory-failure.c"),
    event("pcie-errors-corrected", "nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Corrected, "
          "type=Physical Layer, (Receiver ID)",
          "hardware-errors", "0000:3b:00.0", "evidence", "none", "", "AER"),
    event("out-of-memory", "Memory cgroup out of memory: Killed process 42 (python3) total-vm:1kB",
          "out-of-memory", "python3", "evidence", "restart-app", "", "oom_kill.c", rank=1),
    event("hung-task", "INFO: task python3:42 blocked for more than 122 seconds.",
          "hung-task", "python3", "degraded", "drain", "hung task", "hung_task.c", rank=1),
    event("soft-lockup", "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python3:42]",
          "soft-lockup", "cpu#3", "fatal", "reboot", "soft lockup", "watchdog.c"),
    event("rcu-stall", "rcu: INFO: rcu_sched self-detected stall on CPU",
          "soft-lockup", "cpu", "fatal", "reboot", "soft lockup", "watchdog.c"),
    event("library-crash", "python3[42]: segfault at 8 ip 00007f3a1c2d3e4f sp 00007ffd1a2b3c40 "
          "error 4 in libnccl.so.2.21.5[7f3a1c000000+5a00000]",
          "library-crash", "libnccl.so.2.21.5", "evidence", "restart-app", "", "fault.c", rank=1),
    event("disk-read-only", "EXT4-fs (nvme1n1p1): Remounting filesystem read-only",
          "read-only", "nvme1n1p1", "fatal", "drain", "read only", "ext4"),
    event("xfs-shutdown", "XFS (nvme0n1): Metadata I/O Error (0x4) detected at xlog_ioend_work. "
          "Shutting down filesystem.", "read-only", "nvme0n1", "fatal", "drain", "read only",
          "fs/xfs"),
    event("disk-io-error", "blk_update_request: I/O error, dev nvme1n1, sector 123456 op 0x1",
          "disk-errors", "nvme1n1", "degraded", "replace", "disk errors", "blk-core.c"),
    event("nvme-timeout", "nvme nvme1: I/O tag 12 (100c) opcode 0x2 (I/O Cmd) QID 3 timeout, "
          "aborting req_op:READ(0) size:131072",
          "disk-errors", "nvme1", "degraded", "replace", "disk errors", "nvme"),
    Scenario("nfs-not-responding", says("nfs: server 10.0.0.7 not responding, still trying"),
             says("nfs: server 10.0.0.7 OK"), "file-server-silent", "10.0.0.7", "degraded",
             "none", "file server silent", "clnt.c", over_at_once=True),
    event("module-error", f"mlx5_core {CARD}: Port module event[error]: module 0, Cable error, Bus "
          "stuck(I2C or data shorted)",
          "port-module", CARD, "degraded", "check-cabling", "port module", "events.c"),
    event("card-power", f"mlx5_core {CARD}: mlx5_pcie_event:304:(pid 2345): Detected insufficient "
          "power on the PCIe slot (27W).",
          "port-power", CARD, "degraded", "contact-support", "port power", "events.c"),
    event("card-firmware", f"mlx5_core {CARD}: poll_health:822:(pid 0): device's health "
          "compromised - reached miss count", "firmware", CARD, "fatal", "reboot", "firmware",
          "health.c"),
]  # fmt: skip

DEVICES = [
    Scenario("device-lost", lambda node: node.device(lost=1), lambda node: node.device(lost=0),
             "device-lost", DEVICE, "fatal", "reboot", "device lost", "NVML_ERROR_GPU_IS_LOST",
             rank=1),
    Scenario("rows-to-remap", lambda node: node.device(remap_pending=1),
             lambda node: node.device(remap_pending=0), "rows-to-remap", DEVICE, "degraded",
             "reset-device", "rows to remap", "nvmlDeviceGetRemappedRows", rank=1),
    Scenario("row-remap-failed", lambda node: node.device(remap_failed=1),
             lambda node: node.device(remap_failed=0), "row-remap-failed", DEVICE, "fatal",
             "replace", "row remap failed", "nvmlDeviceGetRemappedRows", rank=1),
    Scenario("recovery-needed", lambda node: node.device(recovery=3),
             lambda node: node.device(recovery=0), "recovery-needed", DEVICE, "fatal",
             "reset-device", "recovery needed", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", code=3,
             rank=1),
    Scenario("pcie-narrow", lambda node: node.device(lanes=8),
             lambda node: node.device(lanes=16), "pcie-narrow", DEVICE,
             "degraded", "replace", "pcie narrow", "nvmlDeviceGetCurrPcieLinkWidth", rank=1),
    Scenario("nvlink-down", lambda node: node.device(link1=0), lambda node: node.device(link1=1),
             "nvlink-down", f"{DEVICE} link 1", "degraded", "reset-device", "nvlink down",
             "nvmlDeviceGetNvLinkState", rank=1),
    Scenario("nvlink-errors", lambda node: node.device(link1_errors0=9), None, "nvlink-errors",
             f"{DEVICE} link 1", "degraded", "drain", "nvlink errors",
             "nvmlDeviceGetNvLinkErrorCounter", rank=1),
    Scenario("persistence-off", lambda node: node.device(persistence=0),
             lambda node: node.device(persistence=1), "persistence-off", DEVICE, "evidence",
             "none", "", "nvmlDeviceGetPersistenceMode", rank=1),
    Scenario("mig-mode", lambda node: node.device(mig=1), lambda node: node.device(mig=0),
             "mig-mode", DEVICE, "evidence", "none", "", "nvmlDeviceGetMigMode", rank=1),
    Scenario("throttled-by-power", lambda node: node.device(throttle=4, clock=1200),
             lambda node: node.device(throttle=0, clock=1900), "device-throttled", DEVICE,
             "evidence", "none", "", "nvmlDeviceGetCurrentClocksEventReasons", rank=1),
    Scenario("hardware-slowdown", lambda node: node.device(throttle=8),
             lambda node: node.device(throttle=0), "hardware-slowdown", DEVICE, "degraded",
             "drain", "hardware slowdown", "nvmlClocksEventReasonHwSlowdown", rank=1),
    Scenario("power-brake", lambda node: node.device(throttle=0x80),
             lambda node: node.device(throttle=0), "power-brake", DEVICE, "degraded",
             "contact-support", "power brake", "HwPowerBrakeSlowdown", rank=1),
    Scenario("device-hot", lambda node: node.device(slows_at=87, temperature=88),
             lambda node: node.device(temperature=61), "device-hot", DEVICE, "degraded", "drain",
             "device hot", "nvmlDeviceGetTemperatureThreshold", rank=1),
    Scenario("ecc-uncorrected", lambda node: node.device(ecc_uncorrected=2), None,
             "ecc-uncorrected", DEVICE, "degraded", "reset-device", "ecc uncorrected",
             "nvmlDeviceGetTotalEccErrors", rank=1),
    Scenario("pcie-replays", lambda node: node.device(pcie_replays=40), None, "pcie-replays",
             DEVICE, "degraded", "replace", "pcie replays", "8 a minute", rank=1),
]  # fmt: skip


def _fault_of_port(**values: str) -> Change:
    return lambda node: node.cards.set("mlx5_1", **values)


def _counted(*, hw: bool = False, **values: int) -> Change:
    return lambda node: node.cards.count("mlx5_1", hw=hw, **values)


FABRIC = [
    Scenario("port-down", _fault_of_port(state="1: DOWN"), _fault_of_port(state="4: ACTIVE"),
             "port-down", "mlx5_1/1", "fatal", "check-cabling", "port down", "ACTIVE"),
    Scenario("port-flaps", _counted(link_downed=5), None, "port-flaps", "mlx5_1/1", "degraded",
             "check-cabling", "port flaps", "link_downed"),
    Scenario("port-slow", _fault_of_port(rate="200 Gb/sec (4X HDR)"),
             _fault_of_port(rate="400 Gb/sec (4X NDR)"), "port-slow", "mlx5_1/1", "degraded",
             "check-cabling", "port slow", "rate below"),
    Scenario("symbol-errors", _counted(symbol_error=900), None, "port-errors", "mlx5_1/1",
             "degraded", "check-cabling", "port errors", "InfiniBand Architecture"),
    Scenario("efa-peer-gone", _counted(hw=True, unresponsive_remote_events=4), None, "port-errors",
             "mlx5_1/1", "degraded", "check-cabling", "port errors", "InfiniBand Architecture"),
    Scenario("ethernet-down", lambda node: node.cards.link(operstate="down"),
             lambda node: node.cards.link(operstate="up"), "port-down", "ens5", "fatal",
             "check-cabling", "port down", "ACTIVE"),
    Scenario("ethernet-flaps", lambda node: node.cards.link(carrier_down_count=4), None,
             "port-flaps", "ens5", "degraded", "check-cabling", "port flaps", "carrier_down_count"),
]  # fmt: skip


HOST = [
    Scenario("disk-full", lambda node: node.room(5), lambda node: node.room(500), "disk-full",
             "/", "fatal", "drain", "disk full", "statvfs"),
    Scenario("mounted-read-only", lambda node: node.set(disk="ro"),
             lambda node: node.set(disk="rw"), "read-only", "/", "fatal", "drain", "read only",
             "mount option ro"),
    Scenario("disk-slow", lambda node: node.set(ended=1010, milliseconds=30_000),
             lambda node: node.set(ended=2010, milliseconds=30_100), "disk-slow", "nvme0n1",
             "degraded", "drain", "disk slow", "/proc/diskstats"),
    Scenario("disk-hangs", lambda node: node.set(waiting=3), lambda node: node.set(waiting=0),
             "disk-slow", "nvme0n1", "degraded", "drain", "disk slow", "/proc/diskstats"),
    Scenario("nfs-slow", lambda node: node.set(calls=110, sent=110, call_ms=30_000),
             lambda node: node.set(calls=1110, sent=1110, call_ms=30_100), "file-server-slow",
             "/data", "degraded", "none", "file server slow", "mountstats"),
    Scenario("container-throttled", lambda node: node.set(periods=50, throttled=20),
             lambda node: node.set(periods=500, throttled=20), "container-throttled", f"/{GROUP}",
             "evidence", "none", "", "cpu.stat"),
    Scenario("container-memory", lambda node: node.set(high=9), None, "container-memory",
             f"/{GROUP}", "evidence", "none", "", "memory.events"),
    Scenario("slow-clock", lambda node: node.clock_source("hpet"),
             lambda node: node.clock_source("tsc"), "clock-source", "hpet", "degraded", "reboot",
             "clock source", "clocksource.c"),
    Scenario("hot-cpu", lambda node: node.cpu("thermal_throttle/core_throttle_total_time_ms",
             "9000"), None, "cpu-hot", "cpu", "degraded", "drain", "cpu hot", "therm_throt.c"),
    Scenario("slow-governor", lambda node: node.cpu("cpufreq/scaling_governor", "powersave"),
             lambda node: node.cpu("cpufreq/scaling_governor", "performance"), "cpu-governor",
             "cpu", "evidence", "none", "", "cpufreq"),
    Scenario("hot-package", lambda node: node.cpu(
             "thermal_throttle/package_throttle_total_time_ms", "9000"), None, "cpu-hot", "cpu",
             "degraded", "drain", "cpu hot", "therm_throt.c"),
    Scenario("huge-pages-short", lambda node: node.set(huge=10, missed=900), None,
             "huge-pages-short", "memory", "evidence", "none", "", "thp_fault_fallback"),
    Scenario("rank-blocked", lambda node: node.state("D"), lambda node: node.state("S"),
             "rank-blocked", "process 42", "evidence", "none", "", "hung_task.c", rank=1),
    Scenario("rank-zombie", lambda node: node.state("Z"), lambda node: node.state("S"),
             "rank-zombie", "process 42", "evidence", "restart-app", "", "proc(5)", rank=1),
    Scenario("numa-misplaced", lambda node: node.processes[1].runs_on("0-7"),
             lambda node: node.processes[1].runs_on("8-15"), "numa-misplaced", DEVICE, "evidence",
             "restart-app", "", "SLIT", rank=1),
    Scenario("memory-in-pieces", lambda node: node.set(compact_fail=900), None,
             "memory-fragmented", "memory", "evidence", "none", "", "compaction.c"),
]  # fmt: skip

SCENARIOS = [*XIDS, *KERNEL, *DEVICES, *FABRIC, *HOST]
