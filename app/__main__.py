"""Start ggscope from a plain checkout: ``python app FILE``."""

from ggscope.cli import main

raise SystemExit(main())
