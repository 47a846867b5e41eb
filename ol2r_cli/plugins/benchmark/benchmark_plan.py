"""The runs of a benchmark: of all of its rows, of the part that was typed, or of a ranker that the user adds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ol2r_cli.config.grammar import expand
from ol2r_cli.plugins.benchmark.overrides import Overrides, by_name, name_of, role, value_of
from ol2r_cli.plugins.benchmark.recipe import Competitor, Recipe
from ol2r_cli.plugins.benchmark.run_plan import RunPlan, Slot, read_typed
from ol2r_cli.plugins.benchmark.trials import Condition
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.text.formatting import nearest

LIMITS = ("dataset", "dataset.fold", "click")  # typed overrides that limit a benchmark to a part
ROLES_OF_A_ROW = ("ranker", "exploration", "fairness")  # what rows of a benchmark may differ in
WITHOUT_EFFECT = NOT_HASHED | {"device"}  # settings that do not change the protocol of a benchmark


def benchmark_plan(
    recipe: Recipe,
    typed: Sequence[str] = (),
    *,
    scale: str = "full",
    added: Sequence[str] = (),
    settings: Mapping[Condition, Overrides] | None = None,
) -> RunPlan:
    """Return the plan of a benchmark. Typed overrides limit it to a part, or do not change results.

    scale: full, the published protocol, or check, a few rounds with default settings and one fold of each dataset.
    added: the words of a ranker of the user, which is the only competitor then; a setting may list several values, of
    which one is chosen as for the other rows. settings: as in a plan. ValueError for typed overrides that would change
    the protocol.
    """
    of_ranker = [word for word in added if not _is_free(name_of(word))]
    if added:
        recipe = replace(recipe, competitors=_added_competitor(of_ranker, added))
    of_protocol = [word for word in added if _is_free(name_of(word))]
    _check_once([*typed, *added])
    named, folders, launcher = read_typed([*typed, *of_protocol])
    _check_typed(recipe, named, by_name(of_ranker))
    protocols = _protocols(recipe, named)
    if "dataset.fold" in named and not any("dataset.fold" in protocol for protocol in protocols.values()):
        raise ValueError(f"leave out {named['dataset.fold']}: {' and '.join(protocols)} has no folds")
    slots = [_slot(recipe, title, protocol, named, scale) for title, protocol in protocols.items()]
    return RunPlan(recipe, scale, slots, named, folders, launcher, settings)


def _is_free(name: str) -> bool:
    """Return whether users may type this setting: it limits a benchmark, or does not change its results."""
    return name in LIMITS or name in WITHOUT_EFFECT or role(name) == "launcher"


def _added_competitor(words: Sequence[str], typed: Sequence[str]) -> dict[str, Competitor]:
    """Return the competitor behind `--add` by its name; its settings with several values are its grid."""
    own = by_name(words)
    if "ranker" not in own or len(expand(own["ranker"])) > 1:
        raise ValueError(f"--add must name one ranker, such as --add ranker=mine, got {shlex.join(typed)}")
    grid = [override for override in own.values() if len(expand(override)) > 1]
    fixed = [override for override in own.values() if override not in grid]
    return {f"{value_of(own, 'ranker')} (added)": Competitor(shlex.join(fixed), shlex.join(grid))}


def _check_once(typed: Sequence[str]) -> None:
    """Raise ValueError for a setting that is typed with two values, one of which would be lost."""
    values: dict[str, str] = {}
    for word in typed:
        if word.startswith("-"):  # an option, such as a folder of components
            continue
        first = values.setdefault(name_of(word), word)
        if first != word:
            raise ValueError(f"{name_of(word)} must be typed once, got {first} and {word}")


def _check_typed(recipe: Recipe, named: Overrides, of_ranker: Overrides) -> None:
    """Raise ValueError for overrides that would change the protocol.

    Those of an added row may only change roles in which rows differ.
    """
    for name, override in [*named.items(), *of_ranker.items()]:
        if name == "dataset.path":
            raise ValueError(f"leave out {override}: type data_dir=FOLDER, in which the folder of the data set lies")
        if _is_free(name) or (name in of_ranker and role(name) in ROLES_OF_A_ROW):
            continue
        fixed = f"{recipe.name} fixes all settings but {', '.join(LIMITS)}"
        raise ValueError(f"{fixed}: leave out {override}, or use `ol2r run`")


def _protocols(recipe: Recipe, named: Overrides) -> dict[str, Overrides]:
    """Return the overrides of all runs on each dataset by its title, only of the dataset that was typed."""
    protocols = {title: by_name(data.words, recipe.words) for title, data in recipe.data.items()}
    if "dataset" not in named:
        return protocols
    dataset = value_of(named, "dataset")
    datasets = list(dict.fromkeys(value_of(protocol, "dataset") for protocol in protocols.values()))
    if dataset not in datasets:
        raise ValueError(f"dataset must be {' or '.join(datasets)}, got {dataset}{nearest(dataset, datasets)}")
    return {title: protocol for title, protocol in protocols.items() if value_of(protocol, "dataset") == dataset}


def _slot(recipe: Recipe, title: str, protocol: Overrides, named: Overrides, scale: str) -> Slot:
    """Return a dataset with the overrides of its runs; ValueError for a typed click model or fold that it lacks."""
    has_folds = "dataset.fold" in protocol
    typed = {name: override for name, override in named.items() if name != "dataset.fold" or has_folds}
    for name in ("click", "dataset.fold"):
        if name in typed:
            _check_listed(typed[name], protocol[name], title)
    folds = {"dataset.fold": protocol["dataset.fold"]} if has_folds else {}
    reported_folds = folds
    if scale == "check" and has_folds:
        reported_folds = {"dataset.fold": expand(protocol["dataset.fold"])[0]}
    # What is typed counts before the scale, and the scale before the protocol.
    reported = protocol | reported_folds | by_name(recipe.scale[scale]) | typed
    choosing = folds | by_name(recipe.data[title].choose)  # on all folds, also where fewer are reported
    return Slot(title, reported, choosing)


def _check_listed(typed: str, listed: str, title: str) -> None:
    """Raise ValueError unless each value of a typed override is one of those that the protocol lists."""
    values = [override.partition("=")[2] for override in expand(listed)]
    for override in expand(typed):
        name, _, value = override.partition("=")
        if override not in expand(listed):
            raise ValueError(f"{name} must be {' or '.join(values)} with {title}, got {value}{nearest(value, values)}")
