"""Write docs/benchmark/croissant.json: what the published tables of benchmarks contain, for machines.

    python scripts/croissant.py

[Croissant](https://docs.mlcommons.org/croissant) is the vocabulary in which data sets for machine learning describe
their files and columns. tests/plugins/benchmark/test_croissant.py compares the file with the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from ol2r_cli.report.measures import heading

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "benchmark"
FILE = FOLDER / "croissant.json"
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "equivalentProperty": "cr:equivalentProperty",
    "samplingRate": "cr:samplingRate",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
ABOUT = (
    "Results of online learning to rank: rankers by data sets and simulated users, over folds and seeds. Each table "
    "belongs to a page of the same name, which says how settings were chosen and what the intervals are."
)
TYPES = {pl.Boolean: "sc:Boolean", pl.String: "sc:Text", pl.Int64: "sc:Integer", pl.Float64: "sc:Float"}
KINDS = {
    "": "Results of the rankers: a row for each run and seed.",
    "check": "Results of 200 rounds, which a repeat compares on another machine: a row for each run and seed.",
    "choice": "From what settings were chosen: a row for each setting, fold and seed.",
    "processors": "How rows differ on other processors: a row for each row of a page, processor and seed played.",
}
COLUMNS = {
    "run": "id of the run, by which ol2r finds it",
    "rows": "rows of the page's tables to which the run belongs: competitor, and the aim of its settings",
    "table": "title of the data in the tables of the page",
    "dataset": "choice of dataset",
    "fold": "fold of the data; null where there is none",
    "click": "choice of click model: the users",
    "ranker": "choice of ranker",
    "competitor": "name of the row",
    "fingerprint": "hash of the data of the run",
    "cpu_seconds": "CPU seconds of the run",
    "peak_memory_gb": "largest memory of its process in GB",
    "choices": "JSON: the choice of each group",
    "settings": "JSON: settings of the run; of a choice: the overrides that were tried",
    "typed": "JSON: overrides as typed",
    "columns": "JSON: what the metrics of the run are",
    "about": "JSON: what the row says of itself, such as words to type and how its settings were chosen",
    "seed": "seed of the replica",
    "benchmark": "name of the page",
    "aim": "for which its settings were chosen: offline, online; empty without a choice",
    "overrides": "overrides of the row on one line of ol2r run",
    "rounds": "rounds that were played",
    "processor": "instructions that were used: x86-64 has the fewest",
    "test_ndcg_10_difference": "absolute difference from the published test NDCG@10",
    "cumulative_ndcg_difference": "absolute difference from the published cumulative NDCG",
    "differs": "whether a metric differs by more than the rounding of a sum",
    "clicks": "clicks in all rounds",
    "pairs": "pairs of documents inferred from clicks",
    "unfairness": "absolute value of the exposure of a group beyond what is due to it, summed over rounds",
    "dynamic_regret": "NDCG of the best list minus that of the list shown, summed over rounds, while users change",
    "click_dcg_10": "DCG@10 of a list that clicks on validation queries say, with attraction as gain",
    "clicks_a_session": "clicks on the first ten ranks of a list of validation queries",
    "best_round": "round after which NDCG of validation was largest",
}


def croissant() -> dict[str, Any]:
    """Return the metadata of all tables."""
    tables = sorted(FOLDER.glob("*.parquet"))
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    made_by = creators(cited["authors"])
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "ol2r_benchmarks",
        "description": ABOUT,
        "license": "https://spdx.org/licenses/MIT.html",
        "creator": made_by if len(made_by) > 1 else made_by[0],
        "citeAs": f"{', '.join(each['name'] for each in made_by)}: {cited['title']}, version {cited['version']}",
        "version": cited["version"].partition(".dev")[0],
        "datePublished": str(cited["date-released"]),
        "url": "docs/benchmark/README.md",
        "distribution": [file_object(path) for path in tables],
        "recordSet": [record_set(path) for path in tables],
    }


def creators(authors: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the authors of CITATION.cff, which has persons and organisations by other words."""
    return [
        {"@type": "sc:Organization", "name": author["name"]}
        if "name" in author
        else {"@type": "sc:Person", "name": f"{author['given-names']} {author['family-names']}"}
        for author in authors
    ]


def file_object(path: Path) -> dict[str, Any]:
    """Return how a file is described."""
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": path.name,
        "encodingFormat": "application/x-parquet",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def record_set(path: Path) -> dict[str, Any]:
    """Return how the rows of a table are described."""
    kind = path.stem if path.stem == "processors" else path.stem.partition("_")[2]
    return {
        "@type": "cr:RecordSet",
        "@id": path.stem,
        "name": path.stem,
        "description": KINDS[kind],
        "field": [column(path, name, kind_of) for name, kind_of in pl.read_parquet_schema(path).items()],
    }


def column(path: Path, name: str, kind: pl.DataType) -> dict[str, Any]:
    """Return how a column is described. A metric has the name by which tables show it."""
    repeated = isinstance(kind, pl.List)
    inner = kind.inner if isinstance(kind, pl.List) else kind
    field = {
        "@type": "cr:Field",
        "@id": f"{path.stem}/{name}",
        "name": f"{path.stem}/{name}",
        "description": COLUMNS.get(name) or heading(name),
        "dataType": TYPES[inner.base_type()],
        "source": {"fileObject": {"@id": path.name}, "extract": {"column": name}},
    }
    return {**field, "repeated": True} if repeated else field


if __name__ == "__main__":
    FILE.write_text(json.dumps(croissant(), indent=1) + "\n")
