"""Small slips in a solution, one at a time: the mutants that an exercise's check has to tell from it."""

import ast
from collections.abc import Iterator
from copy import deepcopy

OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitOr: ast.BitAnd, ast.USub: ast.UAdd,
}  # fmt: skip
NAMES = {"max": "min", "min": "max", "ceil": "floor", "all": "any", "any": "all", "maximum": "minimum"}


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """(what was changed, the changed code) for every slip that fits somewhere between `### BEGIN SOLUTION` and
    `### END SOLUTION`.
    """
    tree, solved, inside = ast.parse(source), set(), False
    for number, line in enumerate(source.split("\n"), 1):
        inside = "### BEGIN SOLUTION" in line or inside and "### END SOLUTION" not in line
        solved |= {number} if inside else set()
    for number, node in enumerate(ast.walk(tree)):
        for line, change in _changes(node):
            if line in solved:
                copy = deepcopy(tree)
                target = list(ast.walk(copy))[number]
                before = ast.unparse(target)
                change(target)
                yield f"{before} → {ast.unparse(target)}", ast.unparse(ast.fix_missing_locations(copy))


def _changes(node) -> Iterator:
    """(line, function that changes a node like this one in place)."""
    line = getattr(node, "lineno", 0)
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.AugAssign)) and type(node.op) in OPERATORS:
        yield line, lambda n: setattr(n, "op", OPERATORS[type(n.op)]())
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in OPERATORS:
                yield line, lambda n, i=i: n.ops.__setitem__(i, OPERATORS[type(n.ops[i])]())
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield line, lambda n: setattr(n, "value", n.value + 1)
        yield line, lambda n: setattr(n, "value", n.value - 1)
    if isinstance(node, ast.Constant) and type(node.value) in (bool, str):
        yield line, lambda n: setattr(n, "value", not n.value if isinstance(n.value, bool) else n.value + "x")
    if isinstance(node, ast.Name) and node.id in NAMES:
        yield line, lambda n: setattr(n, "id", NAMES[n.id])
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield line, lambda n: setattr(n, "attr", NAMES[n.attr])
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield line, lambda n: setattr(n, "test", ast.Constant(False))
        if not isinstance(node, ast.While):
            yield line, lambda n: setattr(n, "test", ast.Constant(True))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield node.iter.lineno, lambda n: n.ifs.clear()
    if isinstance(node, ast.Return) and not (
        node.value is None or isinstance(node.value, ast.Constant) and node.value.value is None
    ):
        yield line, lambda n: setattr(n, "value", ast.Constant(None))
    for field in ("body", "orelse"):
        statements = getattr(node, field, None)
        for i, statement in enumerate(statements if isinstance(statements, list) else ()):
            if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr)) and not isinstance(node, ast.Module):
                yield statement.lineno, lambda n, f=field, i=i: getattr(n, f).__setitem__(i, ast.Pass())
