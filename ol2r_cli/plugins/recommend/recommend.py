"""`ol2r recommend`: Fit a model of recommendation to reviews, or with -m one for every combination of values.
These are batch fits: no rounds, no clicks. A finished fit is not fitted again.

settings, with their defaults:
  seed=0 users=all explain.user=null explain.item=null interview=false output_dir=outputs force=false ..
  ol2r list recommend describes all; ol2r recommend --cfg job [GROUP=CHOICE ...] shows all values, and fits nothing

examples:
  ol2r recommend model=fact                                   generated reviews with planted rules
  ol2r recommend model=fact reviews=amazon_cellphones reviews.path=FOLDER
  ol2r recommend -m model=most_popular,nmf,bprmf 'seed=range(0,3)'
  ol2r recommend model=fact explain.user=17 explain.item=42   why this item is recommended, in words
  ol2r recommend model=fact interview=true                    asks a new user, and recommends
  ol2r report outputs --baseline most_popular                 paired tests over users
  ol2r data info reviews=amazon_cellphones                    users, items, features and reviews of each split
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ol2r_cli.commands.command import command
from ol2r_cli.commands.run import ARGUMENTS, RunParser, execute
from ol2r_cli.config.own_choices import as_options
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins.recommend.kind import KIND

if TYPE_CHECKING:
    from ol2r_cli.plugins.recommend import explained
else:
    explained = lazy("ol2r_cli.plugins.recommend.explained")


@command(
    *ARGUMENTS,
    make=RunParser,
    usage="ol2r recommend [-m] [model=CHOICE] [reviews=CHOICE] [SETTING=VALUE ...]",
    allow_abbrev=False,
)
def main(given: argparse.Namespace) -> int:
    """Fit what the arguments say, and explain or recommend by the fitted model."""
    asks = any(word.startswith(("explain", "interview")) for word in given.overrides)
    if not asks or given.cfg or given.dry_run:
        return execute(given, KIND)
    if given.multirun:
        raise ValueError("explain and interview are for one fit: leave out -m")
    as_json, given.json = given.json, False
    given.quiet = given.quiet or as_json
    return execute(given, KIND) or explained.show(given.overrides, as_options(given.config_dir), as_json)
