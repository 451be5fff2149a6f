"""Finding, checking and rendering runbook pages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stepwatch import runbooks
from stepwatch.runbooks import library, placeholders
from stepwatch.runbooks.page import SECTIONS, Page, verbs
from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.signals.names import ALERT_NAMES

VALUES = {name: f"{name}-1" for name in placeholders.NAMES}


def page(name: str = "Any", extra: str = "") -> str:
    body = "\n".join(f"## {section}\n\nText, `stepwatch demo`.\n" for section in SECTIONS)
    return f"# {name}\n\n{extra}\n\n{body}"


def test_every_alert_has_a_page() -> None:
    assert set(runbooks.names()) == ALERT_NAMES


@pytest.mark.parametrize("name", runbooks.names())
def test_a_page_with_all_values_has_no_hole(name: str) -> None:
    text = runbooks.render(name, VALUES)
    assert "{" not in text.replace("${", "")
    assert not any(f"<{placeholder}>" in text for placeholder in placeholders.NAMES)
    assert "collector-1" in text


@pytest.mark.parametrize("name", runbooks.names())
def test_a_page_without_values_shows_what_is_missing(name: str) -> None:
    text = runbooks.render(name, {})
    assert "<job>" in text
    assert "<collector>" in text


@pytest.mark.parametrize("name", runbooks.names())
def test_commands_come_before_prose_gets_long(name: str) -> None:
    introduction = runbooks.load(name).markdown.split("```sh")[0]
    assert len(introduction.split()) <= 170


@pytest.mark.parametrize("name", runbooks.names())
def test_a_page_fits_into_a_night(name: str) -> None:
    assert len(runbooks.load(name).markdown.split()) <= 900


def test_an_unknown_name_offers_a_close_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'TrainingHang'"):
        runbooks.load("TrainingHung")


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("# secret")
    inner = tmp_path / "pages"
    inner.mkdir()
    with pytest.raises(UsageError):
        runbooks.load("../secret", inner)


def test_an_unknown_placeholder_names_page_and_line(tmp_path: Path) -> None:
    (tmp_path / "Any.md").write_text(page(extra="on {host}"))
    with pytest.raises(ConfigurationError, match=r"Any\.md:3: unknown placeholder \{host\}"):
        runbooks.render("Any", {}, tmp_path)


def test_a_value_without_placeholder_is_refused() -> None:
    with pytest.raises(UsageError, match="no placeholder 'host'"):
        runbooks.render("TrainingHang", {"host": "n1"})


def test_a_page_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Any.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="cannot read the runbook"):
        runbooks.load("Any", tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the first line must be '# Any'"),
        (page("Other"), "the first line must be '# Any'"),
        (page().replace("## Impact", "## Effect"), "sections must be, in this order"),
        (page(extra="```sh\nuptime"), "a code fence is not closed"),
        (f"{page()[: page().rindex('Text')]}Stop it.\n", "names no command and no test"),
        (f"{page()[: page().rindex('Text')]}Stop `it`.\n", "names no command and no test"),
    ],
)
def test_a_page_of_the_wrong_shape_says_so(text: str, complaint: str) -> None:
    assert any(complaint in problem for _, problem in Page("Any", "Any.md", text).problems())


def test_verbs_are_those_of_commands_only() -> None:
    text = "the stepwatch page\n`stepwatch status` and `/dev/shm/stepwatch/x`\n"
    assert list(verbs(text)) == [(2, "status")]


def test_an_installed_package_carries_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "stepwatch" / "runbooks"
    shutil.copytree(library.directory(), package / "pages")
    monkeypatch.setattr(library, "__file__", str(package / "library.py"))
    assert library.directory() == package / "pages"
    monkeypatch.setattr(library, "__file__", str(tmp_path / "a/b/c/library.py"))
    with pytest.raises(ConfigurationError, match="install stepwatch again"):
        library.directory()
