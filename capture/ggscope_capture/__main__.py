"""Command of the capture package."""

import sys


def main() -> int:
    """Say that this version cannot capture yet; return exit code 1."""
    sys.stderr.write(
        "ggscope-capture: this version opens traces but cannot record them yet.\n"
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
