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

SOURCE = Path("app/ggscope/analysis/columns.c")
TARGET = Path("app/ggscope/analysis/_columns.so")


class CompiledKernels(BuildHookInterface):
    """Builds ``_columns.so`` beside its Python module."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before files are collected; leave the wheel pure where it fails."""
        root = Path(self.root)
        if self.target_name != "wheel" or not _compiled(root):
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data.setdefault("artifacts", []).append(str(TARGET))


def _compiled(root: Path) -> bool:
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    command = compiler.split()
    if shutil.which(command[0]) is None:
        command = ["cc"]
    if shutil.which(command[0]) is None:
        sys.stderr.write("ggscope: no C compiler; the numpy paths will be used\n")
        return False
    shared = ["-dynamiclib"] if sys.platform == "darwin" else ["-shared"]
    done = subprocess.run(
        [*command, "-O2", "-fPIC", "-fvisibility=hidden", *shared,
         str(root / SOURCE), "-o", str(root / TARGET)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.stderr.write(f"ggscope: compiling failed, numpy is used:\n{done.stderr}\n")
    return done.returncode == 0
