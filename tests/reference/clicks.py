"""Exact probabilities of what simulated users examine and click.

Jia et al., PairRank (WWW 2021), Section 4.1: the dependent click model of Guo, Liu, Wang (2009).
Cascade: Craswell et al. (2008). Position-based, with examination 1 / rank^eta: Joachims et al. (2017). Continuation by
place: Guo, Liu and Wang (2009). Dynamic Bayesian network: Chapelle and Zhang (2009). User browsing: Dupret and
Piwowarski (2008). Trust bias: Vardasbi, Oosterhuis and de Rijke (2020).

A list is given by its relevance grades from the top; `click` and `stop` hold one probability for each grade.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

GoesOn = Callable[[int, int, bool], float]  # of rank from 1, grade, and whether clicked: the probability of reading on


def cascade_examination(grades: Sequence[int], click: Sequence[float], goes_on: GoesOn) -> list[float]:
    """P(rank is examined): the user reads from the top, and at every rank above has read on, after a click or none.

    The dependent click model goes on after a click with 1 - stop[grade], or with a continuation by rank, and otherwise
    always; the dynamic Bayesian network with gamma, after a click with gamma (1 - satisfaction[grade]).
    """
    examined, reached = [], 1.0
    for rank, grade in enumerate(grades, 1):
        examined.append(reached)
        reached *= click[grade] * goes_on(rank, grade, True) + (1 - click[grade]) * goes_on(rank, grade, False)
    return examined


def position_based_clicks(grades: Sequence[int], click: Sequence[float], eta: float) -> list[float]:
    """P(click at rank) = click[grade] / rank^eta: whether a rank is examined depends on nothing that is shown."""
    return [click[grade] / rank**eta for rank, grade in enumerate(grades, 1)]


def user_browsing_examined(rows: Sequence[Sequence[float]], rank: int, distance: int) -> float:
    """G(rank, distance), both from 1; distance = rank without a click above. Further ranks have the last row."""
    if rank <= len(rows):
        return rows[rank - 1][distance - 1]
    *after_click, without = rows[-1]
    return without if distance == rank else after_click[min(distance, len(after_click)) - 1]


def user_browsing_clicks(
    grades: Sequence[int], attraction: Sequence[float], rows: Sequence[Sequence[float]]
) -> list[float]:
    """P(click at rank k) = sum over the last click i < k of m_i a_k G(k, k - i) prod_{i < l < k} (1 - a_l G(l, l - i)).

    m_0 = 1 stands for no click above.
    """
    clicked = [1.0]
    for k in range(1, len(grades) + 1):
        total = 0.0
        for i, chance in enumerate(clicked):
            for between in range(i + 1, k):
                chance *= 1 - attraction[grades[between - 1]] * user_browsing_examined(rows, between, between - i)
            total += chance * attraction[grades[k - 1]] * user_browsing_examined(rows, k, k - i)
        clicked.append(total)
    return clicked[1:]


def trust_bias_clicks(
    grades: Sequence[int],
    relevance: Sequence[float],
    examination: Sequence[float],
    plus: Sequence[float],
    minus: Sequence[float],
) -> list[float]:
    """P(click at rank k) = t_k (e+_k r + e-_k (1 - r)) = alpha_k r + beta_k: alpha = t (e+ - e-), beta = t e-."""
    return [
        t * (e_plus - e_minus) * relevance[grade] + t * e_minus
        for grade, t, e_plus, e_minus in zip(grades, examination, plus, minus, strict=False)
    ]


def cascade_user(grades: Sequence[int], chance: Sequence[float], click: Sequence[float], goes_on: GoesOn) -> list[bool]:
    """The clicks of one user who reads from the top; `chance` has two numbers for each rank, click and then leaving."""
    clicks = [False] * len(grades)
    for rank, grade in enumerate(grades, 1):
        click_chance, leave_chance = chance[2 * rank - 2 : 2 * rank]
        clicks[rank - 1] = click_chance < click[grade]
        if leave_chance < 1 - goes_on(rank, grade, clicks[rank - 1]):
            break
    return clicks


def independent_user(probabilities: Sequence[float], chance: Sequence[float]) -> list[bool]:
    """The clicks of one user with these probabilities by rank."""
    return [number < probability for number, probability in zip(chance, probabilities, strict=True)]


def user_browsing_user(
    grades: Sequence[int], chance: Sequence[float], attraction: Sequence[float], rows: Sequence[Sequence[float]]
) -> list[bool]:
    """The clicks of one user of the user browsing model."""
    clicked = [0]  # ranks, and 0 for the top of the list
    for rank, grade in enumerate(grades, 1):
        if chance[rank - 1] < attraction[grade] * user_browsing_examined(rows, rank, rank - clicked[-1]):
            clicked.append(rank)
    return [rank in clicked for rank in range(1, len(grades) + 1)]
