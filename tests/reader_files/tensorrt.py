"""Files of tensorrt."""

import tensorrt_files
from reader_files import Names, ReaderFiles


def _seeds(n: int) -> list[tuple[str, bytes]]:
    """Return trtexec's exports of `n` layers."""
    made = tensorrt_files.layers(1, n)
    return [
        ("profile.json", tensorrt_files.profile(made)),
        ("layers.json", tensorrt_files.layer_info(made)),
    ]


def _hostile(names: Names) -> bytes:
    return tensorrt_files.layer_info(tensorrt_files.layers(1, 20, names=names))


FILES = (
    ReaderFiles(
        "tensorrt",
        valid=(
            "profile.json",
            lambda: tensorrt_files.profile(tensorrt_files.layers(1)),
        ),
        seeds=lambda: _seeds(9),
        small_seeds=lambda: _seeds(2),
        hostile=(".json", _hostile),
    ),
)
