"""Expected clicks: by hand, for users who examine by rank, by the last click, and from the top."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from tests.choices import simulation

CLICK = [0.1, 0.4, 0.6, 0.7, 0.9]


def rates(user, grades) -> list[float]:
    """P(click) at each place, as a sum over what may be clicked, by the definition of each user."""
    total = [0.0] * len(grades)
    for clicks in product((0, 1), repeat=len(grades)):
        chance, state = 1.0, None
        for place, (clicked, grade) in enumerate(zip(clicks, grades, strict=True)):
            examined, state = user(place, state)
            probability = examined * CLICK[grade]
            chance *= probability if clicked else 1 - probability
            state = place if clicked else state
        for place, clicked in enumerate(clicks):
            total[place] += clicked * chance
    return total


def by_rank(place, last):
    return [1.0, 0.5, 0.2][place], last


def by_last_click(place, last):
    return [[0.9], [0.8, 0.5], [0.7, 0.4, 0.3]][place][place - 1 - (-1 if last is None else last)], last


@pytest.mark.parametrize(
    ("overrides", "user"),
    [
        (("click=position_based", "click.examination=[1,0.5,0.2]"), by_rank),
        (("click=user_browsing", "click.examination=[[0.9],[0.8,0.5],[0.7,0.4,0.3]]"), by_last_click),
    ],
)
def test_a_page_has_the_sum_of_its_click_rates(overrides, user):
    running = simulation((*overrides, f"click.click={CLICK}", "measures=[expected_clicks]"), positions=3)
    with torch.inference_mode():
        interaction = next(interaction for t, interaction in running.play() if t == 5)
        found = running.measurement.measures()[1]["expected_clicks"][-1]
        labels = running.train_split.serve(interaction.candidates.query)[1].gather(1, interaction.ranking)
    for replica, shown in enumerate(interaction.shown.tolist()):
        grades = [grade for grade, real in zip(labels[replica].tolist(), shown, strict=True) if real]
        assert found[replica].item() == pytest.approx(sum(rates(user, grades)), abs=1e-9)


def test_a_user_who_stops_after_a_click():
    """The cascade model: P(click at k) is that of no click above, times attraction."""
    user = simulation(("click=cascade", f"click.click={CLICK}"), positions=3).click
    grades = torch.tensor([[4, 0, 2]])
    assert user.click_rates(grades)[0].tolist() == pytest.approx([0.9, 0.1 * 0.1, 0.1 * 0.9 * 0.6])


def test_trust_bias_clicks_on_what_it_takes_for_relevant():
    words = (
        "click=trust_bias",
        "click.examination=[1,0.5]",
        "click.epsilon_plus=[1,0.8]",
        "click.epsilon_minus=[0.6,0.3]",
    )
    user = simulation((*words, f"click.click={CLICK}"), positions=2).click
    assert user.click_rates(torch.tensor([[1, 3]]))[0].tolist() == pytest.approx(
        [0.4 + 0.6 * 0.6, 0.5 * (0.8 * 0.7 + 0.3 * 0.3)]
    )
