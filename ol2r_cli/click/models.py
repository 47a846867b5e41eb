"""Click models of two kinds: users who read a list from the top until they leave, and users who look at places.

docs/algorithms/clicks.md has the definitions, papers and probabilities; a YAML file of configs/click is a user.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.trust import trust_at
from ol2r_cli.config.ranges import NonNegative, Share
from ol2r_cli.interfaces import ClickModel, Oracle, RunContext
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

Tables = Mapping[int, Mapping[str, Sequence[Share]]]  # number of grades -> setting -> probability of each grade


class _User(ClickModel):
    """Keeps P(click | grade): `click`, or if that is null `tables` by the dataset's number of grades.

    On a dataset with attractions these take the place of the table, and what is by grade (G) is by document.
    """

    by_document = True
    click_probability: Tensor

    def __init__(self, click: Sequence[Share] | None, tables: Tables):
        super().__init__()
        self.click_setting, self.tables = click, tables  # the method `click` has the name of the setting

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades and the places shown."""
        self.register_buffer("click_probability", self._by_grade("click", self.click_setting, context))
        self.register_buffer("probability", self._probability(context), persistent=False)  # follows from the settings
        self.user: Any = None  # the same for loops, when it is first used

    def _probability(self, context: RunContext) -> Tensor:
        """Return what the method `click` needs besides, for all places."""
        raise NotImplementedError

    def _stages(self, click: Any, by_place: Tensor) -> Any:
        """Return the stage of users with these probabilities [X, K, Y], the same for every replica."""
        return loops.rounds.UserStages(click, loops.users.User(self.click_probability[None], by_place[None]))

    def _clicks(
        self, click: Any, by_place: Tensor, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random
    ) -> Bool[Tensor, "B K"]:
        """Return the clicks of one round, which a loop writes."""
        if self.user is None:
            self.user = loops.launch.unchanging(loops.users.User(self.click_probability[None], by_place[None]))
        clicks = torch.empty_like(shown, memory_format=torch.contiguous_format)
        arguments = random.draw(), grades.contiguous(), shown.contiguous(), self.user, clicks
        loops.launch.launch(loops.single.clicks_of(click), len(grades), 2 * grades.shape[1] + 8, *arguments)
        return clicks

    def click_rates(self, grades: Int[Tensor, "B K"]) -> Float[Tensor, "B K"] | None:
        """Return P(examined) P(click | grade)."""
        examined = self.propensities(grades)
        return None if examined is None else examined * self.click_probability[grades]

    def _by_grade(self, name: str, values: Sequence[float] | None, context: RunContext) -> Float[Tensor, "G"]:
        """Return the `values` of the setting `name`, or if they are None those of `tables` for the dataset's grades.

        ValueError, with what to type, without such a table or one probability per grade.
        """
        if values is None and name == "click" and context.attraction is not None:
            return context.attraction[0]
        if values is None:
            values = self._from_tables(name, context.grades)
        else:
            _check_number(self.setting(name), values, context.grades)
        by_grade = torch.tensor(list(values), dtype=torch.float64, device=context.device)
        return by_grade if context.attraction is None else by_grade[context.attraction[1]]

    def _from_tables(self, name: str, grades: int) -> Sequence[float]:
        """Return the probabilities of the setting `name` for so many grades.

        Without a table for them, that for the next larger number, or else the largest, is interpolated, and `warnings`
        says so.
        """
        setting, tables_setting = self.setting(name), self.setting("tables")
        tables = {int(key): table for key, table in self.tables.items() if str(key).isdecimal()}
        number = _nearest(tables, grades)
        table = tables.get(number, {}).get(name)
        if table is None:
            dots = ",".join("." * grades)
            has = f"{tables_setting} must have {name} for {number} grades"
            raise ValueError(f"{has}, got none: type '{setting}=[{dots}]'")
        _check_number(f"{tables_setting}.{number}.{name}", table, number)
        if number == grades:
            return table
        values = interpolated(table, grades)
        if min(table) < max(table):
            shown = ",".join(f"{value:.4g}" for value in values)
            self.warnings += (
                f"{setting} for {grades} grades is interpolated from that for {number} grades: [{shown}]; "
                f"{setting}=[..] sets your own",
            )
        return values

    def _by_place(
        self, name: str, values: Sequence[float] | None, curve: Callable[[int], float], context: RunContext
    ) -> Float[Tensor, "K"]:
        """Return the first K `values` of the setting `name`, or if they are None what `curve` gives for places 1 .. K.

        ValueError if there are fewer values than places.
        """
        places = context.positions
        if values is None:
            values = [curve(rank) for rank in range(1, places + 1)]
        if len(values) < places:
            rule = f"{places} probabilities, one per rank"
            raise ValueError(f"{self.setting(name)} must be {rule}, got {list(values)}: type positions={len(values)}")
        return torch.tensor(list(values)[:places], dtype=torch.float64, device=context.device)


