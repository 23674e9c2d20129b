"""Print the section of CHANGELOG.md of a version, for the page of its release.

python packaging/release_notes.py 0.2.0
"""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def section(text: str, version: str) -> str:
    """Return the lines below the heading of a version; ValueError where it has none."""
    heading = re.escape(f"## [{version}]")
    match = re.search(rf"^{heading}[^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if match is None or not match[1].strip():
        raise ValueError(f"CHANGELOG.md has no section [{version}]")
    return match[1].strip()


def main(argv: list[str]) -> int:
    """Print the section; return 1 where there is none."""
    try:
        print(section(CHANGELOG.read_text("utf-8"), argv[0]))
    except ValueError as error:
        print(f"release_notes: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
