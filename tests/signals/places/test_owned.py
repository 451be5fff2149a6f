"""A folder belongs to this user alone, or is refused; no file is written through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stepwatch.signals.durable import replace, write_durably
from stepwatch.signals.places.owned import own_folder, require_writer, users_of_this_process
from tests.other_users import OTHER, give_away, needs_root


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_folder_is_made_private_and_stays_so(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert own_folder(folder) == folder and mode_of(folder) == 0o700
    folder.chmod(0o777)
    assert mode_of(own_folder(folder)) == 0o700


def test_folders_above_are_not_for_others_to_write_whatever_the_umask_is(tmp_path: Path) -> None:
    previous_umask = os.umask(0)
    try:
        own_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(previous_umask)
    assert (mode_of(tmp_path / "a"), mode_of(tmp_path / "a/b/c")) == (0o755, 0o700)


@needs_root
def test_the_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    foreign_folder = tmp_path / "theirs"
    foreign_folder.mkdir()
    give_away(foreign_folder)
    with pytest.raises(PermissionError, match=f"theirs is not this user's alone.*user {OTHER}"):
        own_folder(foreign_folder)


@needs_root
def test_a_folder_that_another_user_can_replace_is_refused_and_not_made(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    give_away(above)
    with pytest.raises(PermissionError, match="above is not this user's alone"):
        own_folder(above / "spool")
    assert list(above.iterdir()) == []


def test_a_folder_below_one_that_all_may_write_is_refused_unless_it_is_sticky(
    tmp_path: Path,
) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    with pytest.raises(PermissionError, match="all users may write it"):
        own_folder(above / "spool")
    above.chmod(0o1777)
    assert own_folder(above / "spool").is_dir()


@needs_root
def test_a_link_is_followed_where_a_trusted_user_made_it(tmp_path: Path) -> None:
    place, link = tmp_path / "place", tmp_path / "link"
    place.mkdir()
    link.symlink_to("../" + tmp_path.name + "/place")
    own_folder(link / "spool")
    assert mode_of(place / "spool") == 0o700
    give_away(link)
    with pytest.raises(PermissionError, match="link is not this user's alone"):
        own_folder(link / "spool")


def test_a_link_that_leads_to_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        own_folder(tmp_path / "loop" / "spool")


def test_writing_follows_no_link_beside_the_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    secret.chmod(0o600)
    (tmp_path / f".a.{os.getpid()}").symlink_to(secret)
    write_durably(tmp_path / "a", b"data")
    assert secret.read_bytes() == b"secret" and (tmp_path / "a").read_bytes() == b"data"
    assert not (tmp_path / "a").is_symlink()


def test_writing_replaces_a_link_instead_of_following_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (tmp_path / "a").symlink_to(secret)
    replace(tmp_path / "a", b"data", mode=0o640)
    assert secret.read_bytes() == b"secret" and (tmp_path / "a").read_bytes() == b"data"
    assert mode_of(tmp_path / "a") == 0o640


@needs_root
def test_only_named_users_may_have_written_a_file(tmp_path: Path) -> None:
    users = users_of_this_process(tmp_path)
    path = tmp_path / "file"
    path.write_bytes(b"x")
    path.chmod(0o664)
    require_writer(path, users)
    path.chmod(0o666)
    with pytest.raises(PermissionError, match="all users may write it"):
        require_writer(path, users)
    path.chmod(0o600)
    give_away(path)
    with pytest.raises(PermissionError, match=f"it belongs to user {OTHER}"):
        require_writer(path, users)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(PermissionError, match="it is a link"):
        require_writer(tmp_path / "link", users)
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", "link"}