def _check_number(setting: str, probabilities: Sequence[float], grades: int) -> None:
    """Raise ValueError unless there are so many probabilities."""
    if len(probabilities) != grades:
        raise ValueError(f"{setting} must be {grades} probabilities, one per grade, got {list(probabilities)}")


def _nearest(tables: Collection[int], grades: int) -> int:
    """Return the number of grades, of those with tables, by which so many grades are understood.

    It is `grades` if it has a table, otherwise the next larger one, otherwise the largest; `grades` without tables.
    """
    if grades in tables:
        return grades
    larger = [number for number in tables if number > max(1, grades)]
    return min(larger, default=max(tables, default=grades))


def interpolated(table: Sequence[float], grades: int) -> list[float]:
    """Return probabilities for G grades: grade g has that at g / (G - 1), linear between those of the table.

    So the papers' tables for 3 grades follow from those for 5.
    """
    values = []
    for grade in range(grades):
        place = grade * (len(table) - 1) / max(1, grades - 1)
        below = min(int(place), len(table) - 2)
        share = place - below
        values.append((1 - share) * table[below] + share * table[below + 1])
    return values


class CascadeBased(_User):
    """Examines the list from the top and clicks with P(click | grade). After every document the user may leave.

    `probability` is P(leave | clicked, place, grade) [2, K, G]: first of documents that were not clicked, then of those
    that were.
    """

    probability: Tensor

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Click on documents above the place where the user leaves."""
        return self._clicks(loops.users.reads_from_the_top, self.probability, grades, shown, random)

    def propensities(self, grades: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return the probability of not having left above: E_{k+1} = E_k (1 - P(leave at k))."""
        clicked, places = self.click_probability[grades], torch.arange(grades.shape[1], device=grades.device)
        leaves = (1 - clicked) * self.probability[0, places, grades] + clicked * self.probability[1, places, grades]
        return torch.cat([torch.ones_like(leaves[:, :1]), (1 - leaves).cumprod(1)[:, :-1]], 1)

    def _reads_from_the_top(self) -> Any:
        """Return the stage of this user, which each choice below offers for itself."""
        return self._stages(loops.users.reads_from_the_top, self.probability)


class DependentClick(CascadeBased):
    """Examines the list from the top, clicks with P(click | grade) and after a click stops with P(stop | grade).

    `click` and `stop` are by grade; null takes them from `tables`. With `stop_without_click` the user may stop at every
    examined document, as in the authors' and the PDGD code. With all stop probabilities 1 this is the cascade model.
    The papers call it the dependent click model; strictly it is the simplified dynamic Bayesian network.
    """

    stop_probability: Tensor

    def __init__(
        self, click: Sequence[Share] | None, stop: Sequence[Share] | None, tables: Tables, stop_without_click: bool
    ):
        super().__init__(click, tables)
        self.stop_setting, self.stop_without_click = stop, stop_without_click

    def _probability(self, context: RunContext) -> Float[Tensor, "2 K G"]:
        stops = self._by_grade("stop", self.stop_setting, context)
        self.register_buffer("stop_probability", stops)
        at_every_place = stops.expand(context.positions, -1)
        unclicked = at_every_place if self.stop_without_click else torch.zeros_like(at_every_place)
        return torch.stack([unclicked, at_every_place])

    stages = CascadeBased._reads_from_the_top


