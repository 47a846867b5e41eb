"""`ol2r advise LOG`: would online learning pay, what would users see meanwhile, and how sure is that?

Users are fitted to the log and checked on its last fifth. Worlds are drawn from what the log leaves open, and a learner
that begins with the order of production is played in each: its gain in clicks a page has a 95 % interval.

examples:
  ol2r advise log.csv                                     by query: documents need no features
  ol2r advise log.csv dataset=letor dataset.path=DATA     by features, PDGD
  ol2r advise log.csv --ads 'ad*'                         advertisements are shown, and not ranked
  ol2r advise log.parquet --pages 10000 --out decision.html
  ol2r advise log.csv update_every=100                    a learner that is updated after every hundred pages
  ol2r advise log.csv --json | jq .gain
  ol2r advise --shop shop                                 an example to try it with
The same command goes on after an interruption: runs are below <output_dir>/advise.
exit codes: 0 done, 2 bad configuration or data, 3 no forecast: the log does not tell, 130 interrupted
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.own_choices import add_config_dir, as_options, choice_folders, default_output_dir
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins.click_logs.log_options import FORM, data_of, read_log, split_data
from ol2r_cli.run import DONE, INTERRUPTED, exits_when_interrupted
from ol2r_cli.text.formatting import say_start
from ol2r_cli.text.table import show

if TYPE_CHECKING:
    import numpy as np

    from ol2r_cli.config import composer
    from ol2r_cli.plugins.advise import check, evidence, forecast, play, shop, worlds
    from ol2r_cli.plugins.advise.evidence import Evidence
    from ol2r_cli.plugins.advise.forecast import Forecast
    from ol2r_cli.plugins.click_logs.click_log import ClickLog
else:
    np = lazy("numpy")
    composer = lazy("ol2r_cli.config.composer")
    check, evidence = lazy("ol2r_cli.plugins.advise.check"), lazy("ol2r_cli.plugins.advise.evidence")
    forecast, play = lazy("ol2r_cli.plugins.advise.forecast"), lazy("ol2r_cli.plugins.advise.play")
    shop, worlds = lazy("ol2r_cli.plugins.advise.shop"), lazy("ol2r_cli.plugins.advise.worlds")

NO_FORECAST = 3
WORLDS = 64
_OF_FIT = 3 / 8  # of the worlds have the users of the fit, the others those that it leaves open
_LEAST_NEAR = 0.5  # of shown documents, within a rank of that in production
_CHECKS = 40  # worlds in which users are checked
SEED = 58
_CHECKED = 0.2  # of the pages, the last ones
# Settings of `ol2r run` that the forecast chooses: by other words its numbers would not be what they are called.
_SET_BY_THE_FORECAST = ("rounds", "replicas", "positions", "measures", "evaluate_on", "seed", "click")
VERDICTS = {
    "gain": "online learning pays, the interval of its gain is above 0",
    "loss": "online learning does not pay, the interval of its gain is below 0",
    "undecided": "the log does not tell, the interval of the gain has 0 in it",
}
_USERS = {
    "pbm": "examine a rank by its place alone",
    "ubm": "examine a rank by its place and that of their last click",
    "dbn": "read from the top, and may stop, more often after a click on what attracts",
}


@command(
    argument("words", metavar="LOG|SETTING=VALUE", nargs="*", help="the log, data with features, settings of the runs"),
    add_config_dir,
    argument("--pages", metavar="N", type=int, default=100_000, help="pages that are forecast, 1000 or more (100000)"),
    argument(
        "--worlds", metavar="N", type=int, default=WORLDS, help=f"worlds, 16 or more ({WORLDS}); fewer are less exact"
    ),
    *FORM,
    argument("--ads", metavar="PATTERN", help="names of what is shown and cannot be ranked, such as 'ad*'"),
    argument("--json", action="store_true", help="print the forecast as JSON"),
    argument("--out", metavar="FILE", type=Path, help="also write a page with two figures, .html"),
    argument("--shop", metavar="FOLDER", type=Path, help="write an example: documents, production order, log, truth"),
    argument("--truth", metavar="FILE", type=Path, help="truth.json of such a shop: also the gain that it really has"),
)
def main(given: argparse.Namespace) -> int:
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    if given.shop is not None:
        return _write_shop(given)
    say_start("the log is read")
    _check(given)
    with exits_when_interrupted():
        known, words = _evidence(given)
        logging.info("fitting users")
        kinds = worlds.choose(known.log)
        reasons, checked = reasons_against(known, kinds)
    if reasons:
        if given.json:
            print(json.dumps({"verdict": "none", "reasons": reasons}))
        else:
            print("no forecast:", *(f"  {reason}" for reason in reasons), sep="\n")
        return NO_FORECAST
    folder, words = _folder(known, kinds, words)
    try:
        found, learner = advised(known, kinds, given.pages, given.worlds, words, folder)
        truth, true_values = ([], {}) if given.truth is None else _truth(known, given, learner, folder / "truth")
    except play.InterruptedPlay:
        print("ol2r advise: interrupted: the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    assumptions = _assumptions(known, kinds, checked)
    lines = [("learner", _title(learner, given.config_dir)), *_lines(found, known), *truth]
    if given.json:
        values = forecast.as_json(found, known.share, assumptions)
        print(json.dumps(values | {"learner": _ranker(learner)} | true_values))
    else:
        if checked:
            print(f"users fitted to the first {1 - _CHECKED:.0%} of the pages click as the log on the last ones")
        print(f"verdict for {given.pages:,} pages: {VERDICTS[found.verdict]}\n")
        show(lines)
        print("", *(f"assumed: {line}" for line in assumptions), *_next(found), sep="\n")
    if given.out is not None:
        from ol2r_cli.plugins.advise import page

        page.write(given.out, VERDICTS[found.verdict], lines, found, checked, assumptions)
        print(f"written: {given.out}", file=sys.stderr if given.json else sys.stdout)
    return DONE


def _next(found: Forecast) -> list[str]:
    """Return what to do with a learner that gains: the line that says so."""
    if found.verdict != "gain" or not found.interleaving_pages:
        return []
    return [f"next: interleave both on {found.interleaving_pages:,} pages, before the learner serves all of them"]


def _write_shop(given: argparse.Namespace) -> int:
    if given.words:
        raise ValueError(f"--shop writes an example and takes no log: leave out {' '.join(given.words)}")
    shop.write(given.shop)
    print(f"written: {given.shop}\nnext: ol2r advise {given.shop}/log.jsonl dataset=letor dataset.path={given.shop}")
    return DONE


def _check(given: argparse.Namespace) -> None:
    """Raise ValueError for bad options, and for settings that no run has, before the log is read, which takes long."""
    _check_options(given)
    _check_settings([word for word in given.words if "=" in word], given)


def _check_options(given: argparse.Namespace) -> None:
    if given.pages < 1000:
        raise ValueError(f"--pages must be 1000 or more, got {given.pages}")
    if given.worlds < 16:
        raise ValueError(f"--worlds must be 16 or more, got {given.worlds}")
    if given.out is not None and given.out.suffix != ".html":
        raise ValueError(f"--out must be a file that ends in .html, got {given.out}")


def _check_settings(words: Sequence[str], given: argparse.Namespace) -> None:
    """Raise ValueError for settings that no run has, those of the forecast itself, and a ranker that it cannot play.

    Settings of components, which have a point, wait for the learner, if none is named.
    """
    whole = [word for word in words if "." not in word.partition("=")[0]]
    for name, _, value in (word.partition("=") for word in whole):
        if name in vars(given):
            raise ValueError(f"{name} is an option: type --{name} {value}")
        if name in _SET_BY_THE_FORECAST:
            advice = ": type --pages N" if name == "rounds" else ""
            raise ValueError(f"{name} is set by the forecast itself, got {name}={value}: leave it out{advice}")
    names_ranker = any(word.startswith("ranker=") for word in whole)
    composed = composer.compose([*(words if names_ranker else whole), *as_options(given.config_dir)])
    if names_ranker:
        play.check_ranker(composed.choices["ranker"], composed.settings["ranker"])


def _ranker(learner: Sequence[str]) -> str:
    """Return the name of the ranker that the words of a learner choose; of several the last counts."""
    return [word.partition("=")[2] for word in learner if word.startswith("ranker=")][-1]


def _title(learner: Sequence[str], folders: Sequence[Path]) -> str:
    """Return the name of a learner, and what it is."""
    own = [folder.path for folder in choice_folders(folders)]
    choice = Catalogue(own).choices["ranker"][_ranker(learner)]
    what, _, _ = choice.header[0].partition(". ")  # behind it is the paper
    return f"{choice.name}: {what}"


def _truth(
    known: Evidence, given: argparse.Namespace, learner: Sequence[str], folder: Path
) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return what the learner gains in the world that made the log, as a line and as plain values in clicks a page."""
    of = shop.read_truth(given.truth)
    try:
        grades = np.concatenate([of.grades[query] for query in known.documents.query_ids])
    except KeyError as error:
        raise ValueError(f"--truth must be of the shop that made the log, got {given.truth} without {error}") from None
    if len(grades) != len(known.rows):
        raise ValueError("--truth goes with the features of the shop: type dataset=letor dataset.path=SHOP")
    runs = shop.true_runs(folder, known.documents, grades, of.user, known.places, given.pages, learner)
    now = np.mean([run.production for run in runs])
    gains = {pages: float(np.mean([run.gain[:pages].mean() for run in runs])) for pages in _horizons(given.pages)}
    best = float(runs[0].ceiling - now)
    shares = ", ".join(f"{100 * gain / now:+.1f} %" for gain in gains.values())
    line = "the truth", f"{shares}, of the order by attraction {100 * best / now:+.1f} %"
    of_pages = {str(pages): gain for pages, gain in gains.items()}
    return [line], {"truth": {"clicks_a_page": float(now), "gain": of_pages, "ceiling": best}}


