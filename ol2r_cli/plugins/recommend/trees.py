"""Trees over rules on profiles: their growth by an exact search for splits, and the way of a profile through them.

Dissertation, section 4.2.2. A rule compares a feature of a profile with a threshold. Who has as much or more goes left,
who has less right, who never mentions it to the third branch (4.2.5). The vector of a node is that of its parent plus a
residual. What a tree sees of the objective is the gradient g and the Hessian H of each member: a group that moves by
-(H + l2)^-1 g lowers the expansion to second order by g'(H + l2)^-1 g / 2. The best rule (4.2.6) has the highest sum of
that over its three groups, less that of the group which it splits. Without factors of parents (Table 4.3) the vector
of a node begins at 0, and l2 is of the vectors of leaves: then g is that of the same expansion at 0, g - H v for the
vector v of the parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.loops.compile import compiled, compiled_sums

BRANCHES = ("left", "right", "unknown")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Objective(Protocol):
    """What members n lose by their vectors [n, d]."""

    def value(self, vectors: Floats) -> float:
        """Return the loss of all."""

    def derivatives(self, vectors: Floats) -> Floats:
        """Return gradient and lower triangle of the Hessian, [n, d + d (d + 1) / 2]."""


@dataclass(frozen=True)
class Tree:
    """N nodes, the root first and parents before their children."""

    feature: Ints  # [N]; -1 for a leaf
    threshold: Floats  # [N]
    children: Ints  # [N, 3] in the order of BRANCHES; -1 where no member of the fit went
    residual: Floats  # [N, d]

    @property
    def vectors(self) -> Floats:
        """Return [N, d], the sum of residuals from the root to each node."""
        vectors = self.residual.copy()
        for node, children in enumerate(self.children):
            for child in children[children >= 0]:
                vectors[child] += vectors[node]
        return vectors

    def squares(self, parent_factors: bool) -> float:
        """Return what the l2 is of: the squared residuals of nodes, or of the vectors of leaves."""
        penalised = self.residual if parent_factors else self.vectors[self.feature < 0]
        return float((penalised**2).sum())

    def route(self, profiles: Floats) -> Ints:
        """Return the last node [n] on the way of profiles [n, F]: a leaf, or where the branch has no member."""
        node, moving = np.zeros(len(profiles), np.int64), np.arange(len(profiles))
        while len(moving):
            moving = moving[self.feature[node[moving]] >= 0]  # a leaf has no rule
            at = node[moving]
            branch = branches(profiles[moving, self.feature[at]], self.threshold[at])
            below = self.children[at, branch]
            node[moving] = np.where(below < 0, at, below)
            moving = moving[below >= 0]
        return node

    def by_feature(self, nodes: Ints, features: int) -> Floats:
        """Return what the rules on each feature add to the vectors of members [F, d], the mean over their nodes [n].

        A rule adds the residual of the node to which it leads.
        """
        share = np.bincount(nodes, minlength=len(self.feature)) / len(nodes)
        added = np.zeros((features, self.residual.shape[1]))
        for node in range(len(self.feature) - 1, -1, -1):  # children come after their parents
            for child in self.children[node][self.children[node] >= 0]:
                added[self.feature[node]] += share[child] * self.residual[child]
                share[node] += share[child]
        return added

    def with_features(self, features: Ints) -> Tree:
        """Return the tree where feature f is called features[f]."""
        return replace(self, feature=np.append(features, -1)[self.feature])  # a leaf has -1, the last

    def path(self, profile: Floats, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rules on the way of a profile [F]: feature, threshold, value (None: unknown) and branch."""
        node, rules = 0, list[dict[str, Any]]()
        while node >= 0 and (feature := int(self.feature[node])) >= 0:
            value, threshold = float(profile[feature]), float(self.threshold[node])
            branch = int(branches(profile[feature], threshold))
            known = None if np.isnan(value) else value
            rules.append(
                {"feature": names[feature], "threshold": threshold, "value": known, "branch": BRANCHES[branch]}
            )
            node = int(self.children[node, branch])
        return rules

    def plain(self, names: Sequence[str], node: int = 0) -> dict[str, Any]:
        """Return the tree below a node as plain data: feature, threshold and a tree for each branch; {} for a leaf."""
        if self.feature[node] < 0:
            return {}
        ways = zip(BRANCHES, self.children[node].tolist(), strict=True)
        below = {branch: self.plain(names, child) for branch, child in ways if child >= 0}
        return {"feature": names[self.feature[node]], "threshold": float(self.threshold[node]), **below}

    def state(self, side: str) -> dict[str, NDArray[Any]]:
        """Return the arrays, with the name of the side before theirs."""
        return {f"{side}_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, state: Mapping[str, NDArray[Any]], side: str) -> Tree:
        """Return the tree of `state`."""
        return cls(*(state[f"{side}_{field.name}"] for field in fields(cls)))


def branches(values: Floats, thresholds: Floats | float) -> Ints:
    """Return 0 for values of at least the threshold, 1 for lower and 2 for unknown ones (4.2.5)."""
    return np.where(np.isnan(values), 2, np.where(values >= thresholds, 0, 1))


def grow(
    profiles: Floats,
    objective: Objective,
    d: int,
    depth: int,
    thresholds: int,
    l2: float,
    parent_factors: bool = True,
) -> tuple[Tree, Ints, list[float]]:
    """Return a tree for members with profiles [n, F], the node [n] of each, and the objective after each level.

    Levels grow one after the other: rules by derivatives at the vectors of the level above, then one step for all of
    its groups, halved until the objective, with l2 / 2 times `Tree.squares`, does not rise. Where no rule gains, a node
    stays a leaf. parent_factors: whether l2 is of the residual that a node adds to the vector of its parent; otherwise
    it is of the vector, to which the parent contributes nothing, and the objective may rise by a level, as there are
    more vectors.
    """
    bins, cuts = _binned(profiles, thresholds)
    owner, mentioned = np.nonzero(bins >= 0)
    start, level = np.searchsorted(owner, np.arange(len(profiles) + 1)), bins[owner, mentioned]
    vectors, residuals = np.zeros((len(profiles), d)), list[Floats]()
    members, rules, children = [np.arange(len(profiles))], [(-1, 0.0)], [[-1, -1, -1]]
    values, paid, new = [objective.value(vectors)], 0.0, [0]
    for height in range(depth + 1):
        derivatives, parents = objective.derivatives(vectors), new if height else []
        if not parent_factors:
            derivatives = _expanded_at_0(derivatives, vectors)
        new, rest = [] if height else [0], paid
        for parent in parents:
            group = members[parent]
            gain, feature, cut = split(group, derivatives, start, mentioned, level, len(cuts), thresholds, l2)
            if gain > 0:
                rules[parent] = feature, float(cuts[feature][cut])
                rest -= 0 if parent_factors else l2 / 2 * (vectors[group[0]] ** 2).sum()
                branch = branches(profiles[group, feature], cuts[feature][cut])
                for way in np.unique(branch):
                    children[parent][way] = len(members)
                    new.append(len(members))
                    members.append(group[branch == way])
                    rules.append((-1, 0.0))
                    children.append([-1, -1, -1])
        if not new:
            break
        steps, moves = newton(np.array([derivatives[members[n]].sum(0) for n in new]), l2), np.zeros_like(vectors)
        begin, before, share = np.zeros_like(steps), values[-1], 1.0  # what l2 is of before the step
        if not parent_factors:
            begin = vectors[[members[n][0] for n in new]]
            before += rest + l2 / 2 * (begin**2).sum() - paid
            steps -= begin
        for n, step in zip(new, steps, strict=True):
            moves[members[n]] = step
        while True:
            penalty = l2 / 2 * ((begin + share * steps) ** 2).sum()
            value = objective.value(vectors + share * moves) + rest + penalty
            if value <= before or not share:
                break
            share = share / 2 if share > 1e-6 else 0.0
        vectors += share * moves
        paid = rest + penalty
        residuals.append(share * steps)
        values.append(value)
    feature, threshold = zip(*rules, strict=True)
    tree = Tree(np.array(feature), np.array(threshold), np.array(children), np.concatenate(residuals))
    node = np.empty(len(profiles), np.int64)
    for n, group in enumerate(members):
        node[group] = n  # children come after their parents
    return tree, node, values


def _expanded_at_0(derivatives: Floats, vectors: Floats) -> Floats:
    """Return the derivatives at 0 of the expansion to second order at vectors [n, d]."""
    d = vectors.shape[1]
    place = np.zeros((d, d), np.int64)
    place[np.tril_indices(d)] = d + np.arange(d * (d + 1) // 2)
    hessian = derivatives[:, np.maximum(place, place.T)]
    gradient = derivatives[:, :d] - np.einsum("nfh,nh->nf", hessian, vectors)
    return np.concatenate([gradient, derivatives[:, d:]], 1)


def _binned(profiles: Floats, number: int) -> tuple[Ints, list[Floats]]:
    """Return bins [n, F] of profiles, -1 for unknown, and the least value of each bin of each feature.

    A feature has a bin for each of its values, or `number` bins of about as many members each if it has more values.
    """
    bins, cuts = np.full(profiles.shape, -1), []
    for feature, values in enumerate(profiles.T):
        known = ~np.isnan(values)
        cut = np.unique(values[known])
        if len(cut) > number:
            cut = np.unique(np.quantile(values[known], np.arange(number) / number, method="higher"))
        cuts.append(cut)
        bins[known, feature] = np.searchsorted(cut, values[known], side="right") - 1
    return bins, cuts


@compiled
def split(members, derivatives, start, feature, level, features, levels, l2):
    """Return gain, feature and bin of the best rule for `members`; gain 0 where there is none.

    The known features of member m are feature[start[m] : start[m + 1]], and `level` has their bins. Bins from the
    returned one on go left. At least two of the groups are not empty.
    """
    width, d = derivatives.shape[1], _dimension(derivatives.shape[1])
    total, known, left = np.zeros(width), np.zeros(width), np.zeros(width)
    sums, counts = np.zeros((features, levels, width)), np.zeros((features, levels), np.int64)
    for m in members:
        total += derivatives[m]
        for place in range(start[m], start[m + 1]):
            sums[feature[place], level[place]] += derivatives[m]
            counts[feature[place], level[place]] += 1
    lower, forward = np.empty((d, d)), np.empty(d)
    base, best = _fall(total, l2, lower, forward), (0.0, -1, -1)
    for f in range(features):
        missing = len(members) - counts[f].sum()
        if missing == len(members):
            continue
        known[:], left[:], going = 0, 0, 0
        for b in range(levels):
            if counts[f, b]:
                known += sums[f, b]
        of_missing = _fall(total - known, l2, lower, forward) if missing else 0.0
        for b in range(levels - 1, -1, -1):
            if counts[f, b]:
                left += sums[f, b]
                going += counts[f, b]
                if going < len(members):
                    gain = of_missing + _fall(left, l2, lower, forward) - base
                    if going + missing < len(members):
                        gain += _fall(known - left, l2, lower, forward)
                    if gain > best[0]:
                        best = gain, f, b
    return best


@compiled
def newton(sums, l2):
    """Return the steps -(H + l2)^-1 g [n, d] of groups with the derivatives `sums` [n, d + d (d + 1) / 2]."""
    d = _dimension(sums.shape[1])
    steps, lower, forward = np.empty((len(sums), d)), np.empty((d, d)), np.empty(d)
    for n in range(len(sums)):
        _fall(sums[n], l2, lower, forward)
        for f in range(d - 1, -1, -1):
            rest = -forward[f]
            for h in range(f + 1, d):
                rest -= lower[h, f] * steps[n, h]
            steps[n, f] = rest / lower[f, f]
    return steps


@compiled
def _dimension(width):
    """Return d for width = d + d (d + 1) / 2."""
    return int((np.sqrt(9 + 8 * width) - 3) / 2 + 0.5)


@compiled_sums
def _fall(row, l2, lower, forward):
    """Return g'(H + l2)^-1 g / 2, and write the Cholesky factor L of H + l2 and L^-1 g."""
    d, place, total = len(forward), len(forward), 0.0
    for f in range(d):
        of_g = row[f]
        for h in range(f + 1):
            rest = row[place + h]
            for k in range(h):
                rest -= lower[f, k] * lower[h, k]
            if h < f:
                lower[f, h] = rest / lower[h, h]
                of_g -= lower[f, h] * forward[h]
            else:
                lower[f, f] = np.sqrt(rest + l2)
        forward[f] = of_g / lower[f, f]
        total += forward[f] ** 2
        place += f + 1
    return total / 2
