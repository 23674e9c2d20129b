"""``ggscope completion SHELL`` and ``ggscope man``: both made from the parser."""

import argparse
import json
import shlex
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from ggscope import assets
from ggscope.cli import output
from ggscope.cli.arguments import make_parser
from ggscope.cli.output import GOOD
from ggscope.cli.values import Names

_OWN_GROUPS = ("options", "positional arguments")
"""What argparse calls the arguments that are in no group."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command.

    Attributes
    ----------
    flags : all of its spellings.
    value : what it takes, as help prints it; "" = nothing.
    choices : the values that there are, perhaps looked up when asked for; None = any.
    takes_file : whether the value names a file or folder.
    takes_list : whether it is several of the choices, with commas between them.
    every : the choice that stands for all others, "" = none.
    group : title of the group of options that it is in; "" = of the command alone.
    """

    flags: tuple[str, ...]
    value: str
    choices: Collection[str] | None
    takes_file: bool
    takes_list: bool
    help: str
    every: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """One command: its help, its options, and the choices of its first argument."""

    name: str
    help: str
    options: tuple[Option, ...]
    choices: tuple[str, ...]
    usage: str


def command_lines(parser: ArgumentParser) -> list[CommandLine]:
    """Return what the parser's commands understand."""
    (commands,) = (
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    return [
        _command_line(name, helps[name], made)
        for name, made in commands.choices.items()
        if name in helps
    ]


def _command_line(name: str, text: str, parser: ArgumentParser) -> CommandLine:
    actions = [
        action for action in parser._actions if action.help is not argparse.SUPPRESS
    ]
    groups = {
        action: group.title or ""
        for group in parser._action_groups
        if group.title not in _OWN_GROUPS
        for action in group._group_actions
    }
    places = [action for action in actions if not action.option_strings]
    return CommandLine(
        name,
        text,
        tuple(
            _option(action, groups.get(action, ""))
            for action in actions
            if action.option_strings
        ),
        tuple(str(c) for action in places for c in action.choices or ()),
        " ".join(parser.format_usage().removeprefix("usage: ").split()),
    )


def _option(action: Action, group: str) -> Option:
    value = ""
    if action.nargs != 0:
        names = action.metavar if isinstance(action.metavar, str) else None
        value = names or (
            action.dest if action.choices is None else "|".join(action.choices)
        )
    return Option(
        tuple(action.option_strings),
        value,
        _values(action),
        value in ("FILE", "DIR", "MODEL"),
        isinstance(action.choices, Names) and action.choices.several,
        (action.help or "").replace("%%", "%"),
        action.choices.every if isinstance(action.choices, Names) else "",
        group,
    )


def _values(action: Action) -> Collection[str] | None:
    """Return the values that an option has, or those that it may be completed to."""
    if "--ops" in action.option_strings and action.nargs != 0:
        return Names(_op_tables)
    return cast("Collection[str] | None", action.choices)


def _op_tables() -> tuple[str, ...]:
    """Return the ids of op tables, without `ggml.ops`, which imports numpy."""
    rows = json.loads(assets.path("ggml/op_tables.json").read_text("utf-8"))
    return ("auto", *(row["id"] for row in rows if row["mainline"]))


# -- completion --------------------------------------------------------------


def completion(shell: str, commands: list[CommandLine]) -> str:
    """Return the script that completes ``ggscope`` in a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _bash(commands: list[CommandLine]) -> str:
    options, values, files = [], [], []
    for command in commands:
        flags = [flag for option in command.options for flag in option.flags]
        options.append(f"    {command.name}) words={shlex.quote(' '.join(flags))} ;;")
        for option in command.options:
            for flag in option.flags:
                key = f"{command.name}:{flag}"
                if option.choices is not None:
                    words = shlex.quote(" ".join(option.choices))
                    list_of = " lists=1" if option.takes_list else ""
                    list_of += f" every={option.every}" if option.every else ""
                    values.append(f"    {key}) values={words}{list_of} ;;")
                elif option.takes_file:
                    files.append(key)
                elif option.value:
                    values.append(f"    {key}) return ;;")
        if command.choices:
            words = shlex.quote(" ".join(command.choices))
            values.append(f"    {command.name}:{command.name}) values={words} ;;")
    names = " ".join(command.name for command in commands)
    return _BASH.format(
        names=names,
        options="\n".join(options),
        values="\n".join(values),
        files="|".join(files),
    )


_BASH = """# bash completion of ggscope
_ggscope() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=open words='' values='' lists='' every='' before='' left='' word i
  local names='{names}'
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    case " $names " in *" $word "*) command=$word; break ;; esac
  done
  compopt -o filenames 2>/dev/null
  case "$command:$prev" in
    {files}) local IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$cur")); return ;;
{values}
  esac
  if [[ -n $values ]]; then
    if [[ -n $lists && $cur == *,* ]]; then
      before=${{cur%,*}},
      for word in $values; do
        case ",$before,$every," in
          ",$every,"* | *",$word,"*) ;;
          *) left+="$word " ;;
        esac
      done
      values=$left
    fi
    COMPREPLY=($(compgen -P "$before" -W "$values" -- "${{cur##"$before"}}")); return
  fi
  if [[ $cur == -* ]]; then
    case "$command" in
{options}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur")); return
  fi
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W "$names" -- "$cur"))
  fi
  local IFS=$'\\n'
  COMPREPLY+=($(compgen -f -- "$cur"))
}}
complete -F _ggscope ggscope
"""


def _zsh(commands: list[CommandLine]) -> str:
    """Return a script that lets zsh run the bash one, which it can."""
    head = "#compdef ggscope\nautoload -U +X bashcompinit && bashcompinit\n"
    # As a file of $fpath it runs when Tab is pressed first, and has to answer too.
    tail = "[[ ${funcstack[1]} == _ggscope ]] && _bash_complete -F _ggscope\ntrue\n"
    return head + _bash(commands) + tail


def _fish(commands: list[CommandLine]) -> str:
    lines = ["# fish completion of ggscope", _FISH_LIST.strip()]
    for command in commands:
        text = _fish_word(command.help)
        lines.append(
            f"complete -c ggscope -n __fish_use_subcommand -a {command.name} -d {text}"
        )
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        lines.extend(
            f"complete -c ggscope {seen} -a {_fish_word(choice)}"
            for choice in command.choices
        )
        for option in command.options:
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in option.flags
            )
            begin, more = f"complete -c ggscope {seen} {flags}", ""
            if option.choices is not None:
                values = " ".join(option.choices)
                if option.takes_list:
                    every = option.every or "''"
                    values = f"(__ggscope_list {every} {values})"
                # In a line before that of the help, which else stands at each value.
                lines.append(f"{begin} -x -a {_fish_word(values)}")
                more = " -x"
            elif option.takes_file:
                more = " -r -F"
            elif option.value:
                more = " -x"
            lines.append(f"{begin}{more} -d {_fish_word(option.help)}")
    return "\n".join(lines) + "\n"


_FISH_LIST = """
function __ggscope_list
    set -l every $argv[1]
    set -l typed (commandline -ct | string replace -r -- '^--[^=]*=' '')
    set -l before (string match -r -- '.*,' "$typed")
    test -n "$before"; or set before ''
    test -n "$every" -a "$before" = "$every,"; and return
    for word in $argv[2..]
        test -n "$before" -a "$word" = "$every"; and continue
        string match -q -- "*,$word,*" ",$before"; or echo $before$word
    end
end
"""


def _fish_word(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def run(arguments: Namespace) -> int:
    """Print what is asked for; return the exit code."""
    output.emit(completion(arguments.shell, command_lines(make_parser())))
    return GOOD
