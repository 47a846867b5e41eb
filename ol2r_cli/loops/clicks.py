"""Simulated users, place by place. click/ has them as tensors."""

from __future__ import annotations

from ol2r_cli.loops.compile import compiled


@compiled
def dependent(grades, shown, chance, click_probability, stop_probability, stop_without_click, clicks):
    """Write the clicks [B, K] of the dependent click model.

    `grades` [B, K] are those of the documents where `shown`; chance [B, 2 K] has two numbers for every place.
    """
    for b in range(len(grades)):
        stopped = False
        for place in range(grades.shape[1]):
            grade = grades[b, place]
            if stopped or not shown[b, place]:
                clicks[b, place] = False
                continue
            clicked = chance[b, 2 * place] < click_probability[grade]
            clicks[b, place] = clicked
            stopped = (clicked or stop_without_click) and chance[b, 2 * place + 1] < stop_probability[grade]


@compiled
def position_based(grades, shown, chance, relevance, examination, clicks):
    """Write the clicks [B, K] of users who examine each place with its own probability, whatever is above it."""
    for b in range(len(grades)):
        for place in range(grades.shape[1]):
            probability = relevance[grades[b, place]] * examination[place]
            clicks[b, place] = shown[b, place] and chance[b, place] < probability
