"""What an agent imports: it stays in memory on every node."""

from __future__ import annotations

import subprocess
import sys

ASK = """
import sys
import stepwatch.agent.app, stepwatch.cli.verbs.agent
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_an_agent_imports_nothing_that_only_a_command_line_draws_with() -> None:
    words = [sys.executable, "-c", ASK]
    imported = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    unused = {"rich", "pygments", "click", "httpx", "asyncio", "sqlalchemy", "torch", "uvicorn"}
    assert not unused & {*imported}
    only_elsewhere = {"multiprocessing", "pynvml", "statistics", "pickletools"}
    assert not only_elsewhere & {*imported}, "a helper or a command line may need it"
