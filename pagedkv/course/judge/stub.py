"""Whether an answer was begun: read off the source of a function, so that every version of Python sees the same.

A function without source (from `exec`) counts as begun, and so does one of several in a line of which one is: it is
called, and told what it returns.
"""

import ast
import inspect
import linecache
import types
from functools import lru_cache

FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda


def is_stub(answer) -> bool:
    """None, `...`, a function whose body is `...` or pass, a class of such functions or of nothing at all, a container
    of nothing else.
    """
    if answer is None or answer is Ellipsis:
        return True
    if isinstance(answer, type):
        methods = [m for m in vars(answer).values() if isinstance(m, types.FunctionType)]
        blank = answer.__bases__ == (object,) and all(name.startswith("__") for name in vars(answer))
        return bool(methods or blank) and all(map(is_stub, methods))
    if isinstance(answer, (tuple, list, dict)):
        values = answer.values() if isinstance(answer, dict) else answer
        return bool(answer) and all(map(is_stub, values))
    found = definitions(answer) if callable(answer) else []
    return bool(found) and all(map(_does_nothing, found))


def has_gap(function) -> bool:
    """Whether a line `...` is left somewhere in a function."""
    return any(_is_gap(node) for found in definitions(function) for node in ast.walk(found))


def definitions(function) -> list[ast.AST]:
    """What the source has in the place of this function, or of a kernel's: one definition, or all lambdas of a line; []
    without source.
    """
    code = getattr(inspect.unwrap(getattr(function, "fn", function)), "__code__", None)
    if code is None:
        return []
    found = _functions("".join(linecache.getlines(code.co_filename)))
    return [node for node in found if (_first_line(node), _name(node)) == (code.co_firstlineno, code.co_name)]


@lru_cache(16)
def _functions(source: str) -> list[ast.AST]:
    try:
        return [node for node in ast.walk(ast.parse(source)) if isinstance(node, FUNCTIONS)]
    except SyntaxError:
        return []


def _first_line(node) -> int:
    decorators = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else node.lineno


def _name(node) -> str:
    return getattr(node, "name", "<lambda>")


def _does_nothing(function) -> bool:
    """A body of `...`, pass, `return None` and docstrings only."""
    if isinstance(function, ast.Lambda):
        return _is_nothing(function.body)
    return all(
        isinstance(statement, ast.Pass)
        or isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        or isinstance(statement, ast.Return)
        and (statement.value is None or _is_nothing(statement.value))
        for statement in function.body
    )


def _is_nothing(value) -> bool:
    return isinstance(value, ast.Constant) and value.value in (None, ...)


def _is_gap(node) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...
