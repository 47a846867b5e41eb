"""Inner products of the gradients of a network's scores (learning/tangents.py), with few documents for each unit."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled


@compiled
def add_gram(total, delta, hidden, weight):
    """Add to total [d, d] the sum over units j and inputs f of weight_jf delta_ij hidden_if delta_kj hidden_kf.

    total is symmetric; delta [d, r] and hidden [d, c] are those of one layer, weight [r, c]. A unit is a product of the
    documents in which delta is not 0. In the last hidden layer delta has the same number u_j in all of them. Where that
    is more than half of the documents, with n_ij = 1 in the others and 0 in these,

        delta_ij delta_kj = u_j^2 ((1/2 - n_ij) + (1/2 - n_kj) + n_ij n_kj),

    so that the unit is a product of the other documents, besides one matrix product for all such units together. On
    average a product has a fifth of the documents, and so a twentieth of the operations.
    """
    documents, units = delta.shape
    root, squared = np.sqrt(weight), np.empty_like(weight)
    half, few = np.zeros_like(delta), np.empty_like(hidden)
    chosen, room = np.empty(documents, np.int64), np.empty(documents * documents, hidden.dtype)
    for j in range(units):
        value, zeros, alike = one_number(delta[:, j])
        of_zeros = alike and 2 * zeros < documents  # the product is of the documents with delta 0
        if of_zeros:
            for i in range(documents):
                half[i, j] = 0.5 if delta[i, j] != 0 else -0.5
        size = choose_documents(delta[:, j], of_zeros, chosen)
        for row in range(size):
            i = chosen[row]
            factor = value if of_zeros else delta[i, j]
            for f in range(hidden.shape[1]):
                few[row, f] = factor * root[j, f] * hidden[i, f]
        for f in range(hidden.shape[1]):
            squared[j, f] = value * value * weight[j, f]
        if size:
            product = room[: size * size].reshape(size, size)
            np.dot(few[:size], few[:size].T, product)
            add_to_pairs(total, chosen[:size], product)
    add_common_part(total, np.dot(half, squared), hidden)


@compiled
def add_to_pairs(total, chosen, product):
    """Add a product [s, s] to the upper triangle of total [d, d], at the documents chosen [s], which ascend."""
    for a in range(len(chosen)):
        row_of_total = total[chosen[a]]
        for b in range(a, len(chosen)):
            row_of_total[chosen[b]] += product[a, b]


@compiled
def add_common_part(total, common, hidden):
    """Add to the upper triangle of total [d, d] what units have in common: the sums over f of (common_if + common_kf)
    hidden_if hidden_kf, for common and hidden [d, c]. Copy it to the lower one."""
    documents = len(hidden)
    for i in range(documents):
        for f in range(hidden.shape[1]):
            common[i, f] *= hidden[i, f]
    product = np.dot(common, hidden.T)
    for i in range(documents):
        for k in range(i, documents):
            total[i, k] += product[i, k] + product[k, i]
            total[k, i] = total[i, k]


@compiled
def one_number(column):
    """Return the first number of a column [d] that is not 0 (0 without one), how many of its numbers are 0, and whether
    all others are that number."""
    value, zeros, alike = column[0], 0, True
    for i in range(len(column)):
        if column[i] == 0:
            zeros += 1
        elif value == 0:
            value = column[i]
        else:
            alike &= column[i] == value
    return value, zeros, alike


@compiled
def choose_documents(column, of_zeros, chosen):
    """Write in which rows a column [d] is 0 or, without `of_zeros`, is not; return how many there are."""
    size = 0
    for i in range(len(column)):
        if (column[i] == 0) == of_zeros:
            chosen[size] = i
            size += 1
    return size
