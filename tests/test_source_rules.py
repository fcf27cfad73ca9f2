"""Claims about the source: who imports whom, and that nothing feeds a readout whose bits depend on the platform."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "minigpt" / "reference.py"
MINIGPT = sorted((ROOT / "minigpt").rglob("*.py"))
EXPERIMENTS = sorted((ROOT / "widgets").glob("*/experiment.py"))
RUNTIME = sorted((ROOT / "widgets" / "_runtime").rglob("*.py"))
STDLIB = sys.stdlib_module_names
CLOCKS = {"time", "datetime", "timeit", "sched"}

FORBIDDEN_NUMPY = {
    *("dot", "vdot", "inner", "outer", "matmul", "einsum", "tensordot", "linalg", "convolve", "correlate", "fft"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "power", "float_power", "cbrt"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "arctanh", "arcsin", "arccos", "hypot"),
    *("prod", "geomspace", "logspace"),
}
FORBIDDEN_MATH = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "tanh", "sin", "cos", "tan", "erf", "erfc"),
    *("gamma", "lgamma", "hypot", "dist", "cbrt", "sinh", "cosh", "atan", "asin", "acos", "sumprod"),
}
OTHER_GENERATOR = {
    *(
        "normal",
        "standard_normal",
        "gumbel",
        "exponential",
        "gamma",
        "beta",
        "choice",
        "shuffle",
        "binomial",
        "poisson",
    ),
    *("uniform", "laplace", "logistic", "multinomial", "dirichlet", "geometric", "permuted", "bytes"),
}
ARRAY_MAKERS = {"zeros", "ones", "full", "empty", "arange", "array"}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written absolute"
            yield node.module


def outside(path, allowed):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [name for name in imported(tree) if not any(name == a or name.startswith(a + ".") for a in allowed)]


def test_the_rules_have_something_to_look_at():
    assert len(MINIGPT) >= 8
    assert len(EXPERIMENTS) >= 1
    assert len(RUNTIME) >= 5


@pytest.mark.parametrize("path", MINIGPT, ids=lambda path: path.stem)
def test_minigpt_imports_numpy_the_standard_library_and_itself(path):
    foreign = [name for name in outside(path, {"minigpt", "numpy"}) if name.split(".")[0] not in STDLIB]
    assert not foreign


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.parent.name)
def test_an_experiment_knows_neither_the_browser_nor_a_clock_nor_another_widget(path):
    foreign = outside(path, {"minigpt", "numpy"})
    assert not [name for name in foreign if name.split(".")[0] not in STDLIB]
    assert not [name for name in foreign if name.split(".")[0] in CLOCKS | {"random", "os", "subprocess", "threading"}]
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    assert not [
        node for node in calls if isinstance(node.func, ast.Name) and node.func.id in {"print", "open", "input"}
    ]


def test_only_the_bridge_knows_pyodide():
    for path in [*MINIGPT, *EXPERIMENTS, *RUNTIME]:
        browser = [n for n in outside(path, {"minigpt", "numpy"}) if n.split(".")[0] in {"js", "pyodide", "pyodide_js"}]
        assert not browser or path.name == "bridge.py", f"{path}: {browser}"


def test_lessons_name_widgets_and_widgets_never_name_lessons():
    slugs = [path.stem for path in (ROOT / "content").glob("*.md") if path.stem != "glossari"]
    assert len(slugs) >= 4
    for path in [*(ROOT / "widgets").glob("*/*.py"), *(ROOT / "widgets").glob("*/labels.toml")]:
        text = path.read_text(encoding="utf-8")
        assert not [slug for slug in slugs if f"/{slug}/" in text or f"{slug}.md" in text], path


def aliases_of(tree):
    """Local name → what it stands for, for NumPy, math and what is imported from them."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in ("numpy", "math"):
                    names[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module in ("numpy", "math"):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def platform_dependent(source):
    """Operations whose bits differ between platforms, as (line, what)."""
    tree = ast.parse(source)
    names = {"np": "numpy", "math": "math"} | aliases_of(tree)
    forbidden = {f"numpy.{name}" for name in FORBIDDEN_NUMPY} | {f"math.{name}" for name in FORBIDDEN_MATH}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "@"
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow) and not is_whole_power(node):
            yield node.lineno, "**"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            full = f"{names.get(node.value.id)}.{node.attr}"
            if full in forbidden:
                yield node.lineno, full
        elif isinstance(node, ast.Name) and names.get(node.id) in forbidden:
            yield node.lineno, names[node.id]
        elif isinstance(node, ast.ImportFrom) and node.module in ("numpy", "math"):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, full) for full in found if full in forbidden)
        if isinstance(node, ast.Call):
            yield from platform_dependent_call(node, names)


