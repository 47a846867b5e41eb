"""Orders of documents: by score, by Plackett-Luce clocks, by taking turns, by drawn ranks. exploration/ has tensors."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled

_CHANCE, _TINY = np.int64(1 << 29), 2.0**-1000  # as in exploration/order.py


@compiled
def sortable(score, chance):
    """Return a score whose last 29 of 52 bits are random, as `exploration.order.sortable` does for tensors."""
    drawn = np.int64(chance * -_CHANCE)  # 0 or negative
    bits = np.float64(score + _TINY).view(np.int64) | (_CHANCE - 1)
    bits += 1 - _CHANCE - drawn if bits < 0 else drawn
    return np.int64(bits).view(np.float64)


@compiled
def best(keys, length, order):
    """Fill order [O] with the documents of the largest of keys[:length], best first, then with padding."""
    places = min(len(order), length)
    if places > 32:
        by_key = np.argsort(-keys[:length])
        order[:places] = by_key[:places]
    else:
        for d in range(length):
            if d >= places and keys[d] < keys[order[places - 1]]:
                continue
            place = min(d, places - 1)
            while place > 0 and keys[d] > keys[order[place - 1]]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = d
    for place in range(places, len(order)):
        order[place] = place


@compiled
def by_score(scores, chance, length, order):
    """Order documents [B, O] by score [B, D], with equal scores in random order."""
    keys = np.empty(scores.shape[1])
    for b in range(len(scores)):
        for d in range(length[b]):
            keys[d] = sortable(scores[b, d], chance[b, d])
        best(keys, length[b], order[b])


@compiled
def plackett_luce(scores, chance, length, order):
    """Draw orders [B, O] from the Plackett-Luce model of the scores [B, D]: clocks of rate e^score."""
    keys = np.empty(scores.shape[1])
    for b in range(len(scores)):
        for d in range(length[b]):
            keys[d] = scores[b, d] - np.log(-np.log(chance[b, d]))
        best(keys, length[b], order[b])


@compiled
def epsilon_greedy(scores, chance, shuffle, coins, length, order):
    """Fill each place of order [B, O] from a random permutation where coins[b, place], else by score."""
    documents, places = scores.shape[1], order.shape[1]
    queues, placed = np.empty((2, places), dtype=np.int64), np.empty(documents, dtype=np.bool_)
    keys = np.empty(documents)
    for b in range(len(scores)):
        for d in range(length[b]):
            keys[d] = sortable(scores[b, d], chance[b, d])
        best(keys, length[b], queues[0])
        best(shuffle[b], length[b], queues[1])
        take_turns(queues, coins[b], placed, order[b])


@compiled
def take_turns(queues, turns, placed, order):
    """Fill each place from queues[turns[place]] [N, O], by its first document that has not been placed."""
    placed[:] = False
    ahead = np.zeros(len(queues), dtype=np.int64)
    for place in range(len(order)):
        turn = np.int64(turns[place])
        while placed[queues[turn, ahead[turn]]]:
            ahead[turn] += 1
        order[place] = queues[turn, ahead[turn]]
        placed[order[place]] = True


@compiled
def team_draft(scores, chance, turn_chance, length, first, credit):
    """Team-draft interleaving of the members' orders: fills first [B, K] and credit [B, N, D], which is zeros.

    `turn_chance` [B, cycles * N] orders the members of each cycle, the smallest number first.
    """
    replicas, members, documents = scores.shape
    shown = first.shape[1]
    queues, placed = np.empty((members, shown), dtype=np.int64), np.empty(documents, dtype=np.bool_)
    keys, turns = np.empty(documents), np.zeros(shown, dtype=np.int64)
    for b in range(replicas):
        for n in range(members):
            for d in range(length[b]):
                keys[d] = sortable(scores[b, n, d], chance[b, d])
            best(keys, length[b], queues[n])
        agreed = 0
        while agreed < shown and (queues[:, agreed] == queues[0, agreed]).all():
            agreed += 1
        turns[:agreed] = 0
        for place in range(agreed, shown):
            cycle, turn = divmod(place - agreed, members)
            if turn == 0:
                order = np.argsort(turn_chance[b, cycle * members : (cycle + 1) * members])
            turns[place] = order[turn]
        take_turns(queues, turns, placed, first[b])
        for place in range(agreed, shown):
            credit[b, turns[place], first[b, place]] = 1


@compiled
def probabilistic(scores, chance, author, document_chance, tau, length, first, credit):
    """Probabilistic interleaving (exploration/probabilistic_interleaving.py): fills first [B, K] and credit [B, N, D].

    `credit` is zeros. author and document_chance [B, K] draw the member of each place, and the document it places.
    """
    replicas, members, documents = scores.shape
    keys, likely = np.empty(documents), np.empty(members)
    ranking, rank_of = np.empty((2, members, documents), dtype=np.int64)
    left = np.empty((members, documents))  # 1 / rank^tau by rank, 0 for documents that have been placed
    for b in range(replicas):
        for n in range(members):
            for d in range(length[b]):
                keys[d] = sortable(scores[b, n, d], chance[b, d])
            best(keys, length[b], ranking[n, : length[b]])
            for rank in range(length[b]):
                rank_of[n, ranking[n, rank]] = rank
                left[n, rank] = (rank + 1.0) ** -tau
        for place in range(first.shape[1]):
            if place >= length[b]:  # padding
                first[b, place] = place
                continue
            member = np.int64(author[b, place] * members)
            target = document_chance[b, place] * left[member, : length[b]].sum()
            rank, reached = 0, left[member, 0]
            while reached < target and rank + 1 < length[b]:
                rank += 1
                reached += left[member, rank]
            document = ranking[member, rank]
            for n in range(members):
                likely[n] = left[n, rank_of[n, document]] / left[n, : length[b]].sum()
            total = likely.sum()
            for n in range(members):
                credit[b, n, document] = likely[n] / total
                left[n, rank_of[n, document]] = 0.0
            first[b, place] = document
