"""The recipe of docs/how-to/click_logs.md for User Behavior Insights, on events of its schema 1.3."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ol2r_cli.plugins.click_logs.click_log import read
from ol2r_cli.plugins.click_logs.log_file import Form
from tests.plugins.click_logs.logs import pages_of

PAGE = Path(__file__).parents[3] / "docs/how-to/click_logs.md"
SEARCHES = [
    ("p1", "shoes", ["a", "b", "c"], ["b"]),
    ("p2", "coats", ["x", "y"], []),
    ("p3", "shoes", ["b", "a"], ["a"]),
]


def write_ubi(folder, first):
    """Searches, the last of which is the earliest; one click was sent twice, and one event has no object."""
    queries, events = [], []
    for number, (page, text, documents, clicked) in enumerate(SEARCHES):
        day = f"2024-06-0{3 - number}T12:00"
        common = {"application": "shop", "query_id": page, "client_id": "c"}
        queries.append(common | {"user_query": text, "timestamp": f"{day}:00Z", "query_response_hit_ids": documents})
        events.append(common | {"action_name": "on_search", "timestamp": f"{day}:00Z", "message": text})
        for action, seconds, of in ("impression", "01", documents), ("click", "09", clicked), ("click", "10", clicked):
            for document in of:
                place = {"ordinal": documents.index(document) + first}
                attributes = {"object": {"object_id": document, "object_id_field": "sku"}, "position": place}
                event = {"action_name": action, "timestamp": f"{day}:{seconds}Z", "event_attributes": attributes}
                events.append(common | event)
    for name, lines in ("queries", queries), ("events", events):
        (folder / f"ubi_{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("first", [0, 1])
def test_the_recipe_for_ubi_writes_logs(tmp_path, monkeypatch, first):
    """From impressions and from lists of hits; pages are in the order of time."""
    write_ubi(tmp_path, first)
    monkeypatch.chdir(tmp_path)
    of_impressions, of_hits = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(of_impressions + of_hits, {})
    if not first:
        with pytest.raises(ValueError, match=r"log\.parquet has 3 rows at rank 0, .* type --first-rank 0"):
            read(Path("log.parquet"))
    for log, left_out in read(Path("log.parquet"), form=Form(first_rank=first)), read(Path("log.jsonl")):
        assert (pages_of(log), left_out) == (["shoes: b a*", "coats: x y", "shoes: a b* c"], 0)
