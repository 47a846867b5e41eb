"""Fits of recommenders to reviews as a kind of run: `ol2r recommend`.

Tables have its reviews and models as datasets and rankers. Values are those of users, and there are no rounds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import RunKind

if TYPE_CHECKING:
    from ol2r_cli.plugins.recommend import fit, styles, users
else:
    fit, styles = lazy("ol2r_cli.plugins.recommend.fit"), lazy("ol2r_cli.plugins.recommend.styles")
    users = lazy("ol2r_cli.plugins.recommend.users")

KIND = RunKind(
    name="recommend",
    about="models of recommendation, and why: batch fits without clicks",
    data="reviews",
    ranker="model",
    fold="reviews.split",
    stand_in="generated",
    plays_rounds=False,
    settings="ol2r_cli.plugins.recommend.fit.FitSettings",
    experiment=lambda *configuration: fit.Fit(*configuration),
    runner=lambda *arguments, **more: fit.FitRunner(*arguments, **more),
    render=lambda run, finished_before: fit.render(run, finished_before),
    differences=lambda run, notes: fit.differences(run),
    units=lambda: users.Users(),
    datasets={"amazon_cellphones": "Amazon"},
    rankers={  # in the order of a legend
        "fact": "FacT",
        "mter": "MTER",
        "bprmf": "BPRMF",
        "efm": "EFM",
        "nmf": "NMF",
        "fmf": "FMF",
        "most_popular": "MostPopular",
    },
    styles=lambda: styles.MODEL_STYLES,
    references=Path(__file__).with_name("references.bib"),
)
