"""Turn reviews into a LETOR dataset, in which a user is a query and 50 items are its documents.

It is a step of docs/how-to/recommend.md:

    python docs/users_as_queries.py FOLDER reviews=generated
    ol2r run dataset=letor dataset.path=FOLDER ranker=pdgd

Test reviews are relevant; the other documents are items at random that the user has not reviewed. The ten features of
a user and an item are of training reviews: 1 log(1 + reviews of the item), 2 its mean rating, 3 its good minus bad
mentions and 4 the number of features with more good ones, 5 the same weighted by the user's shares of mentions, summed,
and 6 the largest of these, 7 features that the user mentions and the item is praised for, 8 the mean and 9 the maximal
agreement of its praise with that of the user's items, 10 the number of the user's reviews.
"""

import sys
from pathlib import Path

import numpy as np

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build

DOCUMENTS = 50

folder, words = Path(sys.argv[1]), sys.argv[2:]
reviews = build(Composer(root="recommend")(words).settings["reviews"], "reviews").load()
random, train = np.random.default_rng(0), reviews.train
count = np.bincount(reviews.item[train], minlength=reviews.items)
mean = np.bincount(reviews.item[train], reviews.rating[train], reviews.items) / np.maximum(count, 1)
quality = np.nan_to_num(reviews.item_profile(train))
mentions = np.nan_to_num(reviews.user_profile(train))
shares = mentions / np.maximum(mentions.sum(1, keepdims=True), 1)
seen = [reviews.item[train][rows] for rows in (reviews.user[train] == user for user in range(reviews.users))]
tested = reviews.user[reviews.test]
wanted = {user: reviews.item[reviews.test][tested == user] for user in np.unique(tested)}
users = random.permutation(list(wanted))
folder.mkdir(parents=True, exist_ok=True)
parts = np.split(users, [len(users) * 6 // 10, len(users) * 8 // 10])
for name, part in zip(("train", "vali", "test"), parts, strict=True):
    lines = []
    for user in part:
        others = random.permutation(np.setdiff1d(np.arange(reviews.items), [*seen[user], *wanted[user]]))
        for item in [*wanted[user], *others][:DOCUMENTS]:
            match, praised = shares[user] * quality[item], quality[item] > 0
            alike = np.sign(quality[seen[user]]) @ np.sign(quality[item]) if len(seen[user]) else np.zeros(1)
            values = [np.log1p(count[item]), mean[item], quality[item].sum(), praised.sum(), match.sum(), match.max()]
            values += [(praised & (mentions[user] > 0)).sum(), alike.mean(), alike.max(), len(seen[user])]
            text = " ".join(f"{number}:{value:.6g}" for number, value in enumerate(values, 1))
            lines.append(f"{int(item in wanted[user])} qid:{user} {text}\n")
    (folder / f"{name}.txt").write_text("".join(lines))
    print(f"{folder / name}.txt: {len(part)} queries")
