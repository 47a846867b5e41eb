"""FacT: vectors of users and items by trees over rules on what reviews say, which also explain the recommendations.

Dissertation, section 4.2; Tao, Jia, Wang and Wang: The FacT, SIGIR 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Share, WholeNumber
from ol2r_cli.plugins.recommend.factors import Floats, Ints, Reviewed, Side, facing
from ol2r_cli.plugins.recommend.model import Ask, Explanation, Recommender, StepProgress, Validate
from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.plugins.recommend.trees import Tree, grow

ANSWERS = ("a lot", "a little", "no opinion")  # in the order of trees.BRANCHES
NAMED = 3  # features in a sentence, at most
_BY = "what the rules on it add to the score, less what they add to that of the average item"


Rules = Sequence[Mapping[str, Any]]  # on the way through a tree, as `Tree.path` returns them


class FacT(Recommender):
    """Factorization trees: the vector of a user or item is that of its leaf in a tree plus a personal residual.

    It starts from vectors without trees. Each alternation grows a user tree for the vectors of the items, an item tree
    for those of the users, and descends in the personal residuals. Alternations end where the objective does not fall.
    That with the highest NDCG@50 of the validation reviews is kept.

    factors: numbers in a vector, d. depth, item_depth: rules on a path at most, in the user tree and in the item tree.
    thresholds: tried for a feature at most. normalized: rules compare shares of a user's mentions, whatever the number
    of its reviews, and not counts.
    The objective (4.2.2) is squared error of ratings - bpr x log sigma of pairs + user_l2 / 2 of users + item_l2 / 2 of
    items (factors.py) + node_l2 / 2 of the residuals of nodes. personal: the share of the l2 of users and items that is
    of the personal residual; the rest is of the vector. parent_factors: whether a node adds a residual to the vector of
    its parent; otherwise it has a vector of its own, and node_l2 is of those of leaves (Table 4.3). samples: other
    items for each review while trees grow. start_epochs, epochs: passes over the reviews before the trees and in an
    alternation. learning_rate: of a step for one review and one other item. item_bias: whether scores have a number
    of the item, the same for all users; it is one more of its vector, with the same l2, in the item tree and in the
    personal residual.
    """

    packages = ("numba",)
    users: Floats  # [U, d]
    items: Floats  # [I, d], or [I, d + 1] with the bias at the end
    user_tree: Tree
    item_tree: Tree

    def __init__(
        self,
        factors: Count,
        depth: WholeNumber,
        item_depth: WholeNumber,
        thresholds: Count,
        normalized: bool,
        bpr: NonNegative,
        user_l2: NonNegative,
        item_l2: NonNegative,
        personal: Share,
        node_l2: Positive,
        parent_factors: bool,
        samples: Count,
        start_epochs: WholeNumber,
        alternations: Count,
        epochs: WholeNumber,
        learning_rate: Positive,
        item_bias: bool,
    ):
        self.factors, self.depths, self.thresholds, self.samples = factors, (depth, item_depth), thresholds, samples
        self.bpr, self.l2, self.personal, self.node_l2 = bpr, (user_l2, item_l2), personal, node_l2
        self.start_epochs, self.alternations, self.epochs = start_epochs, alternations, epochs
        self.learning_rate, self.normalized, self.item_bias = learning_rate, normalized, item_bias
        self.parent_factors = parent_factors

    def fit(self, reviews: Reviews, seed: int, progress: StepProgress, validate: Validate) -> None:
        """Alternate. Users, items and features are in the order of their first reviews, whatever their numbers are."""
        random, (ranks, ordered) = np.random.default_rng(seed), reviews.by_first_review()
        self._read(reviews)
        profiles, data = self._profiles(ordered), Reviewed.of(ordered)
        others = data.others(np.arange(len(data.user)), self.samples, random)
        vectors = [random.normal(0, 0.1, (size, self.factors)) for size in (reviews.users, reviews.items)]
        if self.item_bias:
            vectors[1] = np.concatenate([vectors[1], np.zeros((reviews.items, 1))], 1)
        leaves, best, last = [np.zeros_like(of_side) for of_side in vectors], dict[str, Any](), np.inf
        self._descend(data, vectors, leaves, self.start_epochs, random)
        for step in range(1, self.alternations + 1):
            trees = []
            for side in (0, 1):
                loss = self._side(data, others, side, vectors)
                settings = vectors[side].shape[1], self.depths[side], self.thresholds, self.node_l2, self.parent_factors
                tree, node, _ = grow(profiles[side], loss, *settings)
                trees.append(tree)
                leaves[side] = tree.vectors[node]
            self._descend(data, vectors, leaves, self.epochs, random)
            objective = self._objective(data, others, vectors, leaves, trees)
            if not objective < last:  # also where it is not a number
                break
            last = objective
            self.user_tree, self.item_tree = (tree.with_features(np.argsort(ranks["feature"])) for tree in trees)
            values = {}
            for name, both in (("leaves", leaves), ("validation", vectors)):
                self.users, self.items = both[0][ranks["user"]], both[1][ranks["item"]]
                values[f"{name}_ndcg_50"] = validate(self)
            progress(step, objective=objective, **values)
            if values["validation_ndcg_50"] > best.get("validation_ndcg_50", -1.0):
                best = {**values, **self.state()}
        if not best:
            raise FloatingPointError("the objective is not a finite number")
        self._take(best)

    def _descend(
        self, data: Reviewed, vectors: list[Floats], leaves: list[Floats], epochs: int, random: np.random.Generator
    ) -> None:
        bases = [self.personal * leaf for leaf in leaves]  # where both parts of the l2 together are least
        for _ in range(epochs):
            data.descend(vectors, bases, self.learning_rate, self.bpr, self.l2, random)

    def _side(self, data: Reviewed, others: Ints, side: int, vectors: list[Floats]) -> Side:
        return Side(data, others, side, vectors[1 - side], self.bpr, (1 - self.personal) * self.l2[side])

    def _objective(
        self, data: Reviewed, others: Ints, vectors: list[Floats], leaves: list[Floats], trees: list[Tree]
    ) -> float:
        users, items = sides = [self._side(data, others, side, vectors) for side in (0, 1)]
        total = users.value(vectors[0]) + items.l2 / 2 * items.squares(vectors[1])
        for number, (side, tree) in enumerate(zip(sides, trees, strict=True)):
            total += self.personal * self.l2[number] / 2 * side.squares(vectors[number] - leaves[number])
            total += self.node_l2 / 2 * tree.squares(self.parent_factors)
        return total

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return inner products of vectors, and the biases."""
        return self._scores(self.users[users])

    def _scores(self, users: Floats) -> NDArray[np.float32]:
        """Return the scores [n, I] for the vectors [n, d] of users."""
        return (facing(users, self.items) @ self.items.T).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return vectors and trees."""
        vectors = {"users": self.users, "items": self.items}
        return vectors | self.user_tree.state("user") | self.item_tree.state("item")

    def load(self, state: Mapping[str, NDArray[Any]], reviews: Reviews) -> None:
        """Take a state, and from the reviews profiles and names."""
        self._read(reviews)
        self._take(state)

    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.users, self.items = state["users"], state["items"]
        self.user_tree, self.item_tree = Tree.of(state, "user"), Tree.of(state, "item")

    def _read(self, reviews: Reviews) -> None:
        self.names, self.profiles = reviews.feature_names, self._profiles(reviews)
        self.reviewed = np.unique(reviews.item[reviews.train])

    def _profiles(self, reviews: Reviews) -> tuple[Floats, Floats]:
        return self._normalized(reviews.user_profile(reviews.train)), reviews.item_profile(reviews.train)

    def _normalized(self, profiles: Floats) -> Floats:
        """Return profiles [n, F] of users as the rules see them."""
        mentions = np.maximum(np.nansum(profiles, axis=1, keepdims=True), 1)
        return profiles / mentions if self.normalized else profiles

    def trees(self) -> dict[str, Any]:
        """Return the trees as nested rules."""
        return {"user": self.user_tree.plain(self.names), "item": self.item_tree.plain(self.names)}

    def fold_in(self, profile: Floats) -> NDArray[np.float32]:
        """Return the scores of the vector of the leaf to which the rules lead (4.2.3, cold-start)."""
        leaf = self.user_tree.route(self._normalized(profile[None]))
        return self._scores(self.user_tree.vectors[leaf])[0]

    def interview(self, ask: Ask) -> NDArray[np.float32]:
        """Ask about the features of the rules on the way (4.2.4), each once."""
        tree, node, answers = self.user_tree, 0, dict[int, int]()
        while (feature := int(tree.feature[node])) >= 0:
            if feature not in answers:
                answers[feature] = ask(f"How do you like this {self.names[feature]}?", ANSWERS)
            if (below := int(tree.children[node, answers[feature]])) < 0:
                break
            node = below
        return self._scores(tree.vectors[[node]])[0]

    def explain(self, user: int, item: int) -> Explanation:
        """Name features that both paths have, else those of either (4.2.2), those that contribute most first.

        The dissertation has those at the lower levels first, which are mostly the same for all items of a user.
        """
        of_user = self.user_tree.path(self.profiles[0][user], self.names)
        if self.normalized:
            of_user = [{**rule, "share": True} for rule in of_user]
        paths = {"user": of_user, "item": self.item_tree.path(self.profiles[1][item], self.names)}
        over = dict(zip(self.names, self.over_average(user, item).tolist(), strict=True))
        names, sentence = said(paths["user"], paths["item"], over)
        return Explanation(names, sentence, contributions=tuple(over[name] for name in names), by=_BY, paths=paths)

    def over_average(self, user: int, item: int) -> Floats:
        """Return what the rules on each feature [F] add to a score, less the mean over items with training reviews.

        Rules of the user's path add residuals times the item's vector, rules of the item's path the user's vector times
        residuals.
        """
        users, items, number = facing(self.users, self.items), self.items, len(self.names)
        nodes, own = self.item_tree.route(self.profiles[1]), self.user_tree.route(self.profiles[0][[user]])
        of_user = self.user_tree.by_feature(own, number)
        of_item = self.item_tree.by_feature(nodes[[item]], number)
        of_average = self.item_tree.by_feature(nodes[self.reviewed], number)
        apart = items[item] - items[self.reviewed].mean(0)
        return of_user @ apart[: of_user.shape[1]] + (of_item - of_average) @ users[user]


def said(user: Rules, item: Rules, over: Mapping[str, float]) -> tuple[tuple[str, ...], str]:
    """Return the features of an explanation, and its sentence, from the paths of a user and of an item.

    A feature counts where the user mentions it, and where the item has more good than bad mentions. Of several rules
    with the same feature, the lowest counts. `over` has what each feature contributes over the average item: where that
    is not above 0, the feature is no reason for this item.
    """
    wanted = _lowest_branches([rule for rule in user if rule["value"] is not None], over)
    praised = _lowest_branches([rule for rule in item if (rule["value"] or 0) > 0], over)
    shared = [name for name in wanted if name in praised]
    named = sorted(shared or {**wanted, **praised}, key=lambda name: -over[name])[:NAMED]
    if not named:
        return (), "We guess you would like this item because customers with reviews like yours do."
    its = _worded(praised, "its excellent", "its good")
    if shared:
        yours = _worded(wanted, "your emphasis on", "your taste in")
        matches = [f"{its[name]} matches {yours[name]}" for name in named]
        return tuple(named), f"We recommend this item to you because {_and(matches)}."
    guesses = its | _worded(wanted, "your preference for", "your choice of")
    return tuple(named), f"We guess you would like this item because of {_and([guesses[name] for name in named])}."


def _worded(branches: Mapping[str, str], left: str, right: str) -> dict[str, str]:
    """Return each feature in words, by whether its value is at least (`left`) or below the threshold."""
    return {name: f"{left if branch == 'left' else right} {name}" for name, branch in branches.items()}


def _lowest_branches(rules: Rules, over: Mapping[str, float]) -> dict[str, str]:
    """Return the branch of the lowest of the rules, in the order of a path, on each feature that contributes."""
    return {rule["feature"]: rule["branch"] for rule in rules if over[rule["feature"]] > 0}


def _and(parts: Sequence[str]) -> str:
    """Return parts as a list in words."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
