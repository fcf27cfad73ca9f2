"""The package's build hook: compiles the kernel for this machine and puts it into the wheel, beside its source."""

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # By its path: importing the package would need NumPy, which an isolated build does not have.
        source = Path(self.root, "minigpt", "kernel", "build.py")
        spec = importlib.util.spec_from_file_location("kernel_build", source)
        if spec is None or spec.loader is None:
            raise RuntimeError(f"{source} is missing")
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        library = build.compiled_path()
        if not library.exists():
            build.build_native(library)
        build_data["artifacts"].append(f"/minigpt/kernel/_build/{library.name}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
