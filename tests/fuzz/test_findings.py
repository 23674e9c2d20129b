"""What fuzzing and attacks have found stays mended: each file is read once more.

A folder under `findings` holds the file and, in `case.json`, its reader, its options
and what it did; `make fuzz` writes such folders to `build/fuzz/findings`.
"""

from pathlib import Path

import pytest

from fuzzing.campaign import finding_case
from fuzzing.cases import attempt

FOLDER = Path(__file__).parent / "findings"


@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.iterdir()))
def test_finding_stays_mended(tmp_path: Path, name: str) -> None:
    attempt(finding_case(FOLDER / name), tmp_path)
