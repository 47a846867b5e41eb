"""LETOR text read the slow way, a token at a time: the oracle of the parser."""

from __future__ import annotations

import re

import numpy as np


def read_letor(text: bytes) -> tuple[list[dict[int, np.float32]], list[int], list[str]] | None:
    """Features by id, grade and query of every line; None if anything is not of the form."""
    documents, grades, queries = [], [], []
    for line in text.split(b"\n"):
        tokens = [token for token in re.split(rb"[ \t\r]", line.split(b"#")[0]) if token]
        if not tokens:
            continue
        if len(tokens) < 2 or not re.fullmatch(rb"\d{1,3}(\.0*)?", tokens[0]) or float(tokens[0]) > 127:
            return None
        query = re.fullmatch(rb"qid:([^:]+)", tokens[1])
        document = _features(tokens[2:])
        if query is None or document is None:
            return None
        if query[1].decode() in queries and queries[-1] != query[1].decode():
            return None
        documents.append(document)
        grades.append(int(float(tokens[0])))
        queries.append(query[1].decode())
    return (documents, grades, queries) if documents else None


def _features(tokens: list[bytes]) -> dict[int, np.float32] | None:
    document: dict[int, np.float32] = {}
    for token in tokens:
        try:
            identity, value = (float(part) for part in token.split(b":"))
        except ValueError:
            return None
        if b"_" in token or identity < 1 or identity > 100_000 or identity != int(identity):
            return None
        if not abs(value) <= float(np.finfo(np.float32).max) or (document and identity <= max(document)):
            return None
        document[int(identity)] = np.float32(value)
    return document
