"""An agent takes over what an earlier one left, whatever state it is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.agent.keys import AttemptKey, cursors_of
from stepwatch.agent.spool import Spool
from stepwatch.agent.spool.adopt import adopt
from stepwatch.agent.spool.cursors import superseded
from stepwatch.agent.spool.files import MOST_FILES, Spooled
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Rows, frame


def cursors(**positions: int) -> Rows:
    rings = [*map(ord, positions)]
    return make_rows(Kind.CURSOR, len(rings), rank=0, ring_id=rings, next_seq=[*positions.values()])


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Three segments, whose cursors read ring 97 up to 5, 9 and 14."""
    new_spool = Spool(tmp_path, "n1")
    for position in (5, 9, 14):
        new_spool.put(AttemptKey("job", 0), ClockPair(1, 1), {Kind.CURSOR: cursors(a=position)})
    new_spool.close()
    return tmp_path


def test_every_file_is_sorted_by_what_it_is(spool: Path) -> None:
    first, _, third = sorted(spool.glob("*.seg"))
    number, header, payload, size = frame.open_frame(first.read_bytes())
    first.write_bytes(frame.close_frame(number + 1, header, payload, size))
    third.write_bytes(third.read_bytes()[:-1])
    (spool / "notes.seg").write_bytes(b"not ours")
    adopted = adopt(spool)
    assert [(segment.sequence, segment.format) for segment in adopted.held_segments.values()] == [
        (1, number + 1)
    ]
    assert [(entry.sequence, entry.format) for entry in adopted.waiting.values()] == [(2, number)]
    assert cursors_of(adopted.waiting[2].cursors) == {97: 9}
    assert adopted.damaged == 2
    names = sorted(path.name for path in spool.iterdir())
    assert names == [
        "0000000000000001.held", "0000000000000002.seg", "0000000000000003.damaged",
        "notes.damaged",
    ]  # fmt: skip


def test_files_that_were_not_written_to_their_end_are_deleted(spool: Path) -> None:
    (spool / ".0000000000000004.seg.4711").write_bytes(b"half a segm")
    assert list(adopt(spool).waiting) == [1, 2, 3]
    assert len(list(spool.iterdir())) == 3


def test_no_sequence_number_is_used_twice_while_its_file_is_there(spool: Path) -> None:
    first, second, third = sorted(spool.glob("*.seg"))
    first.rename(first.with_suffix(".held"))
    second.rename(second.with_suffix(".damaged"))
    third.rename(third.with_suffix(".refused"))
    reopened = Spool(spool, "n1")
    reopened.put(AttemptKey("job", 0), ClockPair(1, 1), {})
    assert [path.name for path in spool.glob("*4.seg")] == ["0000000000000004.seg"]
    reopened.close()


def test_a_file_that_cannot_be_read_holds_up_no_other(spool: Path) -> None:
    (spool / "0000000000000004.seg").mkdir()
    (spool / "0000000000000005.held").symlink_to(spool / "nothing")
    adopted = adopt(spool)
    assert (list(adopted.waiting), list(adopted.held_segments), adopted.damaged) == (
        [1, 2, 3],
        [],
        2,
    )
    assert [path.stem[-1] for path in sorted(spool.glob("*.damaged"))] == ["4", "5"]


def test_what_cannot_be_read_stays_within_a_bound(spool: Path) -> None:
    for sequence in range(4, MOST_FILES + 14):
        (spool / f"{sequence:016d}.seg").write_bytes(b"damaged")
    adopted = adopt(spool)
    assert adopted.damaged == MOST_FILES + 10
    damaged_numbers = sorted(int(path.stem) for path in spool.glob("*.damaged"))
    assert damaged_numbers == list(range(14, MOST_FILES + 14))


def test_a_file_named_like_a_huge_number_moves_no_sequence(spool: Path) -> None:
    (spool / f"{10**22}.seg").write_bytes(b"not ours")
    for sequence in (4, 5):
        reopened = Spool(spool, "n1")
        reopened.put(AttemptKey("job", 0), ClockPair(1, 1), {})
        assert max(number for number, _ in reopened.oldest(10)) == sequence
        reopened.close()


def test_a_segment_is_superseded_when_a_newer_one_has_read_as_far() -> None:
    read = {1: cursors(a=5), 2: cursors(a=9), 3: cursors(b=4), 4: None, 5: cursors(a=9)}
    segments = [
        Spooled(number, Path(str(number)), 1, 1, cursors) for number, cursors in read.items()
    ]
    assert sorted(superseded(segments)) == [1, 2, 4]
