"""Ask a real shell what it offers."""

import shlex
import subprocess
from pathlib import Path


def complete(script: str, line: str, folder: Path) -> set[str]:
    """Return what real bash offers for the last word of `line`."""
    arguments = shlex.split(line) + ([""] if line.endswith(" ") else [])
    array = " ".join(map(shlex.quote, arguments))
    function = "_shtab_" + arguments[0].replace("-", "_")
    typed = f"COMP_WORDS=({array})\nCOMP_CWORD={len(arguments) - 1}\n{function}"
    result = "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{typed}\n{result}"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}
