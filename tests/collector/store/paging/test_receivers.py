"""The form of what each receiver gets, and the file that names them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from stepwatch.collector.runtime.notifier import Notifier, Notifiers
from stepwatch.collector.runtime.paging.configuration import read_receivers
from stepwatch.collector.runtime.paging.receivers import KEY_HEADER
from stepwatch.collector.store import Store
from stepwatch.collector.store.incidents.outbox import Outbox
from stepwatch.signals.errors import ConfigurationError
from tests.cli.response import alertmanager
from tests.collector.store.paging.happenings import HANG, ONCALL, Time, becomes
from tests.collector.store.paging.pager import Pager, Step, listening
from tests.waiting import until

LINKS = "https://stepwatch.example"
JOB_PAGE, RUNBOOK = f"{LINKS}/jobs/llama", f"{LINKS}/runbooks/TrainingHang?incident={HANG.id}"
INCIDENT_PAGE = f"{LINKS}/incidents/{HANG.id}"


@pytest.fixture
def slack() -> Iterator[Pager]:
    with listening(Step(200, b"ok")) as receiver:
        yield receiver


def written(folder: Path, text: str, **secrets: str) -> Path:
    """A file of receivers; `FOLDER` in it is where the secrets are."""
    for name, secret in secrets.items():
        (folder / name).write_text(f"{secret}\n")
    file = folder / "receivers.toml"
    file.write_text(f'links = "{LINKS}/"\n{text}'.replace("FOLDER", str(folder)))
    return file


def send(store: Store, file: Path, *states: str) -> Notifier:
    """Let incidents come into these states, and send that."""
    (receiver,) = read_receivers(file)
    clock = Time()
    notifier = Notifier(Outbox(store.engine, clock), receiver)
    for state in states:
        becomes(store, clock, state)
        notifier.advance()
        clock.seconds += 1.0
    return notifier


def test_pagerduty(opened: Store, tmp_path: Path) -> None:
    with listening() as pager:
        text = f'[receiver.{ONCALL}]\nkind = "pagerduty"\nkey_file = "FOLDER/key"\n'
        file = written(tmp_path, f'{text}url = "{pager.url}/v2/enqueue"\n', key="r0uting")
        send(opened, file, "open", "resolved")
        opening, ending = pager.taken
        assert {path for path, _, _ in pager.seen} == {"/v2/enqueue"}
    assert opening["routing_key"] == ending["routing_key"] == "r0uting"
    payload = opening["payload"]
    assert payload["summary"] == f"llama: {HANG.summary}" and payload["severity"] == "critical"
    assert (payload["source"], payload["component"], payload["class"]) == (
        "gpu-01",
        "llama",
        "hang",
    )
    assert payload["custom_details"]["impact"] == "100% of throughput lost"
    assert HANG.id in payload["custom_details"]["command"]
    assert [link["href"] for link in opening["links"]] == [INCIDENT_PAGE, JOB_PAGE, RUNBOOK]
    assert "payload" not in ending and ending["event_action"] == "resolve"


def test_slack(opened: Store, tmp_path: Path, slack: Pager) -> None:
    text = f'[receiver.{ONCALL}]\nkind = "slack"\nurl_file = "FOLDER/url"\n'
    file = written(tmp_path, text, url=f"{slack.url}/services/T0/B0/s3cret")
    slack.script = [Step(200, b"no_team")]
    notifier = send(opened, file, "open", "resolved", "resolved", "resolved", "resolved")
    texts = [message["text"] for message in slack.taken[1:]]
    assert texts[0].startswith("*Open*: llama: rank 3 on gpu-01 hangs &lt;&amp;&gt;\n")
    assert f"<{RUNBOOK}|runbook>" in texts[0] and texts[1].startswith("*Resolved*: llama")
    assert len(texts) == 2 and notifier.sent == {"delivered": 2, "failed": 1}


def test_a_webhook_gets_the_notice_with_its_key_and_token(opened: Store, tmp_path: Path) -> None:
    with listening(Step(204)) as pager:
        text = f'[receiver.{ONCALL}]\nkind = "webhook"\nurl = "{pager.url}/hook"\n'
        file = written(tmp_path, f'{text}token_file = "FOLDER/token"\n', token="t0ken")
        send(opened, file, "open")
        ((path, headers, document),) = pager.seen
    lower = {name.lower(): value for name, value in headers.items()}
    assert path == "/hook" and lower["authorization"] == "Bearer t0ken"
    assert lower[KEY_HEADER.lower()] == document["key"]
    assert document["incident"]["id"] == HANG.id


def test_a_real_alertmanager_sends_one_page_and_one_resolve(opened: Store, tmp_path: Path) -> None:
    with listening(Step(200)) as pager:
        route = "route:\n  receiver: pager\n  group_by: [incident]\n  group_wait: 0s\n"
        route += "  group_interval: 1s\nreceivers:\n  - name: pager\n    webhook_configs:\n"
        configuration = f"{route}      - url: {pager.url}\n        send_resolved: true\n"
        with alertmanager.running(tmp_path, configuration) as real:
            text = f'[receiver.{ONCALL}]\nkind = "alertmanager"\nurl = "{real.url}"\n'
            (receiver,) = read_receivers(written(tmp_path, text))
            notifier = Notifier(opened.outbox, receiver)
            clock = Time()
            clock.seconds = httpx_date(real.url)
            for state, count in (("open", 1), ("resolved", 2)):
                becomes(opened, clock, state)
                notifier.advance()
                until(f"{state} at the pager", partial(has_taken, pager, count))
                clock.seconds += 0.001
        sent = [message["status"] for message in pager.taken]
        alert = pager.taken[0]["alerts"][0]
    assert sent == ["firing", "resolved"]
    assert alert["labels"] == {
        "alertname": "TrainingHang", "job_name": "llama", "node": "gpu-01", "kind": "hang",
        "severity": "page", "incident": HANG.id,
    }  # fmt: skip
    assert alert["annotations"]["runbook"] == RUNBOOK


def has_taken(pager: Pager, count: int) -> bool:
    return len(pager.taken) >= count


def httpx_date(url: str) -> float:
    """What the clock of a server says, a second ago: an end in its future is none yet."""
    answer = httpx.get(f"{url}/-/ready", timeout=10.0)
    return parsedate_to_datetime(answer.headers["date"]).timestamp() - 1.0


def test_all_receivers_are_counted_on_their_own(opened: Store, tmp_path: Path) -> None:
    with listening() as down:
        pass
    with listening(Step(204)) as pager:
        text = f'[receiver.up]\nkind = "webhook"\nurl = "{pager.url}"\n'
        text += f'[receiver.down]\nkind = "webhook"\nurl = "{down.url}"\n'
        clock = Time()
        box = Outbox(opened.engine, clock)
        notifiers = Notifiers(box, read_receivers(written(tmp_path, text)))
        assert notifiers.receivers == ("up", "down")
        becomes(opened, clock, "open", receiver="up")
        clock.seconds += 1.0
        becomes(opened, clock, "resolved", receiver="up")
        becomes(opened, clock, "open", receiver="down")
        clock.seconds += 5.0
        notifiers.advance()
        clock.seconds += 1.5
        notifiers.advance()
    sent = {("up", "delivered"): 2, ("down", "failed"): 1}
    assert {receiver: count for receiver, count in notifiers.sent.items() if count} == sent
    assert notifiers.oldest_seconds["down"] == pytest.approx(6.5, abs=0.01)


ONE = '[receiver.a]\nkind = "webhook"\nurl = "http://h/x"\n'


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("", "receiver: write 1 to 8 tables"),
        ("receiver = 3", "receiver: write 1 to 8 tables"),
        ("x = ", "no TOML"),
        (f"x = {'9' * 100_000}", "no TOML"),
        (f"{ONE}colour = 3", "receiver.a: there is no key 'colour'; known are"),
        (f'{ONE}url_file = "x"', "receiver.a: url, url_file: keep one of them"),
        ('[receiver.a]\nkind = "pigeon"', "receiver.a: kind: write one of pagerduty, slack"),
        ('[receiver."a b"]\nkind = "slack"', "receiver.a b: a name has at most 32"),
        ('[receiver.a]\nkind = "pagerduty"', "receiver.a: key_file: name the file"),
        ('[receiver.a]\nkind = "slack"\nurl_file = "FOLDER/none"', "none: no such file"),
        ('[receiver.a]\nkind = "slack"\nurl_file = "FOLDER/empty"', "empty is empty"),
        ('[receiver.a]\nkind = "slack"\nurl_file = "FOLDER/secret"', "url_file: write http"),
        ('[receiver.a]\nkind = "webhook"\nurl = "ftp://x"', "url is 'ftp://x': write http"),
        ('[receiver.a]\nkind = "webhook"\nurl = "http://[x"', "write http://HOST"),
        ('[receiver.a]\nkind = "webhook"\nurl = 3', "url is '3': write http"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(tmp_path: Path, text: str, expected_text: str) -> None:
    file = written(tmp_path, text, secret="s3cret", empty="")
    with pytest.raises(ConfigurationError, match=re.escape(expected_text)) as raised:
        read_receivers(file)
    message = str(raised.value)
    assert message.startswith(f"{file}: ") and "\n" not in message and "s3cret" not in message


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="pass --receivers FILE"):
        read_receivers(tmp_path / "none.toml")