class DependentByPlace(CascadeBased):
    """Reads from the top, clicks with P(click | grade) and after a click at place k stops with 1 - lambda_k.

    `continuation` has lambda_k by place; null is .9 / k. Without a click the user always reads on. `click` is that of
    `DependentClick`. This is the model of Guo, Liu and Wang, "Efficient multiple-click models" (WSDM 2009).
    """

    def __init__(self, click: Sequence[Share] | None, tables: Tables, continuation: Sequence[Share] | None):
        super().__init__(click, tables)
        self.continuation = continuation

    def _probability(self, context: RunContext) -> Float[Tensor, "2 K G"]:
        stops = 1 - self._by_place("continuation", self.continuation, lambda rank: 0.9 / rank, context)
        clicked = stops[:, None].expand(-1, len(self.click_probability))
        return torch.stack([torch.zeros_like(clicked), clicked])

    stages = CascadeBased._reads_from_the_top


class DynamicBayesian(CascadeBased):
    """Is attracted to a click with a = P(click | grade) and satisfied by it with s = P(stop | grade).

    A satisfied user stops; any other goes on to the next place with probability gamma, the setting `continuation`.
    `click` and `stop` are those of `DependentClick`, which is this model with gamma = 1. Chapelle and Zhang, "A dynamic
    Bayesian network click model for web search ranking" (WWW 2009).
    """

    def __init__(
        self, click: Sequence[Share] | None, stop: Sequence[Share] | None, tables: Tables, continuation: Share
    ):
        super().__init__(click, tables)
        self.stop_setting, self.continuation = stop, continuation

    def _probability(self, context: RunContext) -> Float[Tensor, "2 K G"]:
        stops = self._by_grade("stop", self.stop_setting, context)
        abandons = 1 - self.continuation
        clicked = stops + (1 - stops) * abandons  # 1 - (1 - s) gamma, exactly s if gamma is 1
        leaving = torch.stack([torch.full_like(stops, abandons), clicked])
        return leaving[:, None].repeat(1, context.positions, 1)

    stages = CascadeBased._reads_from_the_top


