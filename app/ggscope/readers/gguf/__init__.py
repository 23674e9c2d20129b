"""GGUF model files: what a model holds and where its tensors lie."""

from ggscope.readers.api import Option, ReaderInfo

HEADER_OPTION = "header"
WALK, PACKAGE = "walk", "package"
INFO = ReaderInfo(
    "gguf",
    "GGUF model file",
    (".gguf",),
    "A model of llama.cpp: its metadata and the places of its tensors.",
    (
        Option(
            name=HEADER_OPTION,
            doc="walk (default): our own reader; package: the gguf package, undamaged "
            "heads only",
            choices=(WALK, PACKAGE),
            default=WALK,
        ),
    ),
    role="model",
    magic=(b"GGUF",),
)
