"""What NVIDIA's trtexec exports of an engine: times of layers, and what layers are."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "tensorrt",
    "TensorRT layers",
    (".json",),
    "JSON of NVIDIA's trtexec: --exportProfile has the time of each layer over all "
    "runs, --exportLayerInfo has types, shapes and formats.",
    keys=("averageMs", "Layers"),
)
