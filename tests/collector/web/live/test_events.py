"""Event streams of a real collector: what a page tab reads, and what ends a stream."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.access.certificates import secret
from tests.collector.made import JOB, body, run_segments
from tests.collector.process import Process, running
from tests.collector.web.shown import send, straggling_run
from tests.waiting import until

from .reading import address, opened

OTHER = "another-job"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with running(tmp_path_factory.mktemp("collector")) as process:
        send(process, straggling_run())
        yield process


def line(process: Process, job: str) -> dict[str, Any]:
    jobs = httpx.get(f"{process.url}/v1/jobs").json()["jobs"]
    return next(document for document in jobs if document["job"] == job)


def test_a_stream_begins_at_once_with_all_list_entries(shared: Process) -> None:
    with opened(shared.port, "fleet") as stream:
        assert stream.answer.getheader("cache-control") == "no-cache, no-transform"
        assert stream.answer.getheader("x-accel-buffering") == "no"
        assert stream.next().name == "open"
        event = stream.until(lambda event: event.data.get("job") == JOB)
        assert event.name == "job" and event.cursor
        assert event.data.keys() == line(shared, JOB).keys()


def test_new_data_arrive_within_a_second_with_their_points(shared: Process) -> None:
    segments = run_segments(30, job="moving")
    shared.send(body(segments[:3]))
    with opened(shared.port, "job:moving") as stream:
        first = stream.until(lambda event: event.name == "job")
        assert first.data["job"] == "moving"
        delays = []
        for number, step in ((3, 19), (4, 24), (5, 29)):
            began = time.monotonic()
            shared.send(body([segments[number]]))
            event = stream.until_live(step)
            delays.append(event.received_s - began)
            assert {"matrix", "collectives"} <= {*event.data["changed"]}
        assert min(delays) < 1.0, "of three, as the machine may be busy"
        points = {
            point[0]: point[2]
            for event in stream.events
            if event.name == "live"
            for point in event.data["points"].get("loss", [])
        }
        assert points[29] == pytest.approx(5.0 - 29 / 100, rel=1e-6)
        assert {event.data["job"] for event in stream.events if event.name != "open"} == {"moving"}


def test_a_job_without_news_sends_nothing(shared: Process) -> None:
    with opened(shared.port, f"job:{JOB}") as stream:
        stream.until(lambda event: event.name == "job")
        shared.send(body(run_segments(5, job="unrelated")))
        stream.patience(2.0)
        while True:
            try:
                event = stream.next()
            except TimeoutError:
                break
            assert event.data["job"] == JOB
            assert event.name == "job" or event.data["changed"] or event.data["points"]


def test_a_cursor_continues_and_one_of_an_earlier_life_begins_again(tmp_path: Path) -> None:
    process = Process(tmp_path)
    try:
        process.start()
        process.wait_ready()
        segments = run_segments(40)
        process.send(body([*segments[:3], *run_segments(10, job=OTHER)]))
        with opened(process.port, "fleet", f"job:{JOB}") as stream:
            stream.until_jobs({JOB, OTHER})
            cursor = stream.cursor
        with (
            opened(process.port, f"job:{JOB}") as watching,  # keeps the job followed
            opened(process.port, "fleet", f"job:{JOB}", cursor=cursor) as stream,
        ):
            process.send(body(segments[3:]))
            event = stream.until(lambda event: event.data.get("step") == 39)
            assert stream.events[0].name == "open"
            assert OTHER not in {event.data.get("job") for event in stream.events}
            assert "world_size" not in event.data, "only fields that changed"
            watching.until(lambda event: event.data.get("step") == 39)
            cursor = stream.cursor
        process.end()
        process.start()
        process.wait_ready()
        headers = {"last-event-id": cursor}
        with opened(process.port, "fleet", f"job:{JOB}", headers=headers) as stream:
            stream.until(lambda event: event.name == "resync")
            assert stream.events[-1].data == {"topics": ["fleet", f"job:{JOB}"]}
            stream.until_jobs({JOB, OTHER})
            assert line(process, JOB).keys() == stream.events[-1].data.keys()
    finally:
        process.end()


def test_an_unknown_job_is_gone_until_it_begins(shared: Process) -> None:
    with opened(shared.port, "job:later") as stream:
        assert stream.until(lambda event: event.name != "open").name == "gone"
        shared.send(body(run_segments(5, job="later")))
        event = stream.until(lambda event: event.name == "job")
        assert event.data["world_size"] == 4


@pytest.mark.parametrize(
    "topics", [(), ("node:a",), ("job:",), ("job:" + "x" * 2000,), ("fleet",) * 9]
)
def test_topics_that_do_not_exist_are_refused(shared: Process, topics: tuple[str, ...]) -> None:
    answer = httpx.get(shared.url + address(*topics))
    assert answer.status_code == 400 and "topic" in answer.json()["error"]


def test_a_token_of_agents_opens_no_stream(tmp_path: Path) -> None:
    ingest = secret(tmp_path / "ingest", "the-token-of-agents")
    readers = secret(tmp_path / "readers", "the-token-of-readers")
    options = ("--ingest-token-file", str(ingest), "--read-token-file", str(readers))
    process = Process(tmp_path, options=options)
    try:
        process.start()
        process.wait_ready()
        url = process.url + address("fleet")
        assert httpx.get(url).status_code == 401
        headers = {"authorization": "Bearer the-token-of-agents"}
        assert httpx.get(url, headers=headers).status_code == 403
        with opened(
            process.port, "fleet", headers={"authorization": "Bearer the-token-of-readers"}
        ) as stream:
            assert stream.next().name == "open"
    finally:
        process.end()


def test_open_streams_are_counted_and_keep_no_reader_out(shared: Process) -> None:
    def count() -> float:
        text = httpx.get(f"{shared.url}/metrics").text
        name = "stepwatch_collector_event_streams "
        return float(next(row for row in text.splitlines() if row.startswith(name)).split()[1])

    before = count()
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(opened(shared.port, "fleet"))
        assert count() == before + 40
        assert httpx.get(f"{shared.url}/v1/jobs/{JOB}").status_code == 200
    until("the streams to be counted as closed", lambda: count() == before)


def test_a_client_that_never_reads_delays_no_one_and_the_end_waits_for_none(tmp_path: Path) -> None:
    with running(tmp_path) as process, ExitStack() as stack:
        jobs = [segment for n in range(60) for segment in run_segments(5, job=f"{n}-" + "x" * 200)]
        process.send(body(jobs))
        deaf = [_deaf(process.port) for _ in range(10)]
        streams = [stack.enter_context(opened(process.port, "fleet")) for _ in range(50)]
        process.send(body(run_segments(5, job="newest")))
        for stream in streams:
            stream.until(lambda event: event.data.get("job") == "newest")
        began = time.monotonic()
        assert process.end(signal.SIGTERM) == 0
        assert time.monotonic() - began < 10.0
        for stream in streams:
            with pytest.raises(EOFError):
                stream.until(lambda event: False)
        for connection in deaf:
            connection.close()


def _deaf(port: int) -> socket.socket:
    """A client that asks for many events and reads none; its buffer is small."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.connect(("127.0.0.1", port))
    connection.sendall(f"GET {address('fleet')} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return connection
