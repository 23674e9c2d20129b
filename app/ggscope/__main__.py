"""Start ggscope as ``python -m ggscope``."""

from ggscope.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
