"""What a search prints during a trial, and the run that it proposes at the end."""

from __future__ import annotations

import pytest

from ol2r_cli.search.search_output import SearchProgress, with_fresh_seeds
from ol2r_cli.search.searcher import Searcher
from tests.search.spaces import TINY, study


@pytest.mark.parametrize(
    ("fixed", "first"), [([], 100), (["seed=7", "replicas=3"], 100), (["seed=95", "replicas=10"], 200)]
)
def test_the_proposed_run_has_seeds_that_no_trial_had(fixed, first):
    assert with_fresh_seeds(["rounds=9", *fixed], ["ranker.l2=2"]) == [
        "rounds=9",
        "ranker.l2=2",
        f"seed={first}",
        "replicas=10",
    ]


def test_a_terminal_shows_the_validation_curve_and_not_the_output_of_the_run(tmp_path, capsys):
    search = study(tmp_path / "study", "ranker.l2=1,2", *TINY, f"output_dir={tmp_path / 'runs'}")
    searcher = Searcher(search, 1)
    searcher.progress = SearchProgress(search, 1, live=True)
    assert searcher.run()
    shown = capsys.readouterr()
    assert [f"round {round} 0." in shown.err for round in (10, 20, 30, 40)] == [True, True, True, False]
    assert shown.out.startswith("trial 1/1  0.")
