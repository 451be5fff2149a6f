"""The layout holds: one namespace, typed parts, names spelled once, a light trainer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("agent", "alerts", "collector", "dashboards", "runbooks", "training")


def parts() -> list[Path]:
    """Each package directly below the namespace."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder / "stepwatch").iterdir()]
    return sorted(path for path in paths if (path / "__init__.py").exists())


def test_no_folder_claims_the_namespace() -> None:
    assert [
        folder for folder in FOLDERS if (ROOT / folder / "stepwatch/__init__.py").exists()
    ] == []


def test_every_part_is_typed() -> None:
    assert len(parts()) == 10
    assert [part.name for part in parts() if not (part / "py.typed").exists()] == []


def test_every_folder_says_what_it_is_for() -> None:
    for folder in (*FOLDERS, "tests"):
        assert (ROOT / folder / "README.md").exists(), folder


def test_metric_names_are_spelled_in_one_package() -> None:
    spelled = re.compile(
        r"[\"']stepwatch_(job|step|node|agent|slo|sli|collector|straggler)_\w+[\"']"
    )
    guilty = [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder / "stepwatch").rglob("*.py")
        if path.parent.name != "names" and spelled.search(path.read_text())
    ]
    assert guilty == []


def test_one_broad_except_and_it_is_at_the_hook_boundary() -> None:
    # ruff's BLE001 finds broad excepts; this counts the permissions.
    permissions = [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder / "stepwatch").rglob("*.py")
        for _ in re.findall(r"BLE001", path.read_text())
    ]
    assert permissions == ["training/stepwatch/hooks/guard.py"]


def test_the_base_install_is_numpy_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [entry.split(">")[0] for entry in project["dependencies"]] == ["numpy"]


@pytest.mark.parametrize(
    "module", ["stepwatch.hooks", "stepwatch.faults", "stepwatch.signals.names"]
)
def test_what_a_trainer_imports_brings_no_server(module: str) -> None:
    heavy = [
        "torch",
        "sqlalchemy",
        "httpx",
        "starlette",
        "uvicorn",
        "zstandard",
        "prometheus_client",
        "rich",
        "opentelemetry",
        "requests",
    ]
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_wheel_holds_every_part_and_its_data(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    ran = subprocess.run([*words, str(tmp_path), str(ROOT)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for part in parts():
        assert f"stepwatch/{part.name}/__init__.py" in names
    for data in (
        "stepwatch/collector/slo/asked/documents/step-time.yaml",
        "stepwatch/collector/incidents/grouping.toml",
        "stepwatch/runbooks/pages/TrainingStraggler.md",
    ):
        assert data in names
    bundle = [name for name in names if "web/page/built/app-" in name]
    assert len(bundle) == 4, "a script and a style sheet, with their gzipped copies"
    assert not [name for name in names if "node_modules" in name]
    assert "stepwatch/__init__.py" not in names
    _check_core(wheel, tmp_path / "unpacked", compiles=bool(shutil.which("cc")))


def _check_core(wheel: Path, folder: Path, *, compiles: bool) -> None:
    """The wheel runs on the compiled core, on each Python from 3.11 on, where it was compiled."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    program = "from stepwatch.hooks import core; print(core.CORE, core.__file__)"
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    environ.pop("STEPWATCH_CORE", None)
    words = [sys.executable, "-c", program]
    ran = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    core, file = ran.stdout.split()
    assert Path(file).is_relative_to(folder) and ran.stderr == ""
    assert ("-cp311-abi3-linux_" if compiles else "-py3-none-any") in wheel.name
    assert core == ("native" if compiles else "python")
