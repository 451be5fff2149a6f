"""Limits above which a host condition becomes a fact."""

from __future__ import annotations

from typing import NamedTuple


class Thresholds(NamedTuple):
    """Limits for host conditions."""

    window_seconds: float = 10.0
    """Seconds: the shortest time between two readings for heat, governors and memory. A reading
    opens one file per CPU.
    """
    least_throttled_ratio: float = 0.05
    """Share: the window in which a CPU was throttled by heat. The kernel counts it in
    core_throttle_total_time_ms (drivers/thermal/intel/therm_throt.c); a cooled server has none, so
    one twentieth is far above noise.
    """
    least_failed_compactions: float = 1.0
    """Compactions a second: in each failed one a process waits for a large page that it does not
    get (Documentation/admin-guide/sysctl/vm.rst, compaction). A node with unfragmented free memory
    has none.
    """
    least_missed_huge_pages: float = 10.0
    """Huge pages a second: the ones that were requested and missed
    (Documentation/admin-guide/mm/transhuge.rst: thp_fault_fallback, thp_fault_alloc). A single one
    may always fail.
    """
    least_missed_ratio: float = 0.5
    """Share: the missed ones in all requests. If half of many fail, memory is used in 4 KiB pages
    and the TLB covers less.
    """
    blocked_seconds: float = 10.0
    """Seconds: how long a rank is blocked in the kernel, without a context switch, before it is
    reported. A disk or file server that is only slow answers within seconds; kernel/hung_task.c
    waits for 120 s.
    """
    zombie_seconds: float = 30.0
    """Seconds: how long a rank may be a zombie. torchrun polls its ranks every 0.1 s, older
    versions every 5 s.
    """
    least_available_ratio: float = 0.05
    """Share: above this free share memory is sufficient but fragmented; below it, memory is short.
    """


LIMITS = Thresholds()
"""The shipped limits."""
