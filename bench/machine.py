"""Where and with what a run was measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system, and how busy it was: nothing that says whose machine it is."""
    info = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return {
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(int(memory[1]) / 1e6, 1) if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "load_at_end": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in ("numpy", "torch", "jax", "jaxlib", "onnxruntime-training-cpu", "ziglang", "playwright"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit(root: Path) -> dict[str, Any]:
    """The commit measured, and whether tracked files differ from it or new ones lie beside it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    return {"id": git("rev-parse", "HEAD") or "unknown", "changed": bool(git("status", "--porcelain"))}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
