"""What the collector refused stays within its bound, the newest last to go."""

from __future__ import annotations

from pathlib import Path

from stepwatch.agent.spool.files import MOST_FILES
from stepwatch.agent.spool.refused import Refused


def segment(folder: Path, sequence: int, size: int) -> Path:
    path = folder / f"{sequence:016d}.seg"
    path.write_bytes(bytes(size))
    return path


def kept_numbers(folder: Path) -> list[int]:
    return [int(path.stem) for path in sorted(folder.glob("*.refused"))]


def test_the_newest_files_are_kept(tmp_path: Path) -> None:
    refused = Refused(tmp_path)
    for sequence in range(1, MOST_FILES + 11):
        refused.keep(segment(tmp_path, sequence, 10))
    assert kept_numbers(tmp_path) == list(range(11, MOST_FILES + 11))
    assert not list(tmp_path.glob("*.seg"))


def test_their_bytes_are_bounded_together(tmp_path: Path) -> None:
    refused = Refused(tmp_path, limit_bytes=1000)
    for sequence in range(1, 21):
        refused.keep(segment(tmp_path, sequence, 300))
        assert sum(path.stat().st_size for path in tmp_path.glob("*.refused")) <= 1000
    assert kept_numbers(tmp_path) == [18, 19, 20]
    refused.keep(segment(tmp_path, 21, 5000))
    assert kept_numbers(tmp_path) == [], "one larger than the bound is not kept"


def test_a_segment_whose_file_is_gone_is_no_error(tmp_path: Path) -> None:
    Refused(tmp_path).keep(tmp_path / "0000000000000007.seg")
    assert kept_numbers(tmp_path) == []
