"""The marks of CONTRIBUTING, measured: length of functions and files, files flat in a folder."""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = [ROOT / folder / "stepwatch" for folder in ("agent", "collector", "training")]
PARTS += [ROOT / folder / "stepwatch" for folder in ("alerts", "dashboards", "runbooks")]
MEDIAN_LINES, MOST_OF_TEN_LINES, LONGEST_FUNCTION = 10, 35, 80
LONGEST_FILE, FLAT_FILES = 400, 15


def sources() -> list[Path]:
    """Every Python file that is shipped."""
    return [path for part in PARTS for path in sorted(part.rglob("*.py"))]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and lines of each function of a file, decorators and docstring left out.

    A docstring is part of the interface, not of the work: it may be as long as it must.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = 1 if not body else (node.end_lineno or 0) - body[0].lineno + 2
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", lines


def test_functions_are_short() -> None:
    lengths = [function for path in sources() for function in functions(path)]
    lines = sorted(count for _, count in lengths)
    assert len(lines) > 1000, "the files are where this test looks for them"
    assert [function for function in lengths if function[1] > LONGEST_FUNCTION] == []
    assert statistics.median(lines) <= MEDIAN_LINES
    assert lines[int(0.9 * len(lines))] <= MOST_OF_TEN_LINES


def test_files_are_short() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (*sources(), *(ROOT / "tests").rglob("*.py"))
    }
    assert {path: count for path, count in lengths.items() if count > LONGEST_FILE} == {}


def test_a_folder_with_many_files_has_a_reason_in_its_readme() -> None:
    flat = Counter(path.parent for path in sources() if path.name != "__init__.py")
    for folder, count in flat.items():
        if count > FLAT_FILES:
            assert f"`{folder.name}` has more than {FLAT_FILES} files" in readme_above(folder), (
                f"{folder.relative_to(ROOT)} has {count} files: move some into rooms, or give "
                f"the reason in the README: `{folder.name}` has more than {FLAT_FILES} files: ..."
            )


def readme_above(folder: Path) -> str:
    """Text of the nearest README at or above a folder."""
    return next(
        (folder / "README.md").read_text(encoding="utf-8")
        for folder in (folder, *folder.parents)
        if (folder / "README.md").exists()
    )
