"""What roles launch in a single round: a stage for every replica, on the tensors that roles receive.

Lists are padded to the longest of the round: `mask` [B, D] says which documents are real, `shown` [B, K] which places
are, and `lengths` [B] how many documents; real ones come first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.gradient_steps import debiased
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.orders import by_score, epsilon_greedy, plackett_luce, probabilistic, team_draft
from ol2r_cli.loops.pairs import adjacent, every_pair, examined, matching
from ol2r_cli.loops.random_numbers import in_fours, number_at, uniform
from ol2r_cli.loops.users import cascade, independent, of_replica, user_browsing
from ol2r_cli.loops.workspace import mark, release, take, take_integers


class Draw(NamedTuple):
    """The random numbers of one stream in one round: the seeds [B], the number of the stream, and that of the round."""

    seeds: Any
    stream: int
    t: int


@compiled
def draw(b, numbers, of):
    """Fill `numbers` [n], a multiple of 4, with those of replica b."""
    uniform(of.seeds[b], of.stream, of.t, numbers)


@compiled
def draw_rounds(b, space, seeds, stream, first, numbers):
    """Fill `numbers` [R, B, n], n a multiple of 4, with those of rounds first, first + 1, .."""
    for row in range(len(numbers)):
        uniform(seeds[b], stream, first + row, numbers[row, b])


@compiled
def draw_at(b, space, seeds, stream, t, index, numbers):
    """Write to `numbers` [B, n] those of one round at the indices [B, n], without the others."""
    for i in range(lane(), index.shape[1], lanes()):
        numbers[b, i] = number_at(seeds[b], stream, t, index[b, i])
    barrier()


@compiled
def number_of(shown):
    """Return how many places of a list are shown, [K], or how many documents are none of padding: the first ones."""
    places = 0
    for is_shown in shown:
        places += is_shown
    return places


@compiled
def sort(b, space, of, scores, mask, order):
    """Order the documents by scores [B, D], with equal scores in random order: `order` [B, O]."""
    before = mark(space)
    documents = number_of(mask[b])
    chance = take(space, in_fours(documents))
    draw(b, chance, of)
    by_score(scores[b, :documents], chance, order[b, : min(order.shape[1], documents)], space)
    pad(order[b], documents)
    release(space, before)


@compiled
def draw_from_scores(b, space, of, scores, mask, order):
    """Draw the order [B, O] from the Plackett-Luce model of scores [B, D]."""
    before = mark(space)
    documents = number_of(mask[b])
    chance = take(space, in_fours(documents))
    draw(b, chance, of)
    plackett_luce(scores[b, :documents], chance, order[b, : min(order.shape[1], documents)], space)
    pad(order[b], documents)
    release(space, before)


@compiled
def fill_some_places_at_random(b, space, of, of_documents, of_coins, epsilon, scores, mask, order):
    """Fill each place of order [B, O] with probability epsilon [B] at random, otherwise by scores [B, D]."""
    before = mark(space)
    documents = number_of(mask[b])
    places = min(order.shape[1], documents)
    chance, shuffle = take(space, in_fours(documents)), take(space, in_fours(documents))
    coins = take(space, in_fours(places))
    draw(b, chance, of)
    draw(b, shuffle, of_documents)
    draw(b, coins, of_coins)
    epsilon_greedy(scores[b, :documents], chance, shuffle, coins, epsilon[b], order[b, :places], space)
    pad(order[b], documents)
    release(space, before)


@compiled
def take_turns_by_members(b, space, of, of_turns, positions, scores, lengths, order, credit):
    """Write the team-draft interleaving of the first K places by scores [B, N, D]; the others follow by member 0's
    scores.

    `order` [B, O]; `credit` [B, N, D] is zero where it is not written.
    """
    before = mark(space)
    members, documents = scores.shape[1], lengths[b]
    shown = min(positions, documents)
    of_members = take(space, members * documents).reshape((members, documents))
    credited = take(space, members * shown).reshape((members, shown))
    chance = take(space, in_fours(documents))
    turns = take(space, in_fours((shown + members - 1) // members * members))
    first = take_integers(space, shown)
    copy(scores[b], of_members)
    draw(b, chance, of)
    draw(b, turns, of_turns)
    team_draft(of_members, chance, turns, first, credited, space)
    credit_documents(first, credited, credit[b])
    complete(first, of_members[0], chance, order[b], space)
    release(space, before)


@compiled
def draw_by_members(b, space, of, of_authors, of_documents, tau, positions, scores, lengths, order, credit):
    """Write the probabilistic interleaving with the exponents tau [B]; the rest as in `take_turns_by_members`."""
    before = mark(space)
    members, documents = scores.shape[1], lengths[b]
    shown = min(positions, documents)
    of_members = take(space, members * documents).reshape((members, documents))
    credited = take(space, members * shown).reshape((members, shown))
    chance = take(space, in_fours(documents))
    author, drawn = take(space, in_fours(shown)), take(space, in_fours(shown))
    first = take_integers(space, shown)
    copy(scores[b], of_members)
    draw(b, chance, of)
    draw(b, author, of_authors)
    draw(b, drawn, of_documents)
    probabilistic(of_members, chance, author, drawn, tau[b], first, credited, space)
    credit_documents(first, credited, credit[b])
    complete(first, of_members[0], chance, order[b], space)
    release(space, before)


@compiled
def copy(values, to):
    """Copy what the arrays [N, X] and [N, Y] have in common."""
    for row in range(len(to)):
        for column in range(lane(), min(values.shape[1], to.shape[1]), lanes()):
            to[row, column] = values[row, column]
    barrier()


@compiled
def credit_documents(first, credited, credit):
    """Write the credit by place [N, K] of the `first` documents [K] to credit [N, D]."""
    for n in range(len(credited)):
        for place in range(lane(), len(first), lanes()):
            credit[n, first[place]] = credited[n, place]
    barrier()


@compiled
def complete(first, scores, chance, order, space):
    """Write to order [O] the `first` documents, then the others by score, equal ones at random, then padding."""
    before = mark(space)
    documents = len(scores)
    descending, placed = take_integers(space, documents), take_integers(space, documents)
    by_score(scores, chance, descending, space)
    for d in range(lane(), documents, lanes()):
        placed[d] = 0
    barrier()
    if lane() == 0:
        place = 0
        for d in first:
            placed[d] = 1
            order[place] = d
            place += 1
        for d in descending:
            if not placed[d] and place < len(order):
                order[place] = d
                place += 1
    barrier()
    pad(order, documents)
    release(space, before)


@compiled
def pad(order, documents):
    """Put padding, the numbers from `documents` on, behind the documents."""
    for place in range(documents + lane(), len(order), lanes()):
        order[place] = place
    barrier()


@compiled
def leave_out(clicks, places):
    """Leave places that are not shown without a click."""
    for place in range(places + lane(), len(clicks), lanes()):
        clicks[place] = False
    barrier()


@compiled
def read_from_the_top(b, space, of, grades, shown, user, clicks):
    """Write the clicks [B, K] of users who may leave after every document, on lists with these grades [B, K]."""
    before = mark(space)
    places = number_of(shown[b])
    chance = take(space, in_fours(2 * places))
    draw(b, chance, of)
    leaving = of_replica(user.by_place, b)
    cascade(grades[b, :places], chance, of_replica(user.by_grade, b), leaving, clicks[b, :places])
    leave_out(clicks[b], places)
    release(space, before)


@compiled
def click_independently(b, space, of, grades, shown, user, clicks):
    """Write the clicks [B, K] of users who click on each place, whatever is above it."""
    before = mark(space)
    places = number_of(shown[b])
    chance = take(space, in_fours(places))
    draw(b, chance, of)
    independent(grades[b, :places], chance, of_replica(user.by_place, b)[0], clicks[b, :places])
    leave_out(clicks[b], places)
    release(space, before)


@compiled
def browse(b, space, of, grades, shown, user, clicks):
    """Write the clicks [B, K] of users of the user browsing model."""
    before = mark(space)
    places = number_of(shown[b])
    chance = take(space, in_fours(places))
    draw(b, chance, of)
    examined = of_replica(user.by_place, b)[0]
    user_browsing(grades[b, :places], chance, of_replica(user.by_grade, b), examined, clicks[b, :places])
    leave_out(clicks[b], places)
    release(space, before)


@compiled
def append_pairs(b, space, document, winner, loser, valid, differences, count, pairs, rows):
    """Append the valid [B, M] pairs of candidates, whose numbers are `document` [B, D], to pairs [B, C, 2], and their
    differences [B, M, F] to rows [B, C, F], if C is not 0; count [B] is how many there are."""
    place = count[b]
    for pair in range(valid.shape[1]):
        if valid[b, pair]:
            if lane() == 0:
                pairs[b, place, 0] = document[b, winner[b, pair]]
                pairs[b, place, 1] = document[b, loser[b, pair]]
            if rows.shape[1] > 0:
                for f in range(lane(), rows.shape[2], lanes()):
                    rows[b, place, f] = differences[b, pair, f]
            place += 1
    barrier()
    if lane() == 0:
        count[b] = place
    barrier()


@compiled
def find_all_pairs(b, space, ranking, clicks, shown, winners, losers, found):
    """Find every clicked document against every examined one without a click: winners and losers [B, M], found [B]."""
    places = number_of(shown[b])
    every_pair(ranking[b, :places], clicks[b, :places], winners[b], losers[b], found[b : b + 1])


@compiled
def find_adjacent_pairs(b, space, ranking, clicks, shown, winners, losers, found):
    """Find the places (1, 2), (3, 4), .. of which exactly one was clicked."""
    places = number_of(shown[b])
    adjacent(ranking[b, :places], clicks[b, :places], winners[b], losers[b], found[b : b + 1])


@compiled
def match_pairs(b, space, of, ranking, clicks, shown, winners, losers, found):
    """Find winners and losers that are matched one to one at random."""
    before = mark(space)
    places = number_of(shown[b])
    chance = take(space, in_fours(places))
    draw(b, chance, of)
    matching(ranking[b, :places], clicks[b, :places], chance, winners[b], losers[b], found[b : b + 1], space)
    release(space, before)


@compiled
def pull_by_pdgd(b, space, scores, lengths, ranking, clicks, places, pull):
    """Write how much PDGD pulls the document at each place of the lists: pull [B, K], which is zero."""
    end, clicked = examined(clicks[b, : places[b]]), 0
    for place in range(places[b]):
        clicked += clicks[b, place]
    if 0 < clicked < end:
        shown = places[b]
        debiased(scores[b, : lengths[b]], ranking[b, :shown], clicks[b, :shown], end, pull[b, :shown], space)
