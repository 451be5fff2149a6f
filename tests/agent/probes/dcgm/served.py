"""A page as dcgm-exporter writes it, and a server of such pages that a test makes misbehave."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Values = dict[str, float]
HEALTHY: Values = {
    "DCGM_FI_DEV_SM_CLOCK": 1900,
    "DCGM_FI_DEV_MEMORY_TEMP": 70,
    "DCGM_FI_DEV_GPU_TEMP": 61,
    "DCGM_FI_DEV_POWER_USAGE": 650.25,
    "DCGM_FI_DEV_GPU_UTIL": 97,
    "DCGM_FI_DEV_FB_USED": 40960,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 2,
    "DCGM_FI_DEV_XID_ERRORS": 0,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 0,
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 12345,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
    "DCGM_FI_PROF_SM_ACTIVE": 0.9,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.41,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.6,
    "DCGM_FI_PROF_NVLINK_TX_BYTES": 2.0e9,
    "DCGM_FI_PROF_NVLINK_RX_BYTES": 1.0e9,
}
"""What an exporter with the profiling metrics serves of one device."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def page(devices: Mapping[int, Values], more: str = "") -> bytes:
    """The page of these devices; `more` goes into the labels of each sample."""
    names = dict.fromkeys(name for values in devices.values() for name in values)
    lines = []
    for name in names:
        lines += [f"# HELP {name} Help of it.", f"# TYPE {name} gauge"]
        for number, values in devices.items():
            if name in values:
                labels = (
                    f'gpu="{number}",UUID="GPU-{number}",pci_bus_id="00000000:{0x3B + number:02X}'
                    f':00.0",device="nvidia{number}",modelName="NVIDIA H100 80GB HBM3",'
                    f'Hostname="n1",DCGM_FI_DRIVER_VERSION="550.54.15"{more}'
                )
                lines.append(f"{name}{{{labels}}} {values[name]:g}")
    return "\n".join([*lines, ""]).encode()


class Served:
    """What the server answers; `drip` is written after the body, a byte at a time, for ever."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.headers = {"content-type": TEXT}
        self.url = ""
        self.requests = 0
        self.drip = b""
        self.silent = False
        self.stopping = threading.Event()


@contextmanager
def served() -> Iterator[Served]:
    """A server on a loopback port; it answers what is said meanwhile."""
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests += 1
            if served.silent:
                served.stopping.wait()
                return
            try:
                self._answer()
            except ConnectionError:  # whoever asked has gone
                return

        def _answer(self) -> None:
            self.send_response(served.status)
            for name, value in served.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(served.body)
            while served.drip and not served.stopping.wait(0.05):
                self.wfile.write(served.drip)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}/metrics"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        served.stopping.set()
        server.shutdown()
        thread.join(10)
        server.server_close()
