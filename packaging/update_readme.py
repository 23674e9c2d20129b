"""Write the table of keys into README.md from the program's own command table."""

import re
import sys
from pathlib import Path

from ggscope.atomic_write import write_file
from ggscope.gui.commands.shortcuts import keys_markdown

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"<!-- keys -->\n.*?<!-- /keys -->", re.DOTALL)


def filled(text: str) -> str:
    """Return README text with the present table of keys."""
    keys = keys_markdown().strip()
    return BLOCK.sub(lambda _: f"<!-- keys -->\n{keys}\n<!-- /keys -->", text)


def main() -> int:
    """Update the file; with ``--check`` only tell whether it is up to date."""
    text = README.read_text("utf-8")
    if "--check" in sys.argv:
        return int(filled(text) != text)
    write_file(README, filled(text).encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
