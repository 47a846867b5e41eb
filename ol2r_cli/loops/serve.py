"""Documents, labels and groups of the queries of a round."""

from __future__ import annotations

from ol2r_cli.loops.compile import compiled


@compiled
def serve(start, length, labels, groups, document, label, group, mask):
    """Write the row of every document, its label and its group of [N], and whether it is real: [B, D] each.

    Replica b has the rows from start[b] on, length[b] of them; padding has the first row, and label 0. Without groups,
    `groups` is empty.
    """
    for b in range(len(start)):
        for d in range(document.shape[1]):
            real = d < length[b]
            mask[b, d] = real
            document[b, d] = start[b] + d if real else start[b]
            label[b, d] = labels[start[b] + d] if real else 0
            if len(groups):
                group[b, d] = groups[document[b, d]]
