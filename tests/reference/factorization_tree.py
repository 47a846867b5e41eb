"""A tree of FacT by its definition, for losses that are quadratic in each member's vector.

Dissertation, section 4.2.2: rules (4.2.5) and their choice (4.2.6), by trying all of them; and its section on
alternative optimization: u_child = residual + u_parent. Table 4.3 leaves the parents out.

Member n loses b[n] x + x' a[n] x / 2 by the vector x of its node. A tree is a dictionary: vector, and for a node that
is split feature, threshold, other rules that are as good, and children, a list of three trees in the order of (4.2.5),
None without a member.
"""

from __future__ import annotations

import numpy as np


def grown(profiles, a, b, depth, l2, parent_factors):
    """The tree for all members, and what its nodes lose with l2 / 2 times the squares of what they add or are."""
    d = b.shape[1]

    def least(members, parent):
        """The vector of a group below the vector of its parent, and the least loss, with the penalty."""
        of_a, of_b = a[members].sum(0), b[members].sum(0)
        base = parent if parent_factors else np.zeros(d)
        own = np.linalg.solve(of_a + l2 * np.eye(d), -of_b - of_a @ base)
        vector = base + own
        return vector, of_b @ vector + vector @ of_a @ vector / 2 + l2 / 2 * own @ own

    def sides(members, feature, threshold):
        values = profiles[members, feature]
        unknown = np.isnan(values)
        return [members[~unknown & (values >= threshold)], members[~unknown & (values < threshold)], members[unknown]]

    def node(members, vector, left):
        """The tree below a node with this vector, or the node alone where no rule lowers the loss."""
        tree = {"vector": vector, "members": members}
        best = least(members, vector)[1]  # of the same group, moved once more
        for feature in range(profiles.shape[1] if left else 0):
            values = profiles[members, feature]
            for threshold in np.unique(values[~np.isnan(values)]):
                groups = sides(members, feature, threshold)
                loss = sum(least(group, vector)[1] for group in groups if len(group))
                if sum(len(group) > 0 for group in groups) < 2:
                    continue
                if loss < best - 1e-9:
                    best = loss
                    tree |= {"feature": feature, "threshold": threshold, "as_good": []}
                elif "feature" in tree and loss < best + 1e-9:  # it divides the members likewise
                    tree["as_good"].append((feature, threshold))
        if "feature" in tree:
            groups = sides(members, tree["feature"], tree["threshold"])
            tree["children"] = [node(g, least(g, vector)[0], left - 1) if len(g) else None for g in groups]
        return tree

    everyone = np.arange(len(profiles))
    return node(everyone, least(everyone, np.zeros(d))[0], depth)
