"""A sweep with failures beside an undisturbed one: one job raises, one is killed by SIGKILL, some have a bad setting.

    python scripts/survival.py FOLDER 'ranker=pairrank,pdgd,mine' click=per,nav,inf rounds=200 dataset=mq2008 \\
        dataset.path=../shared/data/MQ2008 dataset.fold=1,2,3,4,5 --bad dataset.fold=6 --kill pdgd-informational

`ranker=mine` is a ranker of a user that ranks at random. The first of its runs that finds the file `trouble` fails in
round 10. The script prints the output of the sweeps. It exits with 0 if the sweep ends with code 3 and all other jobs
are finished, the same command runs only the missing jobs, and the reports of both sweeps are identical.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ol2r_cli.run.run_state import find_runs, read_state

MINE = '''from pathlib import Path

from ol2r_cli.ranker.random import RandomRanker

TROUBLE = Path(__file__).parent / "trouble"


class Mine(RandomRanker):
    """Ranks at random, and fails once."""

    rounds = 0

    def predict(self, candidates, random):
        self.rounds += 1
        if self.rounds == 10 and TROUBLE.exists():
            TROUBLE.unlink()
            raise RuntimeError("an error of the user")
        return super().predict(candidates, random)
'''


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line that says what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where everything is written; must not exist")
    parser.add_argument("words", nargs="+", help="the words of `ol2r run -m`")
    parser.add_argument("--bad", metavar="SETTING=VALUE", required=True, help="a bad value to add to a setting")
    parser.add_argument("--kill", metavar="NAME", required=True, help="kill a run whose directory starts with this")
    given = parser.parse_args(arguments)
    undisturbed, disturbed = given.folder / "calm", given.folder / "troubled"
    own = _own_ranker(given.folder)
    words = ["run", "-m", *given.words, "--config-dir", str(own)]
    say("undisturbed")
    _expect(_ol2r([*words, f"output_dir={undisturbed}"], own), 0)

    say("with failures")
    (own / "trouble").touch()
    setting, _, value = given.bad.partition("=")
    bad = [f"{word},{value}" if word.startswith(f"{setting}=") else word for word in words]
    _expect(_run_and_kill(given.kill, disturbed, [*bad, f"output_dir={disturbed}", "--keep-going"], own), 3)
    ended = {path.parent.name: path.stat().st_mtime_ns for path in _finished(disturbed)}
    missing = sum(1 for _ in _finished(undisturbed)) - len(ended)
    _check(missing == 2, f"two runs should be missing, not {missing}")

    say("again")
    _expect(_ol2r([*words, f"output_dir={disturbed}"], own), 0)
    again = [
        path.parent.name for path in _finished(disturbed) if ended.get(path.parent.name) != path.stat().st_mtime_ns
    ]
    _check(len(again) == missing, f"{missing} runs should have run again, not {again}")
    reports = [_printed(["report", str(folder)], own) for folder in (undisturbed, disturbed)]
    _check(reports[0] == reports[1], f"the reports differ:\n{reports[0]}\n{reports[1]}")
    say(f"both reports are\n{reports[0]}")
    return 0


def say(line: str) -> None:
    """Print a line of this script between those of the sweeps."""
    print(f"\n== {line}", flush=True)


def _own_ranker(folder: Path) -> Path:
    own = folder.absolute() / "own"
    (own / "ranker").mkdir(parents=True)
    (own / "mine.py").write_text(MINE)
    (own / "ranker" / "mine.yaml").write_text("# Ranks at random, and fails once.\n_target_: mine.Mine\n")
    return own


def _command(words: Sequence[str], own: Path) -> tuple[list[str], dict[str, str]]:
    places = [str(own), *filter(None, [os.environ.get("PYTHONPATH")])]
    print("ol2r", *words, flush=True)
    return [sys.executable, "-m", "ol2r_cli", *words], os.environ | {"PYTHONPATH": os.pathsep.join(places)}


def _ol2r(words: Sequence[str], own: Path) -> int:
    command, environment = _command(words, own)
    return subprocess.run(command, env=environment, check=False).returncode


def _printed(words: Sequence[str], own: Path) -> str:
    command, environment = _command(words, own)
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def _run_and_kill(name: str, output: Path, words: Sequence[str], own: Path) -> int:
    """Run a sweep, and kill the process of the first run with this name that has begun."""
    command, environment = _command(words, own)
    sweep = subprocess.Popen(command, env=environment)
    while sweep.poll() is None:
        for path in find_runs(output):
            state = read_state(path)
            if path.name.startswith(name) and state is not None and state.state == "running":
                with suppress(ProcessLookupError):
                    os.kill(state.manifest["pid"], signal.SIGKILL)
                    say(f"killed {path.name}")
                    return sweep.wait()
        time.sleep(0.005)
    raise SystemExit(f"no run with the name {name} has started")


def _finished(output: Path) -> list[Path]:
    return [path / "summary.json" for path in find_runs(output) if (path / "summary.json").is_file()]


def _expect(code: int, expected: int) -> None:
    say(f"exit code {code}")
    _check(code == expected, f"the exit code should be {expected}, not {code}")


def _check(right: bool, otherwise: str) -> None:
    if not right:
        raise SystemExit(otherwise)


if __name__ == "__main__":
    sys.exit(main())
