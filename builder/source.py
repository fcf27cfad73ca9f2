"""Excerpts of the course's own code, cut by name so that they cannot go stale, and highlighted by Pygments."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound


class MissingExcerpt(LookupError):
    """The named module or object is not in the sources; the message says which names there are."""


def excerpt(name: str, root: Path) -> str:
    """Source text of `package.module` or `package.module:object` (`Class.method` too), dedented.

    root: the folder that holds the packages. Raises MissingExcerpt.
    """
    module, _, wanted = name.partition(":")
    base = root.joinpath(*module.split("."))
    path = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
    if not path.is_file():
        raise MissingExcerpt(f"there is no module {module} (looked for {base.with_suffix('.py').relative_to(root)})")
    text = path.read_text(encoding="utf-8")
    if not wanted:
        return text
    scope: list[ast.stmt] = ast.parse(text).body
    found: ast.stmt | None = None
    for part in wanted.split("."):
        names = {}
        for node in scope:
            for defined in _names(node):
                names[defined] = node
        if part not in names:
            raise MissingExcerpt(f"{module} defines no {wanted!r}; it has: {', '.join(sorted(names)) or 'nothing'}")
        found = names[part]
        scope = getattr(found, "body", [])
    assert found is not None
    first = min([found.lineno, *(node.lineno for node in getattr(found, "decorator_list", []))])
    lines = text.splitlines()[first - 1 : found.end_lineno]
    return textwrap.dedent("\n".join(lines)) + "\n"


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def highlighted(code: str, language: str = "python") -> str:
    """HTML of a code block; colours come from theme/code.css. Unknown languages are shown plain."""
    try:
        lexer = get_lexer_by_name(language or "text", stripnl=True)
    except ClassNotFound:
        lexer = get_lexer_by_name("text", stripnl=True)
    inner = highlight(code, lexer, HtmlFormatter(nowrap=True))
    kind = "code code-text" if language in ("", "text") else "code"
    return f'<pre class="{kind}" tabindex="0"><code>{inner.rstrip()}</code></pre>'
