"""Completion for shells and the manual page, both made from the parser."""

import argparse
import re
import shlex
from dataclasses import dataclass

from ggscope_capture import __version__
from ggscope_capture.config import LEVELS

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "OUTPUT", "GGMLVIZ", "OUT.bin", "FOLDER", "PROGRAM")
"""What help calls the values that are files or folders."""
_SHARED = "settings"
EXAMPLES = (
    ("ggscope-capture run -o run.bin -- llama-cli -m model.gguf", "record a program"),
    ("ggscope-capture save PID -o sofar.bin", "save a trace of the records so far"),
    ("ggscope-capture recover RING -o run.bin", "save a trace of a killed program"),
    ("ggscope-capture doctor llama-server", "check whether a program can be traced"),
)
STATUS = (
    ("0", "success; run exits with the program's code"),
    ("1", "an error"),
    ("2", "wrong usage"),
    ("125", "run --require: the program cannot be traced"),
)


@dataclass(frozen=True, slots=True)
class _Option:
    flags: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    help: str
    is_shared: bool

    @property
    def takes_file(self) -> bool:
        return self.value in _FILES


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    help: str
    options: tuple[_Option, ...]
    choices: tuple[str, ...]


def _commands(parser: argparse.ArgumentParser) -> list[_Command]:
    (subcommands,) = (
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    helps = {choice.dest: choice.help or "" for choice in subcommands._choices_actions}
    return [
        _command(name, helps[name], subparser)
        for name, subparser in subcommands.choices.items()
    ]


def _command(name: str, text: str, parser: argparse.ArgumentParser) -> _Command:
    shared = {
        action
        for group in parser._action_groups
        if group.title == _SHARED
        for action in group._group_actions
    }
    actions = parser._actions
    options = tuple(_option(a, a in shared) for a in actions if a.option_strings)
    places = [action for action in actions if not action.option_strings]
    choices = tuple(str(c) for action in places for c in action.choices or ())
    return _Command(name, text, options, choices)


def _option(action: argparse.Action, is_shared: bool) -> _Option:
    value = ""
    if action.nargs != 0:
        value = str(action.metavar or action.dest.upper())
    choices = tuple(str(choice) for choice in action.choices or ())
    if "--log-level" in action.option_strings:
        choices = tuple(level.lower() for level in LEVELS)
    is_json = "--json" in action.option_strings
    text = (action.help or ("print JSON" if is_json else "")).replace("%%", "%")
    return _Option(tuple(action.option_strings), value, choices, text, is_shared)


# -- completion --------------------------------------------------------------


def completion(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script that completes ``ggscope-capture`` in a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](_commands(parser))


def _bash(commands: list[_Command]) -> str:
    options, values, files = [], [], []
    for command in commands:
        flags = [flag for option in command.options for flag in option.flags]
        options.append(f"    {command.name}) words={shlex.quote(' '.join(flags))} ;;")
        if command.choices:
            words = shlex.quote(" ".join(command.choices))
            values.append(f"    {command.name}:{command.name}) values={words} ;;")
        for option in command.options:
            keys = "|".join(f"{command.name}:{flag}" for flag in option.flags)
            if option.choices:
                words = shlex.quote(" ".join(option.choices))
                values.append(f"    {keys}) values={words} ;;")
            elif option.takes_file:
                files.append(keys)
            elif option.value:
                values.append(f"    {keys}) return ;;")
    return _BASH.format(
        names=" ".join(command.name for command in commands),
        options="\n".join(options),
        values="\n".join(values),
        files="|".join(files),
    )


_BASH = """# bash completion of ggscope-capture
_ggscope_capture() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=${{COMP_WORDS[1]}} words='' values='' i
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W '{names} --help --version' -- "$cur")); return
  fi
  compopt -o filenames 2>/dev/null
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ $command == run && ${{COMP_WORDS[i]}} == -- ]]; then
      local IFS=$'\\n'
      (( i + 1 == COMP_CWORD )) && COMPREPLY=($(compgen -c -- "$cur"))
      COMPREPLY+=($(compgen -f -- "$cur")); return
    fi
  done
  case "$command:$prev" in
    {files}) local IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$cur")); return ;;
{values}
  esac
  if [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$cur")); return
  fi
  if [[ $cur == -* ]]; then
    case "$command" in
{options}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur")); return
  fi
  local IFS=$'\\n'
  COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -F _ggscope_capture ggscope-capture
"""


def _zsh(commands: list[_Command]) -> str:
    """Return a script that lets zsh run the bash one, which it can."""
    head = "#compdef ggscope-capture\nautoload -U +X bashcompinit && bashcompinit\n"
    # As a file of $fpath it runs when Tab is pressed first, and has to answer too.
    tail = (
        "[[ ${funcstack[1]} == _ggscope-capture ]] && "
        "_bash_complete -F _ggscope_capture\ntrue\n"
    )
    return head + _bash(commands) + tail


def _fish(commands: list[_Command]) -> str:
    start = "complete -c ggscope-capture"
    lines = ["# fish completion of ggscope-capture"]
    for command in commands:
        text = _fish_word(command.help)
        lines.append(f"{start} -n __fish_use_subcommand -a {command.name} -d {text}")
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        if command.choices:
            lines.append(f"{start} {seen} -a {_fish_word(' '.join(command.choices))}")
        for option in command.options:
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in option.flags
            )
            begin, more = f"{start} {seen} {flags}", ""
            if option.choices:
                # In a line before that of the help, which else stands at each value.
                lines.append(f"{begin} -x -a {_fish_word(' '.join(option.choices))}")
                more = " -x"
            elif option.value:
                more = " -r -F" if option.takes_file else " -x"
            lines.append(f"{begin}{more} -d {_fish_word(option.help)}")
    return "\n".join(lines) + "\n"


