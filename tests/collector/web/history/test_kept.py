"""An answer is made once for a published state, and kept within a bound."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from stepwatch.collector.runtime.views import Published
from stepwatch.collector.web.history.kept import Kept


def test_a_value_is_made_once_for_each_published_state() -> None:
    kept: Kept[str] = Kept(100, len)
    made = []

    def get(key: str, version: int) -> str:
        def make() -> str:
            made.append((key, version))
            return f"{key} {version}"

        return kept.get(key, Published(None, 0.0, version), make)

    assert [get("a", 1), get("a", 1), get("b", 1), get("a", 2), get("a", 2)] == [
        "a 1", "a 1", "b 1", "a 2", "a 2",
    ]  # fmt: skip
    assert made == [("a", 1), ("b", 1), ("a", 2)]


def test_threads_with_the_same_question_share_one_making() -> None:
    kept: Kept[str] = Kept(100, len)
    made, begun = [], threading.Barrier(8)

    def make() -> str:
        made.append(threading.get_ident())
        threading.Event().wait(0.05)
        return "a"

    def get() -> str:
        begun.wait()
        return kept.get("question", Published(None, 0.0, 1), make)

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(get) for _ in range(8)]
        assert [answer.result() for answer in answers] == ["a"] * 8
    assert len(made) == 1


def test_the_oldest_values_go_and_keys_count() -> None:
    kept: Kept[str] = Kept(100, len)
    made: list[str] = []

    def get(key: str) -> None:
        def make() -> str:
            made.append(key)
            return key

        kept.get(key, Published(None, 0.0, 1), make)

    for key in ("a" * 20, "b" * 20, "a" * 20, "c" * 20, "a" * 20, "b" * 20, "long" * 50):
        get(key)
    assert [key[0] for key in made] == ["a", "b", "c", "b", "l"]
    get("a" * 20)
    assert made[-1][0] == "a", "a value that is too large leaves no room"