def is_whole_power(node):
    """Powers of whole constants are exact: 2**32."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    return all(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in sides)


def is_default_width(node):
    """`int`, whose width differs between platforms, as a dtype."""
    return isinstance(node, ast.Name) and node.id == "int"


def platform_dependent_call(node, names):
    method = isinstance(node.func, ast.Attribute)
    name = node.func.attr if method else getattr(node.func, "id", "")
    of_numpy = method and isinstance(node.func.value, ast.Name) and names.get(node.func.value.id) == "numpy"
    of_math = method and isinstance(node.func.value, ast.Name) and names.get(node.func.value.id) == "math"
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if name in ("hash", "pow") and not method:
        yield node.lineno, f"{name}()"
    if name == "sum" and not method and not counts(node.args[0]):
        yield node.lineno, "sum() of what may be floats: use math.fsum"
    if name in {"argsort", "sort"} and method:
        kind = keywords.get("kind")
        if not (isinstance(kind, ast.Constant) and kind.value == "stable"):
            yield node.lineno, f"{name} without kind='stable'"
    if method and not of_numpy and not of_math and name in {"dot", "prod"}:
        yield node.lineno, f".{name}()"
    if method and name in OTHER_GENERATOR:
        yield node.lineno, f"Generator.{name}"
    if of_numpy and name in ARRAY_MAKERS:
        positional = {"full": 3, "arange": 4}.get(name, 2)
        if "dtype" not in keywords and len(node.args) < positional:
            yield node.lineno, f"np.{name} without a dtype"
    if method and name == "cumsum" and "dtype" not in keywords:
        yield node.lineno, "cumsum without a dtype"
    if name == "integers" and "dtype" not in keywords:
        yield node.lineno, "integers without a dtype"
    if is_default_width(keywords.get("dtype")) or (of_numpy and any(map(is_default_width, node.args[1:]))):
        yield node.lineno, "a dtype of int"
    if method and name == "astype" and any(map(is_default_width, node.args)):
        yield node.lineno, "astype(int)"


def counts(argument):
    """True if sum() adds truth values, as in sum(a == b for …)."""
    element = argument.elt if isinstance(argument, ast.GeneratorExp | ast.ListComp) else argument
    if isinstance(element, ast.Call):
        return getattr(element.func, "id", "") in {"verify", "len", "int", "bool"}
    return isinstance(element, ast.Compare | ast.BoolOp)


@pytest.mark.parametrize(
    "path", [path for path in [*MINIGPT, *EXPERIMENTS] if path != REFERENCE], ids=lambda p: f"{p.parent.name}-{p.stem}"
)
def test_only_operations_with_the_same_bits_everywhere_feed_a_readout(path):
    found = list(platform_dependent(path.read_text(encoding="utf-8")))
    assert not found, "\n".join(f"{path}:{line}: {what}" for line, what in found)


@pytest.mark.parametrize(
    "source",
    [
        "a @ b",
        "np.dot(a, b)",
        "np.exp(x)",
        "x ** 0.5",
        "math.log(2)",
        "from math import exp",
        "sum(x for x in xs)",
        "np.argsort(x)",
        "np.sort(x)",
        "hash('a')",
        "np.zeros(3)",
        "np.arange(3)",
        "rng.normal(size=3)",
        "rng.integers(0, 3)",
        "np.cumsum(x)",
        "x.argsort()",
        "x.sort()",
        "x.dot(y)",
        "x.prod()",
        "x.cumsum()",
        "x **= 0.5",
        "pow(x, 0.5)",
        "from numpy import exp",
        "import numpy\nnumpy.exp(x)",
        "import math as m\nm.exp(x)",
        "x.astype(int)",
        "np.array([1], int)",
        "np.zeros(3, dtype=int)",
    ],
)
def test_the_rule_sees_what_it_forbids(source):
    assert list(platform_dependent(source))


@pytest.mark.parametrize(
    "source",
    [
        "2**32",
        "np.sqrt(x)",
        "np.argsort(x, kind='stable')",
        "sum(a == b for a in xs)",
        "np.zeros(3, dtype=np.float32)",
        "np.zeros(3, np.int32)",
        "rng.integers(0, 3, dtype=np.int64)",
        "math.fsum(xs)",
    ],
)
def test_the_rule_lets_through_what_is_exact(source):
    assert not list(platform_dependent(source))


def test_no_committed_file_names_a_registry_or_a_path_of_a_machine():
    import subprocess

    names = ["py" + "pi.org", "python" + "hosted", "npm" + "js.", "deb" + ".debian", "/wo" + "rk/", "/ho" + "me/"]
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    files = [ROOT / name for name in listing.decode().split("\0") if name]
    assert files
    for path in files:
        if path.is_file():
            text = path.read_bytes().decode("utf-8", errors="ignore")
            assert not [name for name in names if name in text], path
