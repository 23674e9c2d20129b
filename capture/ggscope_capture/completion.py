"""Completion scripts of both programs: written by shtab from their parsers."""

import re
from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Collection, Iterator

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "OUT", "OUTPUT", "OUT.bin", "GGMLVIZ", "MODEL", "FOLDER", "DIR")
"""What help calls the values that are files or folders."""
_LISTS = {
    "bash": """
# Values with commas between them. $1: the value that stands for all, $2: what is typed
_ggscope_list() {
  local every=$1 before='' value
  [[ $2 == *,* ]] && before=${2%,*},
  [[ $before == "$every," ]] && return
  compgen -W "$(for value in "${@:3}"; do
    [[ -n $before && $value == "$every" || ",$before" == *",$value,"* ]] ||
      echo "$before$value"
  done)" -- "$2"
}
""",
    "fish": """
function __ggscope_list
    set -l every $argv[1]
    set -l typed (commandline -ct | string replace -r -- '^--[^=]*=' '')
    set -l before (string match -r -- '.*,' "$typed")
    test -n "$before"; or set before ''
    test -n "$every" -a "$before" = "$every,"; and return
    for value in $argv[2..]
        test -n "$before" -a "$value" = "$every"; and continue
        string match -q -- "*,$value,*" ",$before"; or echo $before$value
    end
end
""",
}
_PROGRAMS = {
    "bash": """
_ggscope_programs() {
  local word=${COMP_WORDS[COMP_CWORD]}
  [[ ${COMP_WORDS[COMP_CWORD-1]} == -- ]] && compgen -c -- "$word"
  compgen -f -- "$word"  # files
}
""",
    "zsh": """
_ggscope_programs() {
  _alternative 'programs:program:_command_names -e' 'files:file:_files'
}
""",
}


def completion(shell: str, parser: ArgumentParser, preamble: str = "") -> str:
    """Return the script that completes `parser`'s program in a shell.

    Values are those of `choices`. An action may have `complete` as shtab knows it; the
    other values that name files are determined by their metavar, and every argument
    without choices is a file.

    Raises
    ------
    ImportError
        If shtab is not installed.
    """
    import shtab

    for action in actions(parser):
        if hasattr(action, "complete") or action.choices is not None:
            continue
        if action.nargs == "...":
            programs = {"bash": "_ggscope_programs", "zsh": "_ggscope_programs"}
            action.complete = {**shtab.FILE, **programs, "preamble": _PROGRAMS}  # type: ignore[attr-defined]
        elif not action.option_strings or action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    script: str = shtab.complete(parser, shell, preamble=preamble)
    if shell == "zsh":  # shtab has zsh complete the first of several files only
        script = script.replace('"(*)::', '"*:').replace('"(*):', '"*:')
    if shell == "fish":  # else the help of an option stands at each of its values
        script = re.sub(
            r"^(complete .*)(-xka \"[^\"]*\")( -d .*)$",
            r"\1\2\n\1-x\3",
            script,
            flags=re.M,
        )
    return script


def actions(parser: ArgumentParser) -> Iterator[Action]:
    """Yield the options and arguments of a parser and of its commands."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for command in action.choices.values():
                yield from actions(command)
        else:
            yield action


def value_list(
    name: str, values: Collection[str], every: str = ""
) -> dict[str, object]:
    """Return the completion of values with commas between them, for shtab.

    `every` : the value that stands for all others, "" = none.
    """
    choices = " ".join(values)
    function = f"_ggscope_list_{name}"
    call = f'{function}() {{ _ggscope_list "{every}" "$1" {choices}; }}'
    return {
        "bash": function,
        "zsh": f"_values -s , {name} {choices}",
        "fish": f"(__ggscope_list '{every}' {choices})",
        "preamble": {**_LISTS, "bash": _LISTS["bash"] + call},
    }
