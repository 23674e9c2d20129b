"""Compile the C files when the package is built or installed editable.

A wheel holds the library for one platform and any Python 3: nothing in it depends on
the interpreter.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.tags import sys_tags

sys.path.insert(0, str(Path(__file__).parent / "capture"))
sys.path.insert(0, str(Path(__file__).parent / "app"))
sys.path.append(str(Path(__file__).parent / "packaging"))

from readme_links import with_absolute_links

from ggscope.native.build import BuildError, compile_library
from ggscope.native.declared import FOLDER, NAME
from ggscope_capture.native import build as tracer


class AbsoluteReadme(MetadataHookInterface):
    """Gives the package README.md with links that work outside of a checkout."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the text that PyPI shows."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        home = metadata["urls"]["Homepage"]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, home),
        }


class CompiledLibrary(BuildHookInterface):
    """Builds the library, without which the package does not work."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before files are collected; give up where that is not possible."""
        if self.target_name != "wheel":
            return
        target = FOLDER / NAME
        try:
            compile_library(target)
        except BuildError as error:
            self.app.abort(f"ggscope: {error}")
        platform = next(
            tag.platform
            for tag in sys_tags()
            if "manylinux" not in tag.platform and "musllinux" not in tag.platform
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        artifacts = build_data.setdefault("artifacts", [])
        artifacts.append(target.relative_to(Path(self.root).resolve()).as_posix())
        libraries = [(tracer.NAME, tracer.compile_tracer)]
        if sys.platform == "linux":
            libraries.append((tracer.CUDA_NAME, tracer.compile_cuda_hook))
        for name, compiled in libraries:
            target = tracer.FOLDER / name
            try:
                compiled(target)
            except tracer.BuildError as error:
                # The viewer works without it; recording says what is missing.
                self.app.display_warning(f"ggscope: {error}")
            else:
                path = target.relative_to(Path(self.root).resolve())
                artifacts.append(path.as_posix())
