"""References: every choice that names a paper has its entry, and CITATION.cff says the same as they do."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest
import yaml

from ol2r_cli import __version__, cli
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.plugins import other_kinds
from ol2r_cli.plugins.latex.references import Reference, references
from tests.report.runs import make

ROOT = Path(__file__).parents[3]
GROUPS = ("ranker", "exploration", "fairness", "click", "intent", "dataset", "ranker/model")
# A year by which a choice is known without a paper: that of a log, or of a track of TREC.
NO_PAPER = {("dataset", "clueweb09")}
OF_LOG = re.compile(r"yandex|baidu")


@cache
def described() -> dict[tuple[str, str], str]:
    """What the first lines of the YAML file of every choice say, up to its class."""
    found = {}
    of_others = [(kind.name, (kind.data, kind.ranker)) for kind in other_kinds()]
    for root, groups in [("run", GROUPS), *of_others]:
        choices = Catalogue(root=root).choices
        for group in groups:
            for name, choice in choices[group].items():
                found[group, name] = choice.path.read_text().partition("_target_")[0]
    return found


def field(entry: str, name: str) -> str:
    """The value of a field in plain text: without braces, and accents as `unaccented` leaves them."""
    (value,) = re.findall(rf"^  {name} = {{(.*)}},?$", entry, re.MULTILINE)
    return re.sub(r"[{}]|\\'", "", value)


def unaccented(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


@pytest.mark.parametrize("choice", sorted(described().keys() - NO_PAPER), ids="=".join)
def test_a_choice_that_names_a_paper_has_its_entry(choice):
    """By the years and the first authors that the description of the choice has: `Jia et al., WWW 2021`."""
    text = described()[choice]
    entries = [reference.entry for reference in references() if choice in reference.choices]
    dated = set(re.findall(r"\b(?:19|20)\d\d\b", re.sub(r"TREC \d+", "", text)))
    dated |= {f"20{year}" for year in re.findall(r"\b[A-Z]+'(\d\d)\b", text)}
    assert OF_LOG.match(choice[1]) or dated <= {field(entry, "year") for entry in entries}
    first = re.findall(r"([A-Z][\w-]+)(?: et al\.|(?:, [A-Z]\w+)* and (?:de )?[A-Z]\w+,? (?:\(|[A-Z12]))", text)
    assert {*first} <= {field(entry, "author").partition(",")[0] for entry in entries}


def key(reference: Reference) -> str:
    return reference.entry.partition("{")[2].partition(",")[0]


@cache
def pages() -> str:
    """Where entries may be cited."""
    return unaccented(
        "".join(path.read_text() for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("configs/**/*.yaml")])
    )


@pytest.mark.parametrize("reference", references()[1:], ids=key)
def test_an_entry_is_of_choices_and_cited_on_pages(reference):
    assert reference.choices <= described().keys()
    assert field(reference.entry, "author").partition(",")[0] in pages()
    assert field(reference.entry, "year") in pages()
    assert reference.entry.count("{") == reference.entry.count("}")


def test_the_first_entry_is_this_version_of_ol2r():
    keys = [key(reference) for reference in references()]
    assert len(set(keys)) == len(keys) > 30
    assert not references()[0].choices
    assert field(references()[0].entry, "version") == __version__


def test_the_citation_file_cites_this_version_and_the_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["type"], citation["version"]) == ("software", __version__)
    assert citation["title"] == field(references()[0].entry, "title")
    entries = {field(reference.entry, "title"): reference.entry for reference in references()}
    assert len(citation["references"]) == 5
    for paper in citation["references"]:
        entry = entries[paper["title"]]
        assert field(entry, "year") == str(paper["year"])
        names = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
        assert field(entry, "author") == " and ".join(names)
        assert f"doi = {{{paper.get('doi', '')}}}" in entry or "doi" not in entry + str(paper)


def test_a_report_prints_the_references_of_its_runs(tmp_path, capsys):
    make(tmp_path, "ranker=pdgd", "click=trust_bias", test={0: 0.5})
    make(tmp_path, "ranker=pairrank", "click=perfect", "fairness=fairexp", test={0: 0.5})
    make(tmp_path, "ranker=pairrank", "click=random", test={0: 0.5})
    assert cli.main(["report", str(tmp_path), "--bibtex"]) == 0
    output, errors = capsys.readouterr()
    keys = re.findall(r"^@\w+{(\w+),$", output, re.MULTILINE)
    assert sorted(keys) == [
        *("guo2009dcm", "jia2021fairexp", "jia2021pairrank", "ol2r", "oosterhuis2018pdgd", "oosterhuis2021unifying"),
        *("qin2013letor", "vardasbi2020affine"),
    ]
    assert errors == "ol2r report: no reference of click=random\n"
    written = tmp_path / "references.bib"
    assert cli.main(["report", str(tmp_path), "ranker=pdgd", "--bibtex", "--out", str(written)]) == 0
    capsys.readouterr()
    assert "jia2021fairexp" not in written.read_text()
    assert "oosterhuis2018pdgd" in written.read_text()


@pytest.mark.parametrize("words", [["--metric", "ndcg"], ["--compare", "all"], ["--json"]], ids=" ".join)
def test_references_are_no_table(tmp_path, capsys, words):
    assert cli.main(["report", str(tmp_path), "--bibtex", *words]) == 2
    assert "--bibtex goes with folders" in capsys.readouterr().err


def test_references_and_figures_are_two_outputs(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path), "--bibtex", "--figure"]) == 2
    told = "ol2r report: --figure and --bibtex are each in place of the table: leave out one\n"
    assert capsys.readouterr().err == told
