"""Runs inside Pyodide for bytecode.mjs: imports what pages import and compiles the modules that this loaded.

/tmp/request.json holds archives (names in /tmp, unpacked in site-packages), imports (modules), whole (archives of which
every module is compiled) and documented (sources that keep their docstrings). Leaves /tmp/bytecode.zip, with entries
`archive/path/module.py`, and their number in `compiled`.
"""

import ast
import importlib
import importlib.util
import json
import marshal
import sys
import sysconfig
import zipfile
from pathlib import Path

UNCHECKED_HASH = (0b01).to_bytes(4, "little")
"""PEP 552: neither the source nor its date is asked for."""
request = json.loads(Path("/tmp/request.json").read_text(encoding="utf-8"))
STANDARD_LIBRARY = next(path for path in sys.path if path.endswith(".zip"))
SITE_PACKAGES = "/" + sysconfig.get_paths()["purelib"].lstrip("/")  # it begins with two

for name in request["imports"]:
    importlib.import_module(name)
modules = list(sys.modules.values()) if request["imports"] else []
loaded = {str(getattr(module, "__file__", None)) for module in modules}


def bytecode(text, place, documented):
    """What Python would keep of a module, less the docstrings, which no page shows: they are a fifth of it."""
    tree = ast.parse(text)
    for node in [] if documented else ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body[:1] = [] if len(node.body) > 1 else [ast.copy_location(ast.Pass(), first)]
    code = compile(tree, place, "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + UNCHECKED_HASH + importlib.util.source_hash(text) + marshal.dumps(code)


compiled = 0
with zipfile.ZipFile("/tmp/bytecode.zip", "w") as result:
    for archive, source, root in [
        ("python_stdlib.zip", STANDARD_LIBRARY, STANDARD_LIBRARY),
        *((name, f"/tmp/{name}", SITE_PACKAGES) for name in request["archives"]),
    ]:
        with zipfile.ZipFile(source) as opened:
            for name in sorted(opened.namelist()):
                place = f"{root}/{name}"
                if not name.endswith(".py") or (place not in loaded and archive not in request["whole"]):
                    continue
                data = bytecode(opened.read(name), place, name in request["documented"])
                result.writestr(zipfile.ZipInfo(f"{archive}/{name}"), data)
                compiled += 1
