"""Runs inside Pyodide for bytecode.mjs: imports what pages import and compiles the modules that this loaded.

`request` holds archives (names in /tmp, unpacked in site-packages), imports (modules) and whole (archives of which
every module is compiled). Leaves /tmp/bytecode.zip, with entries `archive/path/module.py`, and their number in
`compiled`.
"""

import ast
import importlib
import importlib.util
import sys
import sysconfig
import zipfile

# Not offered by a public function: the header that says "unchecked hash", so that no source and no date is asked for.
from importlib._bootstrap_external import _code_to_hash_pyc

STANDARD_LIBRARY = next(path for path in sys.path if path.endswith(".zip"))
SITE_PACKAGES = "/" + sysconfig.get_paths()["purelib"].lstrip("/")  # it begins with two

for name in request["imports"]:  # noqa: F821
    importlib.import_module(name)
loaded = {str(getattr(module, "__file__", None)) for module in list(sys.modules.values()) if request["imports"]}  # noqa: F821


def bytecode(text, place):
    """What Python would keep of a module, less the docstrings, which no page shows: they are a fifth of it."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body[:1] = [] if len(node.body) > 1 else [ast.copy_location(ast.Pass(), first)]
    code = compile(tree, place, "exec", dont_inherit=True, optimize=0)
    return bytes(_code_to_hash_pyc(code, importlib.util.source_hash(text), False))


compiled = 0
with zipfile.ZipFile("/tmp/bytecode.zip", "w") as result:
    for archive, source, root in [
        ("python_stdlib.zip", STANDARD_LIBRARY, STANDARD_LIBRARY),
        *((name, f"/tmp/{name}", SITE_PACKAGES) for name in request["archives"]),  # noqa: F821
    ]:
        with zipfile.ZipFile(source) as opened:
            for name in sorted(opened.namelist()):
                place = f"{root}/{name}"
                if not name.endswith(".py") or (place not in loaded and archive not in request["whole"]):  # noqa: F821
                    continue
                data = bytecode(opened.read(name), place)
                result.writestr(zipfile.ZipInfo(f"{archive}/{name}"), data)
                compiled += 1
