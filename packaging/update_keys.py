"""Write the table of keys into resources/docs/keys.md from the program's commands."""

import re
import sys
from pathlib import Path

from ggscope.atomic_write import write_file
from ggscope.gui.commands.shortcuts import keys_markdown

PAGE = Path(__file__).resolve().parent.parent / "resources" / "docs" / "keys.md"
BLOCK = re.compile(r"<!-- keys -->\n.*?<!-- /keys -->", re.DOTALL)


def filled(text: str) -> str:
    """Return the text of the page with the present table of keys."""
    keys = keys_markdown().strip()
    return BLOCK.sub(lambda _: f"<!-- keys -->\n{keys}\n<!-- /keys -->", text)


def main() -> int:
    """Update the file; with ``--check`` only return whether it is out of date."""
    text = PAGE.read_text("utf-8")
    if "--check" in sys.argv:
        return int(filled(text) != text)
    write_file(PAGE, filled(text).encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
