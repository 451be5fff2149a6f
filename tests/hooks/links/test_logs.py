"""The user's log lines carry job, attempt, rank, step and trace id, from any thread."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.links import logs
from stepwatch.hooks.links.logs import FIELDS, TEXT_FORMAT, JsonLines, LogStamp
from stepwatch.signals import traces


@pytest.fixture
def handler() -> Iterator[logging.StreamHandler[io.StringIO]]:
    """A handler of the logger `mine` that stamps its lines."""
    new_handler = logging.StreamHandler(io.StringIO())
    new_handler.addFilter(LogStamp())
    logger = logging.getLogger("mine")
    logger.addHandler(new_handler)
    logger.setLevel(logging.INFO)
    yield new_handler
    logger.removeHandler(new_handler)


def lines(handler: logging.StreamHandler[io.StringIO]) -> list[str]:
    return handler.stream.getvalue().splitlines()


def test_json_lines_name_the_step_under_way(
    watch: Watch, handler: logging.StreamHandler[io.StringIO]
) -> None:
    handler.setFormatter(JsonLines())
    for number in range(2):
        with watch.step():
            logging.getLogger("mine.loop").info("step %d of %s", number, "two")
    first, second = map(json.loads, lines(handler))
    assert second["message"] == "step 1 of two" and second["logger"] == "mine.loop"
    assert [second[name] for name in FIELDS[:4]] == ["job", 0, 0, 1]
    assert second["trace_id"] == f"{traces.trace_id('job', 0, 1):032x}" != first["trace_id"]


def test_a_text_line_has_every_field(
    watch: Watch, handler: logging.StreamHandler[io.StringIO]
) -> None:
    handler.setFormatter(logging.Formatter(TEXT_FORMAT))
    logging.getLogger("mine").warning("lost")
    (line,) = lines(handler)
    assert " WARNING job/0 rank 0 step 0 trace " in line and line.endswith(" mine: lost")


def test_what_the_line_says_itself_stays(
    watch: Watch, handler: logging.StreamHandler[io.StringIO]
) -> None:
    handler.setFormatter(JsonLines())
    logging.getLogger("mine").info("mine", extra={"step": 77})
    try:
        raise KeyError("mine")
    except KeyError:
        logging.getLogger("mine").exception("failed with %s", object)
    own_line, failed = map(json.loads, lines(handler))
    assert (own_line["step"], own_line["job"]) == (77, "job") and "KeyError: 'mine'" in failed[
        "exception"
    ]


def test_without_a_watch_the_fields_are_unknown(
    monkeypatch: pytest.MonkeyPatch, handler: logging.StreamHandler[io.StringIO]
) -> None:
    monkeypatch.setattr(logs, "_recorder", None)
    handler.setFormatter(logging.Formatter("%(job)s %(step)s %(message)s"))
    logging.getLogger("mine").info("early")
    handler.setFormatter(JsonLines())
    logging.getLogger("mine").info("early")
    text, line = lines(handler)
    assert text == "unknown unknown early" and "job" not in json.loads(line)


def test_threads_log_whole_stamps(
    watch: Watch, handler: logging.StreamHandler[io.StringIO]
) -> None:
    handler.setFormatter(JsonLines())
    finished = threading.Event()

    def chatter() -> None:
        while not finished.is_set():
            logging.getLogger("mine").info("beside")

    threads = [threading.Thread(target=chatter) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        with watch.step():
            pass
    finished.set()
    for thread in threads:
        thread.join()
    for line in map(json.loads, lines(handler)):
        assert line["trace_id"] == f"{traces.trace_id('job', 0, line['step']):032x}"
