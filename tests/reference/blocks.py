"""Blocks of documents whose mutual order is still to be explored, found with a graph library.

Jia, Wang, Guo, Wang: PairRank: Online Pairwise Learning to Rank by Divide-and-Conquer (WWW 2021), Section 3.2.3,
Definition 4 and line 6 of Algorithm 1.
"""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np

from tests.reference.arrays import Relation


def transitive_closure(certain: Relation) -> Relation:
    """[i, j]: a path of certain pairs leads from i down to j. The diagonal is False, even for documents on a cycle.

    A cycle makes all its pairs certain in both directions: they contradict each other.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(certain)))
    graph.add_edges_from((i, j) for i in range(len(certain)) for j in range(len(certain)) if certain[i, j] and i != j)
    closed = np.zeros_like(certain)
    for i, j in nx.transitive_closure(graph).edges:
        closed[i, j] = i != j
    return closed


def uncertain_pairs(certain: Relation) -> set[tuple[int, int]]:
    """E_u of line 5, every pair once with i < j: neither i above j nor j above i is certain."""
    return {(i, j) for i, j in combinations(range(len(certain)), 2) if not certain[i, j] and not certain[j, i]}


def partition(certain: Relation) -> list[set[int]]:
    """The ordered blocks, top block first: line 6 of Algorithm 1, for any relation, closed or not, cyclic or not.

    1. Blocks are the connected components of the undirected graph of uncertain pairs (text after Definition 4).
    2. Between two components every pair is certain, but some pairs may point up and others down; then, and along any
       longer cycle of components, there is no order of blocks that agrees with all pairs, so they become one block.
    3. A topological sort orders what is left; it is unique, because an edge joins any two blocks.
    """
    uncertain = nx.Graph()
    uncertain.add_nodes_from(range(len(certain)))
    uncertain.add_edges_from(uncertain_pairs(certain))
    components = [set(component) for component in nx.connected_components(uncertain)]

    above = nx.DiGraph()
    above.add_nodes_from(range(len(components)))
    for a, upper in enumerate(components):
        for b, lower in enumerate(components):
            if a != b and any(certain[i, j] for i in upper for j in lower):
                above.add_edge(a, b)

    merged = nx.condensation(above)
    members = merged.nodes(data="members")
    return [set().union(*(components[c] for c in members[block])) for block in nx.topological_sort(merged)]
