"""ol2r from Python, in a script or a notebook; nothing heavy is imported before it is needed. See docs/python.md.

    from ol2r_cli import api as ol2r

    run = ol2r.run("ranker=pairrank", "click=navigational", rounds=500, replicas=3)
    run.summary["test_ndcg_10"]["mean"]

It is a package of its own, since `ol2r_cli.run` and `ol2r_cli.compose` are modules.
"""

from ol2r_cli.api.calls import compose, draw, experiment, load, run
from ol2r_cli.api.finished import Run
from ol2r_cli.api.many import grid, sweep
from ol2r_cli.api.picture import Picture
from ol2r_cli.api.trouble import RunFailed

__all__ = ["Picture", "Run", "RunFailed", "compose", "draw", "experiment", "grid", "load", "run", "sweep"]