def _evidence(given: argparse.Namespace) -> tuple[Evidence, list[str]]:
    """Return what the log says with the data that are named, and the settings of the runs."""
    of_data, others = split_data(given.words)
    files = [word for word in others if "=" not in word]
    words = [word for word in others if "=" in word]
    if len(files) != 1:
        got = f", got {' '.join(files)}" if files else ""
        raise ValueError(f"one LOG is needed: type ol2r advise log.csv{got}")
    log, _ = read_log(Path(files[0]), given)
    words += as_options(given.config_dir)
    ads = _advertisements(log, given.ads)
    if of_data:  # worlds have the documents of the data, which have no advertisements
        return evidence.evidence_with(log, data_of(of_data, given.config_dir)), words
    return evidence.evidence_of(log, ads), words


def _advertisements(log: ClickLog, pattern: str | None) -> Any:
    """Return which documents have names of this pattern; ValueError if none has."""
    if pattern is None:
        return None
    found = np.array([fnmatchcase(name, pattern) for name in log.document_ids], bool)
    if not found.any():
        raise ValueError(f"--ads must be a pattern of names in the log, such as {log.document_ids[0]}, got {pattern}")
    return found


def reasons_against(known: Evidence, kinds: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Return why there is no forecast, and the numbers in which users on the last pages were compared with the log."""
    near = evidence.share_near_rank(known.log)
    if near < _LEAST_NEAR:
        told = f"{near:.0%} of those shown are within a rank of their usual one, and in a production order half of them"
        return [f"documents have no order: {told} are"], []
    if doubt := worlds.doubt(known.log, kinds[0]):
        return [doubt], []
    if known.log.pages is None:
        return [], []
    logging.info("checking them on the last %.0f %% of the pages", 100 * _CHECKED)
    first, last = known.log.split(1 - _CHECKED)
    assert last.pages is not None
    drawn = evidence.drawn_worlds(first, kinds, 0, _CHECKS, SEED, known.features)
    checked = check.check(*last.pages, drawn, last.query_of_pages(), worlds.production_rank(first))
    fitted = f"users fitted to the first {1 - _CHECKED:.0%} of the pages do other than the log on the last ones"
    failed = [each for each in checked if not each.passes]
    return [
        f"{fitted}: {each.name} {each.observed:.4f} in the log, {each.simulated:.4f} simulated" for each in failed
    ], checked


def advised(
    known: Evidence, kinds: Sequence[Any], pages: int, number: int, words: Sequence[str], folder: Path
) -> tuple[Forecast, list[str]]:
    """Play a learner in so many worlds of a log, or find its finished runs; return the forecast, and the learner.

    words: settings of its runs; a ranker of another name takes the place of the usual one. folder: of the worlds and
    runs. InterruptedPlay after Ctrl-C.
    """
    logging.info("drawing %d worlds, in each of which a learner is played", number)
    of_fit = round(number * _OF_FIT)
    of_log = evidence.drawn_worlds(known.log, kinds, of_fit, number - of_fit, SEED, known.features)
    drawn = [world._replace(grades=world.grades[known.rows]) for world in of_log]
    play.write_worlds(folder, known.documents, drawn)
    learner = [*_learner(known, kinds[0], words, folder), *words]
    played = play.play(folder, known.documents, drawn, known.places, pages, learner)
    return forecast.forecast(played, drawn, known.documents, worlds.interval, _horizons(pages)), learner


def _learner(known: Evidence, kind: Any, words: Sequence[str], folder: Path) -> list[str]:
    """Return the words of the usual learner, none where another one is named."""
    if any(word.startswith("ranker=") for word in words):
        return []
    if known.documents.features.shape[1] > 1:
        return play.gradient(folder, known.documents)
    return play.thompson(worlds.fit(known.log, kind), known.log)


def _horizons(pages: int) -> list[int]:
    return [*(10**power for power in range(3, 9) if 10**power < pages), pages]


def _folder(known: Evidence, kinds: Sequence[str], words: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the folder of a forecast, the same for the same log, data and settings; and these without output_dir."""
    typed = [word for word in words if word.startswith("output_dir=")]
    words = [word for word in words if word not in typed]
    root = Path(typed[-1].partition("=")[2]).expanduser() if typed else default_output_dir()
    decisive = [word for word in words if not word.startswith("launcher")]
    content = hashlib.sha256(json.dumps([*kinds, decisive]).encode())
    arrays = [known.log.query, known.log.impressions, known.log.clicks, known.documents.features, known.rows]
    for array in [*arrays, *(known.log.pages or ())]:
        content.update(np.ascontiguousarray(array).tobytes())
    return (root / "advise" / content.hexdigest()[:10]).resolve(), words


def _assumptions(known: Evidence, kinds: Sequence[str], checked: Sequence[Any]) -> list[str]:
    lines = [
        *(f"{'in some worlds ' if len(kinds) > 1 else ''}users {_USERS[kind]}" for kind in kinds),
        "documents attract as much at one rank as at another",
        "queries come as often as in the log, and what attracts does not change",
    ]
    if known.joined:
        lines.append(f"documents are those of the data, of which the log has {known.joined}")
    if not checked:
        lines.append("the log has counts, so that users were not checked on pages")
    return lines


def _lines(found: Forecast, known: Evidence) -> list[tuple[str, str]]:
    """Return the lines of a forecast."""
    now = found.production.mean

    def shown(value: Any) -> str:
        shares = [f"{100 * number / now:+.1f}" for number in value]
        return f"{shares[0]} % ({shares[1]} to {shares[2]}), {value.mean:+.4f} clicks"

    lowest = " to ".join(f"{number:,.0f}" for number in (found.worst.low, found.worst.high))
    worst = f"{found.worst.mean:,.0f} clicks ({lowest}) at page {found.worst_page:,}"
    never = "not within these pages"
    tests = [number and f"{number:,}" for number in (found.ab_test_pages, found.interleaving_pages)]
    return [
        ("clicks a page now", f"{now:.4f}"),
        *((f"gain, first {page:,} pages", shown(value)) for page, value in found.gain.items()),
        ("gain of the order by attraction", shown(found.ceiling)),
        ("worst moment", worst if found.worst_page else "the mean is never below production"),
        ("break-even", never if found.break_even is None else f"page {found.break_even:,}"),
        ("pages of an A/B test, both halves", tests[0] or "no number: the gain is not above 0"),
        ("pages of interleaving", tests[1] or "no number: it does not prefer the learner"),
        ("pages of the log that count", f"{known.share:.0%}"),
    ]
