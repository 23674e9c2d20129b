"""The scripts of ``make bench`` are no package; they are found beside the tests."""

import sys

from support import ROOT

FOLDER = str(ROOT / "packaging")
if FOLDER not in sys.path:
    sys.path.append(FOLDER)
