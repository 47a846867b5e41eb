"""Users fitted to real logs: their files have the numbers of the sources."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.plugins.click_logs.click_log import ClickLog, read
from ol2r_cli.plugins.click_logs.fitted_user import SHARES, quantile_grades
from ol2r_cli.plugins.click_logs.position_bias import adjacent_chain, pbm

PLACES = 10


def settings(name: str) -> dict:
    return dict(Catalogue().choices["click"][name].content)


def by_grade(attraction, shares, values=None) -> list[float]:
    """The mean attraction, or that of other values, of the documents of each grade, which count alike."""
    member = quantile_grades(attraction, np.ones(len(attraction), np.bool_), shares)
    return ((attraction if values is None else values) @ member / member.sum(0)).tolist()


@pytest.fixture
def sources(data_dir: Path) -> Path:
    folder = data_dir / "real_clicks"
    if not folder.is_dir():
        pytest.skip(f"no click statistics: {folder}")
    return folder


@pytest.fixture
def log(sources: Path) -> ClickLog:
    log, skipped = read(sources / "yandex_counts.csv", "more clicks")
    assert skipped == 38
    return log


def test_files_have_the_numbers_of_their_sources(sources, log):
    published = json.loads((sources / "yandex_fitted_users.json").read_text())
    dcm, ubm, dbn = (settings(f"yandex_{name}") for name in ("dcm", "ubm", "dbn"))
    stops = published["dcm_stop_after_click_by_place"]
    assert dcm["continuation"] == pytest.approx([1 - stop for stop in stops], abs=1e-9)
    attraction = np.ravel(published["attraction_of_ten_documents_of_60_queries_dcm"])
    for grades, shares in SHARES.items():
        assert dcm["tables"][grades]["click"] == pytest.approx(by_grade(attraction, shares), abs=6e-4)
    for place, row in enumerate(ubm["examination"]):
        after, none = published["ubm_examination"][place][:place], published["ubm_examination"][place][-1]
        assert row == pytest.approx([*after[::-1], none], abs=1e-9), place
    assert dbn["continuation"] == pytest.approx(1 - published["dbn_abandon"], abs=1e-7)
    attraction, satisfaction = (np.ravel(published[f"{name}_dbn"]) for name in ("attraction", "satisfaction"))
    for grades, shares in SHARES.items():
        assert dbn["tables"][grades]["click"] == pytest.approx(by_grade(attraction, shares), abs=6e-4)
        assert dbn["tables"][grades]["stop"] == pytest.approx(by_grade(attraction, shares, satisfaction), abs=6e-4)
    with (sources / "baidu_position_bias.csv").open() as file:
        chain = [float(row["adjacent_chain"]) for row in list(csv.DictReader(file))[:PLACES]]
    assert settings("baidu_position")["examination"] == pytest.approx(chain, abs=6e-4)
    examination = adjacent_chain(log)
    position = settings("yandex_position")
    assert position["examination"] == pytest.approx(examination, abs=6e-4)
    attraction = pbm(log, examination)[1][log.impressions.sum(1) >= 100]
    for grades, shares in SHARES.items():
        assert position["tables"][grades]["click"] == pytest.approx(by_grade(attraction, shares), abs=6e-4)


def test_quantiles_are_means_between_the_borders_of_the_shares():
    values = np.array([0.9, 0.1, 0.3, 0.5])
    assert by_grade(values, [1, 1]) == pytest.approx([0.2, 0.7])
    assert by_grade(values, [0.5, 0.5]) == pytest.approx([0.2, 0.7])
    assert by_grade(values, [0.625, 0.375]) == pytest.approx([(0.1 + 0.3 + 0.5 / 2) / 2.5, (0.5 / 2 + 0.9) / 1.5])
