"""What a run file of TREC says of itself in comments before its lines: the PRIMAD model (platform, research goal,
implementation, method, actor, data) in the form of ir_metadata (Breuer, Keller and Schaer, SIGIR 2022)."""

from __future__ import annotations

from typing import Any

import yaml

from ol2r_cli.run.run import Run

START, END = "# ir_metadata.start", "# ir_metadata.end"


def metadata_lines(run: Run, seed: int, tag: str, team: str) -> str:
    """Return the comments of the run file of a seed, for a shared task in which `team` takes part."""
    text = yaml.safe_dump(metadata(run, seed, tag, team), sort_keys=False, allow_unicode=True, width=10_000)
    return "\n".join([START, *(f"# {line}" for line in text.splitlines()), END, ""])


def metadata(run: Run, seed: int, tag: str, team: str) -> dict[str, Any]:
    """Return the six parts of PRIMAD, as far as a run knows them."""
    manifest, choices = run.manifest, run.choices
    ran = manifest["ran"][-1]
    libraries = [f"{name}=={version}" for name, version in ran.items() if name in ("torch", "numpy", "numba")]
    return {
        "tag": tag,
        "platform": {
            "hardware": {"device": ran["device"]},
            "software": {"libraries": {"python": [f"ol2r=={ran['ol2r']}", *libraries]}, "python": ran["python"]},
        },
        "research goal": {"evaluation": {"reported measures": ["ndcg"], "baseline": []}},
        "implementation": {
            "executable": {"cmd": manifest["command"]},
            "source": {"lang": "python", "commit": (manifest["git"] or {}).get("commit")},
        },
        "method": {
            "automatic": True,
            "retrieval": [
                {
                    "name": choices["ranker"],
                    "method": "online learning to rank from simulated clicks",
                    "learned from": f"click={choices['click']}, {manifest['progress']['rounds']} rounds, seed {seed}",
                    "run": run.id,
                }
            ],
        },
        "actor": {"team": team},
        "data": {
            "test collection": {"name": manifest["dataset"]["name"], "fingerprint": manifest["dataset"]["fingerprint"]},
        },
    }
