"""``ggscope completion SHELL``."""

import argparse
import json
from argparse import Action, Namespace

from ggscope import assets
from ggscope.cli import output
from ggscope.cli.arguments import COMMANDS, make_parser
from ggscope.cli.output import GOOD
from ggscope.cli.values import Names
from ggscope.errors import TraceError
from ggscope_capture.completion import actions, completion, value_list

_PREAMBLES = {
    # Where a command may stand, a file may, too.
    "bash": "_shtab_ggscope_pos_0_COMPGEN=_shtab_compgen_files",
    # Without a command, it is that which opens files.
    "zsh": """
functions[_ggscope_names]=$functions[_shtab_ggscope_commands]
functions[_ggscope_command]=$functions[_shtab_ggscope]
_shtab_ggscope_commands() { _ggscope_names; _files }
_shtab_ggscope() {
  if (( CURRENT > 2 && ! ${words[2,CURRENT-1][(I)(COMMANDS)]} )); then
    words=(ggscope open "${words[@]:1}"); (( CURRENT++ ))
  fi
  _ggscope_command "$@"
}
""",
    "fish": "",
}
_FISH_FILES = "complete -c ggscope -n _shtab_ggscope_using -F"


def script(shell: str) -> str:
    """Return the script that completes ``ggscope`` in a shell."""
    parser = make_parser()
    for action in actions(parser):
        names = action.choices
        if "--ops" in action.option_strings and action.nargs != 0:
            action.choices = _op_tables()
        elif isinstance(names, Names) and names.several:
            action.complete = value_list(action.dest, names, names.every)  # type: ignore[attr-defined]
    (commands,) = (
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    for action in commands.choices["open"]._actions:
        if action.option_strings and not _is_known(action, parser):
            parser._add_action(action)
    preamble = _PREAMBLES[shell].replace("COMMANDS", "|".join(COMMANDS))
    lines = completion(shell, parser, preamble)
    return lines + f"{_FISH_FILES}\n" if shell == "fish" else lines


def _is_known(action: Action, parser: argparse.ArgumentParser) -> bool:
    return action.option_strings[0] in parser._option_string_actions


def _op_tables() -> tuple[str, ...]:
    """Return the ids of op tables, without `ggml.ops`, which imports numpy."""
    rows = json.loads(assets.path("ggml/op_tables.json").read_text("utf-8"))
    return ("auto", *(row["id"] for row in rows if row["mainline"]))


def run(arguments: Namespace) -> int:
    """Print what is asked for; return the exit code.

    Raises
    ------
    TraceError
        If shtab is not installed.
    """
    try:
        output.emit(script(arguments.shell))
    except ImportError as error:
        raise TraceError(
            "completion needs the Python package shtab. Install it."
        ) from error
    return GOOD
