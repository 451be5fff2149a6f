"""A `/proc` of files that tests write."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "stat": "cpu  {busy} 0 0 {idle} 0 0 0 {steal} 9 9\ncpu0 1 1 1 1\n",
    "meminfo": "MemTotal: 1000 kB\nMemAvailable:  250 kB\nHugePages_Total: 0\n",
    "vmstat": "pgfault 1\npgmajfault {faults}\n",
    "loadavg": "2.00 1.00 0.50 1/200 999\n",
    "pressure/cpu": "some avg10=12.50 avg60=1 avg300=1 total=5\nfull avg10=1\n",
    "pressure/memory": "some avg10=0.00 avg60=1 avg300=1 total=5\n",
    "pressure/io": "some avg10=100.00 avg60=1 avg300=1 total=5\n",
}


class Proc:
    """A `/proc` of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pressure").mkdir()
        self.set(busy=100, idle=900, steal=0, faults=10)

    def set(self, **values: int) -> None:
        for name, text in FILES.items():
            (self.folder / name).write_text(text.format(**values))
