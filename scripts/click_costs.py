"""What choosing settings by clicks costs with users outside the protocol, as `ol2r benchmark clicks` has it for five.

    .venv/bin/python -m scripts.click_costs click=trust_bias dataset=mq2008 data_dir=FOLDER output_dir=DIR

Rows, grids, seeds and rounds are those of the protocol (docs/benchmark/protocol.md). Numbers from it stand in
docs/explanation/tuning_without_labels.md.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace

from ol2r_cli.plugins.benchmark import click_costs
from ol2r_cli.plugins.benchmark.play import rows_of_benchmark, run_recipe
from ol2r_cli.plugins.benchmark.recipe import load_recipe, name_of, role
from ol2r_cli.plugins.benchmark.results import tables_of
from ol2r_cli.plugins.benchmark.run_plan import plan_of


def main(typed: list[str], name: str = "clicks") -> int:
    """Play the protocol with the user that is typed, and print the costs; return the exit code."""
    user = [word for word in typed if role(name_of(word)) == "click"]
    recipe = load_recipe("benchmark", name)
    words = [word for word in shlex.split(recipe.words) if role(name_of(word)) != "click"]
    plan = plan_of(replace(recipe, words=shlex.join([*user, *words])), [word for word in typed if word not in user])
    plan.check_data()
    runs = run_recipe(plan)
    click_costs.show(recipe, tables_of(rows_of_benchmark(runs)))
    return runs.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