class IndependentClicks(_User):
    """Clicks with `probability` P(click | place, grade) [K, G], whatever is clicked elsewhere.

    `examination_probability` [K] is that of a place.
    """

    probability: Tensor
    examination_probability: Tensor

    def propensities(self, grades: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return `examination_probability` for each list."""
        return self.examination_probability[: grades.shape[1]].expand(grades.shape)

    def click_rates(self, grades: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return `probability` at each place."""
        return self.probability[torch.arange(grades.shape[1], device=grades.device), grades]

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Click on each place independently."""
        return self._clicks(loops.users.clicks_independently, self.probability[None], grades, shown, random)

    def _clicks_independently(self) -> Any:
        """Return the stage of this user, which each choice below offers for itself."""
        return self._stages(loops.users.clicks_independently, self.probability[None])


class PositionBased(IndependentClicks):
    """Examines rank r with probability 1 / r^eta, or `examination`[r - 1], and clicks with P(click | grade, examined).

    `click` has these probabilities by grade; null takes them from `tables`. Craswell, Zoeter, Taylor and Ramsey, "An
    experimental comparison of click position-bias models" (WSDM 2008).
    """

    def __init__(
        self, click: Sequence[Share] | None, tables: Tables, eta: NonNegative, examination: Sequence[Share] | None
    ):
        super().__init__(click, tables)
        self.eta, self.examination = eta, examination

    def _probability(self, context: RunContext) -> Float[Tensor, "K G"]:
        examination = self._by_place("examination", self.examination, lambda rank: rank**-self.eta, context)
        self.register_buffer("examination_probability", examination, persistent=False)
        return examination[:, None] * self.click_probability

    stages = IndependentClicks._clicks_independently


class TrustBias(IndependentClicks):
    """Clicks at place k with probability t_k (e+_k r + e-_k (1 - r)), where r = P(relevant | grade).

    Whoever examines a document takes it for relevant or not, and errs by place: P(click) is affine in r. `click` has r
    by grade: without trust bias, e+ = 1 and e- = 0, it is P(click | grade, examined). Null takes it from `tables`. By
    place are `examination` t_k, `epsilon_plus` e+_k = P(click | examined, relevant) and `epsilon_minus` e-_k = P(click
    | examined, not relevant). Null takes the curves of `trust_at`. Vardasbi, Oosterhuis and de Rijke, "When inverse
    propensity scoring does not work" (CIKM 2020).
    """

    def __init__(
        self,
        click: Sequence[Share] | None,
        tables: Tables,
        examination: Sequence[Share] | None,
        epsilon_plus: Sequence[Share] | None,
        epsilon_minus: Sequence[Share] | None,
    ):
        super().__init__(click, tables)
        self.examination, self.epsilon_plus, self.epsilon_minus = examination, epsilon_plus, epsilon_minus

    def _probability(self, context: RunContext) -> Float[Tensor, "K G"]:
        examination = self._by_place("examination", self.examination, lambda rank: trust_at(rank).examination, context)
        self.register_buffer("examination_probability", examination, persistent=False)
        plus = self._by_place("epsilon_plus", self.epsilon_plus, lambda rank: trust_at(rank).epsilon_plus, context)
        minus = self._by_place("epsilon_minus", self.epsilon_minus, lambda rank: trust_at(rank).epsilon_minus, context)
        relevant = self.click_probability
        return examination[:, None] * (plus[:, None] * relevant + minus[:, None] * (1 - relevant))

    stages = IndependentClicks._clicks_independently


class UserBrowsing(_User):
    """Clicks at place k with P(click | grade) G(k, j), where j is the distance from the last click above.

    Without a click above, j = k. `examination` has a row for every place k from 1: G(k, 1), .., G(k, k). Further places
    have the last row: its last number without a click above, otherwise its j-th, at most its last but one. `click` is
    by grade; null takes it from `tables`. Dupret and Piwowarski, "A user browsing model to predict search engine click
    data from past observations" (SIGIR 2008).
    """

    probability: Tensor

    def __init__(self, click: Sequence[Share] | None, tables: Tables, examination: Sequence[Sequence[Share]]):
        super().__init__(click, tables)
        self.examination = examination

    def _probability(self, context: RunContext) -> Float[Tensor, "K K"]:
        """Return G by place (row) and distance (column), both from 1; 0 beyond the top of the list.

        ValueError unless the k-th row of the setting has k numbers.
        """
        for place, row in enumerate(self.examination or [[]], 1):
            if len(row) != place:
                shape = "k probabilities in row k, [[.],[.,.],[.,.,.],..]"
                raise ValueError(f"{self.setting('examination')} must have {shape}, got {list(row)} in row {place}")
        places = context.positions
        examination = torch.zeros(places, places, dtype=torch.float64)
        for place in range(1, places + 1):
            examination[place - 1, :place] = torch.tensor(self._by_distance(place), dtype=torch.float64)
        return examination.to(context.device)

    def _by_distance(self, place: int) -> Sequence[float]:
        """Return G(k, 1), .., G(k, k) of place k, from 1."""
        if place <= len(self.examination):
            return self.examination[place - 1]
        *after_click, without_click = self.examination[-1]
        furthest = after_click[-1] if after_click else without_click
        further = [furthest] * (place - 1 - len(after_click))
        return [*after_click, *further, without_click]

    def stages(self) -> Any:
        """Return the stage of this user."""
        return self._stages(loops.users.browses, self.probability[None])

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Click from the top, each place with the distance from the last click."""
        return self._clicks(loops.users.browses, self.probability[None], grades, shown, random)

    def propensities(self, grades: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return the mean of G over where the last click above is, which the places above decide one by one."""
        attraction = self.click_probability[grades]
        examination = []
        last = torch.zeros(len(grades), grades.shape[1] + 1, dtype=attraction.dtype, device=grades.device)
        last[:, 0] = 1  # P(no click above), then P(the last click is at place 1), ..
        for place in range(grades.shape[1]):
            reached = last[:, : place + 1] * self.probability[place, : place + 1].flip(0)
            clicked = reached * attraction[:, place, None]
            examination.append(reached.sum(1))
            last[:, : place + 1] -= clicked
            last[:, place + 1] = clicked.sum(1)
        return torch.stack(examination, 1)
