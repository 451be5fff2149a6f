"""Functions of a package are found whenever the trainer imports it, and never before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.records import Kind
from tests.hooks.conftest import rows_in

from .conftest import Live

SAFETENSORS = """
from pathlib import Path
def serialize_file(tensors, filename):
    {inside}
    Path(filename).write_text(tensors)

def save_file(tensors, filename):
    serialize_file(tensors, filename)
"""
INSIDE = 'seen.append(live())\n    if tensors == "bad":\n        raise OSError("disk")'


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with the face of safetensors, on the path and not imported."""
    folder = tmp_path / "site" / "safetensors"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "torch.py").write_text(SAFETENSORS.format(inside=INSIDE))
    names = [name for name in sys.modules if name.partition(".")[0] == "safetensors"]
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(folder.parent))
    yield folder
    for name in ("safetensors", "safetensors.torch"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("imported_first", [True, False])
def test_a_save_of_a_package_is_recognised_in_any_order_of_imports(
    watch: Watch, rings: Path, live: Live, package: Path, tmp_path: Path, imported_first: bool
) -> None:
    if not imported_first:
        watch.attach()
        assert "safetensors" not in sys.modules
    from safetensors import torch as saver  # type: ignore[import-not-found,unused-ignore]
    from safetensors.torch import save_file  # type: ignore[import-not-found,unused-ignore]

    watch.attach()
    reports: list[str] = []
    vars(saver).update(live=live, seen=reports)
    save_file("good", tmp_path / "a")
    with pytest.raises(OSError, match="disk"):
        save_file("bad", tmp_path / "b")
    assert reports == ["checkpoint"] * 2
    assert live() == "other"
    assert rows_in(rings, Kind.CHECKPOINT)["event"].tolist() == [1, 1, 1, 4]
    assert watch.guard.errors == 0
    watch.close()
    assert not hasattr(saver.serialize_file, "__wrapped__")
    count_before = len(rows_in(rings, Kind.CHECKPOINT))
    save_file("good", tmp_path / "c")
    assert (tmp_path / "c").read_text() == "good"
    assert len(rows_in(rings, Kind.CHECKPOINT)) == count_before


def test_a_closed_watch_waits_for_no_import(watch: Watch, package: Path) -> None:
    finders = list(sys.meta_path)
    watch.attach()
    assert len(sys.meta_path) == len(finders) + 1
    watch.close()
    assert sys.meta_path == finders
    from safetensors import torch as saver  # type: ignore[import-not-found,unused-ignore]

    assert not hasattr(saver.save_file, "__wrapped__")


def test_a_package_that_fails_to_import_fails_as_before(watch: Watch, package: Path) -> None:
    watch.attach()
    (package / "torch.py").write_text("raise ImportError('mine')")
    with pytest.raises(ImportError, match="mine"):
        import safetensors.torch  # type: ignore[import-not-found,unused-ignore]
    (package / "torch.py").unlink()
    with pytest.raises(ModuleNotFoundError):
        import safetensors.torch  # noqa: F401
    assert watch.guard.errors == 0
