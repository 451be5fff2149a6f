"""Hooks, agents and collectors of this commit and of the previous release work in any combination.

For each version of the hooks one real run of two ranks under torchrun, and beside both four agents,
each with a collector of its own: agents only read the rings, so all four see both runs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mixed import release
from tests.mixed.site import RANKS, STEPS, Pair, Site

NEW, OLD = "new", "old"
VERSIONS = (NEW, OLD)
PAIRS = [Pair(*pair) for pair in itertools.product(VERSIONS, repeat=2)]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path | None]:
    """Folder of each version; this commit is what is installed."""
    return {NEW: None, OLD: release.install(tmp_path_factory.mktemp("release"))}


@pytest.fixture(scope="module")
def site(code: dict[str, Path | None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A run with hooks of each version, and all pairs beside them."""
    made = Site(tmp_path_factory.mktemp("site"), code)
    try:
        for pair in PAIRS:
            made.start_pair(pair)
        made.train(VERSIONS)
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("hooks", VERSIONS, ids=lambda version: f"{version}-hooks")
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.agent}-{pair.collector}")
def test_every_step_of_every_rank_arrives_once_and_nothing_is_refused(
    site: Site, pair: Pair, hooks: str
) -> None:
    job = {version: site.finished(pair, version) for version in VERSIONS}[hooks]
    expected = sorted(itertools.product(range(RANKS), range(STEPS)))
    assert sorted(site.stored(pair, hooks)) == expected
    assert (job["world_size"], job["step"]) == (RANKS, STEPS - 1)
    assert (job["lost_records"], job["refused_records"]) == (0, 0)
    counts = site.segment_counts(pair)
    # A new agent learns from the first refusal that an old collector reads the older format only.
    refusals = 1 if pair == Pair(agent=NEW, collector=OLD) else 0
    assert counts["accepted"] > 0 and counts["duplicate"] == 0
    assert counts["rejected"] <= refusals
    assert site.spooled(pair) == []
    levels = set(re.findall(r" agent ([A-Z]+) ", site.log(pair)))
    assert levels == {"INFO"}, site.log(pair)


def test_a_clone_without_the_release_says_what_to_fetch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(release, "COMMIT", "0" * 40)
    with pytest.raises(release.HistoryMissing, match="git fetch"):
        release.install(tmp_path)