def _fish_word(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# -- manual page ---------------------------------------------------------------


def manual(parser: argparse.ArgumentParser) -> str:
    """Return the manual page in the language of ``man(7)``."""
    text = parser.description or ""
    lines = [
        f'.TH GGSCOPE\\-CAPTURE 1 "" "ggscope {__version__}" "User commands"',
        ".SH NAME",
        f"ggscope\\-capture \\- {_roff(text[0].lower() + text[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B ggscope\\-capture\n.I COMMAND\n.RI [ options ]",
        ".br\n.B ggscope\\-capture run",
        ".RI [ options ]\n.B \\-\\-\n.I PROGRAM ARGS ...",
        ".SH COMMANDS",
    ]
    shared = dict[tuple[str, ...], _Option]()
    for command in _commands(parser):
        lines += [f".SS {_roff(command.name)}", _roff(_sentence(command.help))]
        for option in command.options:
            if option.is_shared or "--help" in option.flags:
                shared.setdefault(option.flags, option)
            else:
                lines += _option_lines(option)
    lines += [".SH OPTIONS OF SEVERAL COMMANDS"]
    lines += ["ggscope\\-capture config \\-\\-explain has keys, variables and values."]
    for option in shared.values():
        lines += _option_lines(option)
    for title, rows in (("EXAMPLES", EXAMPLES), ("EXIT STATUS", STATUS)):
        lines.append(f".SH {title}")
        for name, meaning in rows:
            lines += [".TP", f"\\fB{_roff(name)}\\fR", _roff(_sentence(meaning))]
    lines += [".SH SEE ALSO", ".BR ggscope (1)"]
    return "\n".join(lines) + "\n"


def _option_lines(option: _Option) -> list[str]:
    flags = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in option.flags)
    value = f" \\fI{_roff(option.value)}\\fR" if option.value else ""
    return [".TP", flags + value, _roff(_sentence(option.help or option.flags[-1]))]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _roff(text: str) -> str:
    """Return `text` so that troff prints it as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    # Not every troff reads UTF-8.
    escaped = re.sub(r"[^\x00-\x7f]", lambda m: f"\\[u{ord(m[0]):04X}]", escaped)
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)
