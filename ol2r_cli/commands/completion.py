"""`ol2r completion bash|zsh`: the script that completes commands, groups, choices, settings and folders."""

from __future__ import annotations

import argparse
import re
import sys

from ol2r_cli.commands.continuations import continuations

# Bash replaces only what follows the last `=` or `:`, which it passes as $2; zsh replaces the whole word, and -U lets
# the answer begin in another way: /home/me/ for ~/.
SCRIPTS = {
    "bash": r"""# completion for ol2r: put  eval "$(ol2r completion bash)"  into ~/.bashrc
_ol2r() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <("${1/#\~/$HOME}" completion --query "${COMP_LINE:0:COMP_POINT}" --replaces "$2" 2>/dev/null)
}
complete -o nospace -F _ol2r ol2r
""",
    "zsh": r"""# completion for ol2r: put  eval "$(ol2r completion zsh)"  into ~/.zshrc
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_ol2r() {
    local -a candidates
    candidates=("${(@f)$(${~words[1]} completion --query "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    [[ -n "$candidates" ]] && compadd -QU -S '' -- "${candidates[@]}"
}
compdef _ol2r ol2r
""",
}

EPILOG = """put one of these into your shell's start-up file:
  eval "$(ol2r completion bash)"     # ~/.bashrc
  eval "$(ol2r completion zsh)"      # ~/.zshrc
"""


def main(arguments: list[str]) -> int:
    """Exit code 0."""
    parser = argparse.ArgumentParser(
        "ol2r completion",
        usage="ol2r completion bash|zsh",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SCRIPTS, nargs="?", help="the shell to write for")
    parser.add_argument("--query", metavar="LINE", help=argparse.SUPPRESS)  # asked by the scripts
    parser.add_argument("--replaces", metavar="END", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.query is not None:
        for word in answer(given.query, given.replaces):
            print(word)
    elif given.shell:
        sys.stdout.write(SCRIPTS[given.shell])
    else:
        parser.error(f"SHELL must be one of {', '.join(SCRIPTS)}, got none")
    return 0


def answer(line: str, replaces: str | None = None) -> list[str]:
    """What the last word of `line` may become, quoted for the shell.

    replaces: the end of that word which the shell will put the answer in place of, when it is not the whole word;
    what stands before it is then left out of the answer.
    """
    last = re.search(r"(?:\\.|[^\s\\])*$", line)[0]  # type: ignore[index]
    kept = "" if replaces is None else re.sub("['\"]", "", last.removesuffix(replaces))
    words = [word[len(kept) :] for word in map(_quoted, continuations(line)) if word.startswith(kept)]
    inside_quotes = last.count("'") % 2 or last.count('"') % 2
    return [word.rstrip(" ") for word in words] if inside_quotes else words


def _quoted(word: str) -> str:
    r"""With a backslash before what the shell would take for its own; the final blank of a finished word stays one.

    `$HOME/` where a path begins is for the shell to expand.
    """
    return re.sub(r"(?<=.)(?!(?<==)\$HOME/)(?=[ '\"\\()&;|<>$`!*?\[\]#])(?!.$)", r"\\", word)
