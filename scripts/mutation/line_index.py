"""Which tests to ask about a mutant: those that execute its line, cheapest first."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from mutants import Mutant

FILES, TESTS = 5, 60  # test files and tests asked about a mutant, at most


class Index:
    """Which tests execute which lines, and how long they take."""

    def __init__(self, measured: dict[str, dict[str, Any]], unsound: set[str]):
        self.seconds: dict[str, float] = {}
        self.collecting: dict[str, float] = {}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))  # file -> line -> tests
        self.left: dict[str, set[str]] = {}  # tests that had no turn -> words of their names
        for file, told in measured.items():
            if "lines" in told:
                self.collecting[file] = told["collected"]
                self._take(told, unsound | set(told["failed"]))

    def _take(self, told: dict[str, Any], unsound: set[str]) -> None:
        mean = sum(told["tests"].values()) / max(len(told["tests"]), 1)
        self.left |= {id: set(re.findall(r"\w+", id.partition("[")[2])) for id in set(told["left"]) - unsound}
        self.seconds |= {id: seconds for id, seconds in told["tests"].items() if id not in unsound}
        self.seconds |= dict.fromkeys(set(told["left"]) - unsound, mean)
        users: dict[str, set[str]] = defaultdict(set, process=set(told["processes"]))
        for id, names in told["fixtures"].items():
            for name in names:
                users[f"fixture {name}"].add(id)
        for file, contexts in told["lines"].items():
            for context, numbers in contexts.items():
                ids = ({context} if "::" in context else users[context]) & self.seconds.keys()
                for line in numbers:
                    self.lines[file][line] |= ids

    def executing(self, mutant: Mutant) -> set[str]:
        """Tests that execute the expression, else its statement; of what runs on import all that use the file."""
        lines = self.lines[mutant.file]
        named = {id for id, words in self.left.items() if Path(mutant.file).stem in words}
        if mutant.imported:
            return set().union(named, *lines.values())
        for first, last in mutant.lines, mutant.statement:
            found = set().union(*(lines.get(line, set()) for line in range(first, last + 1)))
            if found:
                return found | named
        return set()

    def choose(self, mutant: Mutant, tests: list[str], budget: float) -> tuple[list[str], float]:
        """Tests to ask, in order, and the seconds they should take; `tests` are the files that the area names."""
        own = re.compile("|".join(fnmatch.translate(pattern) for pattern in tests)).match
        queues: dict[str, list[str]] = defaultdict(list)
        cases: Counter[str] = Counter()
        ids = self.executing(mutant) or {id for id in self.seconds if own(id.partition("::")[0])}
        for id in sorted(ids, key=lambda id: (self.seconds[id], id)):
            queues[id.partition("::")[0]].append(id)
        for ids in queues.values():  # the cheapest case of every function, then the second one of each
            ranks = {id: (cases.update([id.partition("[")[0]]), cases[id.partition("[")[0]])[1] for id in ids}
            ids.sort(key=lambda id: ranks[id])
        order = sorted(queues, key=lambda file: (not own(file), self.collecting[file] + self.seconds[queues[file][0]]))
        chosen: dict[str, list[str]] = defaultdict(list)
        expected = 0.0
        while order and sum(map(len, chosen.values())) < TESTS:
            for file in list(order):
                if not queues[file] or (file not in chosen and len(chosen) >= FILES):
                    order.remove(file)
                    continue
                turn = 3 if own(file) else 1
                for id in queues[file][:turn]:
                    cost = self.seconds[id] + (0 if file in chosen else self.collecting[file])
                    if not chosen or expected + cost <= budget:
                        chosen[file].append(id)
                        expected += cost
                queues[file] = queues[file][turn:]
        files = sorted(chosen, key=lambda file: (not own(file), self.collecting[file] + self.seconds[chosen[file][0]]))
        return [id for file in files for id in chosen[file]], expected
