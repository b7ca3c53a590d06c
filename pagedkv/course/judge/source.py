"""A part of a notebook as a module of its own: the source of a class, function or kernel, and each name of the notebook
that it uses, namely imports, constants, and functions and classes written in cells.

Which names those are is read from the source, not from a run. Anything else, such as a tensor or a pool, is refused: it
would be another one in the next lesson.
"""

import ast
import builtins
import inspect
import linecache
import symtable
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

from pagedkv.course.judge.compare import kind


class NotKept(Exception):
    """Why a part cannot be kept, in words that follow "not kept: "."""


def text_of(part) -> str:
    """A module that defines the part and all that it needs, and ends in `kept = ...`."""
    module = _Module()
    name = module.define(part)
    body = [*sorted(module.imports), *([""] if module.imports else []), *module.definitions]
    return "\n".join(
        [f'"""Kept by keep({name}) when its check had given every point."""', "", *body, f"kept = {name}", ""]
    )


class _Module:
    def __init__(self):
        self.imports, self.definitions, self.names = set(), [], {}  # names: what is bound already, and to what

    def define(self, value, scope: dict | None = None) -> str:
        """Add a class or function that was written in a cell, after what it uses; return its name. `scope` is the
        notebook's names, where no method of a class says it.
        """
        node, source = _definition(value)
        if self.names.get(node.name, value) is not value:
            raise NotKept(f"two things called {node.name} are used; give one of them another name")
        if node.name not in self.names:
            self.names[node.name] = value
            scope = next((f.__globals__ for f in _functions(value)), scope or {})
            for name in sorted(_globals(source)):
                if name in scope and name != node.name:
                    self.bind(name, scope[name], scope)
            self.definitions += ["", source.rstrip("\n"), ""]
        return node.name

    def bind(self, name: str, value, scope: dict) -> None:
        """Make `name` mean `value` in the module: an import, a constant, or something written in a cell."""
        if name in self.names or (not name.startswith("__") and getattr(builtins, name, self) is value):
            return
        if line := _import(name, value):
            self.imports.add(line)
        elif literal := _literal(value):
            self.definitions.append(f"{name} = {literal}")
        elif isinstance(getattr(value, "fn", value), (type, FunctionType)):
            defined = self.define(value, scope)
            if name != defined:
                self.definitions.append(f"{name} = {defined}")
        else:
            raise NotKept(
                f"it uses {name}, {kind(value)} of the notebook; hand it over as an argument, or make it inside"
            )
        self.names[name] = value


def _import(name: str, value) -> str | None:
    if isinstance(value, ModuleType):
        return f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
    for module, own in _imports_of_cells(name):
        if getattr(sys.modules.get(module), own, None) is value:
            return f"from {module} import {own}" + (f" as {name}" if name != own else "")
    own = getattr(value, "__name__", name)
    for module in (getattr(value, "__module__", None), "torch", "numpy"):
        if module not in (None, "__main__") and not str(module).startswith("mine_") and module in sys.modules:
            if getattr(sys.modules[module], own, None) is value:
                return f"from {module} import {own}" + (f" as {name}" if name != own else "")
    return None


def _imports_of_cells(name: str) -> Iterator[tuple[str, str]]:
    """(module, its name there) for each `from ... import` that gives something this name in a cell, the last first."""
    for file in [file for file in linecache.cache if not Path(file).exists()][::-1]:
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from ((node.module, alias.name) for alias in node.names if (alias.asname or alias.name) == name)


def _literal(value) -> str | None:
    """How a constant is written: numbers, strings, and lists, tuples, sets and dicts of them."""
    try:
        return repr(value) if ast.literal_eval(repr(value)) == value else None
    except (SyntaxError, ValueError, TypeError):
        return None


def _functions(value) -> list[FunctionType]:
    """A function or kernel itself; of a class its methods that stand in a file or cell."""
    if not isinstance(value, type):
        return [inspect.unwrap(getattr(value, "fn", value))]
    members = (getattr(member, "fget", None) or getattr(member, "__func__", member) for member in vars(value).values())
    found = [inspect.unwrap(member) for member in members if callable(member)]
    own = (f for f in found if isinstance(f, FunctionType) and f.__module__ == value.__module__)
    files = (
        (f, f.__code__.co_filename) for f in own
    )  # a dataclass's methods are of "<string>", which python -c is too
    return [f for f, file in files if file != "<string>" and linecache.getlines(file)]


def _definition(value) -> tuple[ast.AST, str]:
    """The definition of a class or function at the top of a cell, and its source. Raises NotKept that says what else it
    is.
    """
    functions = [f for f in _functions(value) if hasattr(f, "__code__")]
    name = getattr(getattr(value, "fn", value), "__name__", "it")
    if name == "<lambda>":
        raise NotKept("a lambda has no name to be stored under; write it with def")
    files = [f.__code__.co_filename for f in functions] or list(linecache.cache)[::-1]  # a class without methods
    line = functions[0].__code__.co_firstlineno if functions else None
    for file in files:
        source = "".join(linecache.getlines(file))
        try:
            body = ast.parse(source).body
        except SyntaxError:
            continue
        for node in body:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            if getattr(node, "name", None) == name and (line is None or first <= line <= node.end_lineno):
                return node, "".join(source.splitlines(keepends=True)[first - 1 : node.end_lineno])
    raise NotKept(f"{name} is not written at the top of a cell, where its source can be read; write it there")


def _globals(source: str) -> set[str]:
    """The names that a piece of source reads from the module around it."""
    found, tables = set(), [symtable.symtable(source, "cell", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        top = table.get_type() == "module"
        found |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global())}
    return found
