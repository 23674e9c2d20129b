"""Write resources/ggml/types.json: ggml's tensor types, from the gguf package.

The package knows the types of today. Types that ggml has dropped are added from
ggml's own history, because files that use them are still about.
"""

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType

from ggscope.atomic_write import write_file

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "resources" / "ggml" / "types.json"

DROPPED = (
    (4, "q4_2", 16, 10),
    (5, "q4_3", 16, 12),
    (31, "q4_0_4_4", 32, 18),
    (32, "q4_0_4_8", 32, 18),
    (33, "q4_0_8_8", 32, 18),
    (36, "iq4_nl_4_4", 32, 18),
    (37, "iq4_nl_4_8", 32, 18),
    (38, "iq4_nl_8_8", 32, 18),
)
"""(number, name, elements of a block, bytes of a block) of ggml's dropped types."""


def ggml_name(name: str) -> str:
    """Return the name as ggml prints it: ``q4_K`` for ``Q4_K``, ``f16`` for ``F16``."""
    lower = name.lower()
    is_k_quant = lower.startswith("q") and lower.endswith("_k")
    return lower[:-1] + "K" if is_k_quant else lower


def table() -> dict[str, Any]:
    """Return the content of the file."""
    rows = [
        (number.value, ggml_name(number.name), *GGML_QUANT_SIZES[number], False)
        for number in GGMLQuantizationType
    ]
    rows += [(*row, True) for row in DROPPED]
    return {
        "source": f"gguf {version('gguf')}; dropped types from ggml's history",
        "types": [
            {
                "number": number,
                "name": name,
                "block": block,
                "bytes": size,
                **({"dropped": True} if dropped else {}),
            }
            for number, name, block, size, dropped in sorted(rows)
        ],
        "file_types": {
            str(kind.value): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
            for kind in LlamaFileType
            if kind.name != "GUESSED"
        },
    }


def text() -> str:
    """Return the file's text: one type a line, so that changes read well."""
    content = table()
    lines = ",\n".join(f"    {json.dumps(row)}" for row in content["types"])
    kinds = json.dumps(content["file_types"], indent=2).replace("\n", "\n  ")
    return (
        f'{{\n  "source": {json.dumps(content["source"])},\n'
        f'  "types": [\n{lines}\n  ],\n  "file_types": {kinds}\n}}\n'
    )


def main(argv: list[str] | None = None) -> int:
    """Write the file, or with ``--check`` report whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args(argv)
    if arguments.check:
        return 0 if TARGET.read_text("utf-8") == text() else 1
    write_file(TARGET, text().encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
