"""Simulated users, place by place. click/ has them as tensors."""

from __future__ import annotations

from ol2r_cli.loops.compile import compiled


@compiled
def cascade(grades, shown, chance, click_probability, leaving, clicks):
    """Write the clicks [B, K] of users who read from the top and may leave after every document.

    `grades` [B, K] are those of the documents where `shown`; chance [B, 2 K] has two numbers for every place.
    leaving [2, K, G] is first for documents that were not clicked, then for those that were.
    """
    for b in range(len(grades)):
        left = False
        for place in range(grades.shape[1]):
            grade = grades[b, place]
            if left or not shown[b, place]:
                clicks[b, place] = False
                continue
            clicked = chance[b, 2 * place] < click_probability[grade]
            clicks[b, place] = clicked
            left = chance[b, 2 * place + 1] < leaving[int(clicked), place, grade]


@compiled
def independent(grades, shown, chance, probability, clicks):
    """Write the clicks [B, K] of users who click on each place with probability [K, G], whatever is above it."""
    for b in range(len(grades)):
        for place in range(grades.shape[1]):
            clicks[b, place] = shown[b, place] and chance[b, place] < probability[place, grades[b, place]]


@compiled
def user_browsing(grades, shown, chance, click_probability, examined, clicks):
    """Write the clicks [B, K] of the user browsing model.

    examined [K, K] has P(examined) by place and by distance from the last click above, both from 1. Without such a
    click the distance is that from the top of the list, as if place 0 were clicked.
    """
    for b in range(len(grades)):
        last = -1
        for place in range(grades.shape[1]):
            probability = click_probability[grades[b, place]] * examined[place, place - last - 1]
            clicks[b, place] = shown[b, place] and chance[b, place] < probability
            if clicks[b, place]:
                last = place
