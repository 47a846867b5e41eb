from __future__ import annotations

import pytest

from ol2r_cli.search.loop import Loop
from ol2r_cli.search.told import Told, fresh
from tests.search.spaces import TINY, study


@pytest.mark.parametrize(
    ("fixed", "first"), [([], 100), (["seed=7", "replicas=3"], 100), (["seed=95", "replicas=10"], 200)]
)
def test_the_proposed_run_has_seeds_that_no_trial_had(fixed, first):
    assert fresh(["rounds=9", *fixed], ["ranker.l2=2"]) == ["rounds=9", "ranker.l2=2", f"seed={first}", "replicas=10"]


def test_a_terminal_shows_how_the_trial_fares_while_its_run_is_kept_quiet(tmp_path, capsys):
    here = study(tmp_path / "study", "ranker.l2=1,2", *TINY, f"output_dir={tmp_path / 'runs'}")
    loop = Loop(here, 1)
    loop.told = Told(here, 1, live=True)
    assert loop.run()
    shown = capsys.readouterr()
    assert [f"round {round} 0." in shown.err for round in (10, 20, 30, 40)] == [True, True, True, False]
    assert shown.out.startswith("trial 1/1  0.")
