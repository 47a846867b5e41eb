"""FMF: users have the vectors of the leaves of a tree over rules on their profiles. Zhou et al., SIGIR 2011.

The tree of the paper asks for ratings of items; here, as in the dissertation, it asks what reviews say of features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, Positive, WholeNumber
from ol2r_cli.plugins.recommend.baselines import Factors
from ol2r_cli.plugins.recommend.factors import Reviewed, Side
from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.plugins.recommend.trees import Tree, grow, newton


class FMF(Factors):
    """Alternates a user tree for the vectors of items with least squares of these, by the squared error of ratings.

    depth: rules on a path at most. thresholds: tried for a feature at most. l2: of vectors of items. node_l2: of what a
    node adds to the vector of its parent. item_bias: whether items have a number that is the same for all users; it has
    the l2 of their vectors.
    """

    def __init__(
        self,
        factors: Count,
        depth: WholeNumber,
        thresholds: Count,
        l2: Positive,
        node_l2: Positive,
        steps: Count,
        every: Count,
        patience: Count,
        item_bias: bool,
    ):
        super().__init__(factors, steps, every, patience)
        self.depth, self.thresholds, self.l2, self.node_l2 = depth, thresholds, l2, node_l2
        self.item_bias = item_bias

    def _steps(self, reviews: Reviews, random: np.random.Generator) -> Iterator[dict[str, float]]:
        profiles = reviews.user_profile(reviews.train)
        data = Reviewed.of(reviews)
        others = data.others(np.arange(len(data.user)), 1, random)  # without weight: there are no pairs
        items = random.normal(0, 0.1, (reviews.items, self.factors))
        if self.item_bias:
            items = np.concatenate([items, np.zeros((reviews.items, 1))], 1)
        for _ in range(self.steps):
            of_users = Side(data, others, 0, items, 0.0, 0.0)
            self.tree, node, _ = grow(profiles, of_users, self.factors, self.depth, self.thresholds, self.node_l2)
            users = self.tree.vectors[node]
            of_items = Side(data, others, 1, users, 0.0, 0.0)
            items = newton(of_items.derivatives(np.zeros_like(items)), self.l2)
            self.user, self.item = users.astype(np.float32), items[:, : self.factors].astype(np.float32)
            if self.item_bias:
                self.bias = items[:, -1].astype(np.float32)
            paid = self.l2 / 2 * float((items**2).sum()) + self.node_l2 / 2 * float((self.tree.residual**2).sum())
            yield {"objective": of_items.value(items) + paid}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return factors, bias and tree."""
        return super().state() | self.tree.state("user")

    def load(self, state: Mapping[str, NDArray[Any]], reviews: Reviews) -> None:
        """Take a state."""
        super().load({name: state[name] for name in ("user", "item", "bias")}, reviews)
        self.tree = Tree.of(state, "user")

    def fold_in(self, profile: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the scores of the vector of the leaf to which the rules lead."""
        leaf = self.tree.route(profile[None])[0]
        return (self.tree.vectors[leaf] @ self.item.T + self.bias).astype(np.float32)
