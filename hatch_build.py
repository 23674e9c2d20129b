"""Compile the optional C kernels when the package is built or installed editable.

Without a compiler the package works all the same, only slower.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Each source becomes a shared library of its own beside the module that loads it.
KERNELS = {
    "app/ggscope/native/columns.c": "app/ggscope/native/_columns.so",
    "app/ggscope/native/heat.c": "app/ggscope/native/_heat.so",
    "app/ggscope/native/rows.c": "app/ggscope/native/_rows.so",
    "app/ggscope/native/merge.c": "app/ggscope/native/_merge.so",
    "app/ggscope/native/order.c": "app/ggscope/native/_order.so",
    "app/ggscope/native/reuse.c": "app/ggscope/native/_reuse.so",
    "app/ggscope/native/stats.c": "app/ggscope/native/_stats.so",
    "app/ggscope/native/ggmlviz_walk.c": "app/ggscope/native/_ggmlviz_walk.so",
    "app/ggscope/native/json_repeats.c": "app/ggscope/native/_json_repeats.so",
    "app/ggscope/native/npu_scan.c": "app/ggscope/native/_npu_scan.so",
    "app/ggscope/native/tensor_scan.c": "app/ggscope/native/_tensor_scan.so",
}


class CompiledKernels(BuildHookInterface):
    """Builds the shared libraries of the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before files are collected; leave the wheel pure where it fails."""
        if self.target_name != "wheel":
            return
        built = compile_kernels(Path(self.root))
        if built:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data.setdefault("artifacts", []).extend(built)


def compile_kernels(root: Path) -> list[str]:
    """Compile every kernel; return the libraries that could be built."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    command = compiler.split()
    if shutil.which(command[0]) is None:
        command = ["cc"]
    if shutil.which(command[0]) is None:
        sys.stderr.write("ggscope: no C compiler; the numpy paths will be used\n")
        return []
    return [
        target
        for source, target in KERNELS.items()
        if (root / source).is_file() and _compile(command, root / source, root / target)
    ]


def _compile(command: list[str], source: Path, target: Path) -> bool:
    """Compile one source; the library appears whole or not at all."""
    shared = ["-dynamiclib"] if sys.platform == "darwin" else ["-shared"]
    fresh = target.with_suffix(".new")
    done = subprocess.run(
        [*command, "-O3", "-std=c11", "-Wall", "-Wextra", "-fPIC",
         "-fvisibility=hidden", "-pthread", *shared, str(source), "-o", str(fresh)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.stderr.write(f"ggscope: {source.name} does not compile:\n{done.stderr}\n")
        return False
    fresh.replace(target)
    return True


if __name__ == "__main__":
    sys.stdout.write("\n".join([*compile_kernels(Path(__file__).parent), ""]))
