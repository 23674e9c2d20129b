"""GGUF model files: what a model holds and where its tensors lie."""

from ggscope.readers.api import Option, ReaderInfo

HEADER_OPTION = "header"
WALK, PACKAGE = "walk", "package"
INFO = ReaderInfo(
    "gguf",
    "GGUF model file",
    (".gguf",),
    "A model of llama.cpp: its metadata and the offsets of its tensors.",
    (
        Option(
            name=HEADER_OPTION,
            doc="walk (default): built-in reader; package: the gguf package, "
            "undamaged headers only",
            choices=(WALK, PACKAGE),
            default=WALK,
        ),
    ),
    role="model",
    magic=(b"GGUF",),
)
