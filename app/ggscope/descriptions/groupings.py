"""What spans are grouped by, in words."""

from collections.abc import Mapping

from ggscope.model.selection import By

GROUPINGS: Mapping[By, str] = {
    "op": "op",
    "family": "op family",
    "name": "name",
    "layer": "layer",
    "token": "token",
    "thread": "thread",
    "phase": "phase",
    "engine": "engine",
    "backend": "backend",
    "lane": "lane",
    "tensor": "weight",
    "type": "weight type",
    "shape": "weight shape",
    "source": "memory source",
    "expert": "expert",
    "core": "core",
    "numa": "NUMA node",
    "category": "category",
    "launcher": "launching op",
    "bits": "bits",
    "bank": "SPM bank",
}
