"""What Triton's interpreter and its compiler say of a kernel, in words for someone who writes a first one."""

import ast
import linecache
import re

from pagedkv.course.judge.stub import definitions

MANY_ANSWERS = (
    "`if`, `while`, `and`, `or` and `not` ask one question, and a block holds many answers: use a mask or tl.where, "
    "and & and | with parentheses"
)
POWER = "tl.arange counts to a power of two only: take the next one, and mask the lanes that are too many"
CONSTANT = (
    "the size of a block must be known before the kernel runs: annotate that argument with tl.constexpr in the first "
    "line"
)
WHOLE_BLOCK = (
    "a block has no elements to pick, assign or walk over: work on all of it at once (tl.sum, tl.max, tl.where), or "
    "load the one number that you need"
)
SHAPES = (
    "blocks of these shapes do not fit together; pointers, mask and `other` of a load need one shape: [:, None] makes "
    "a column, [None, :] a row"
)
ADDRESSES = "that stores addresses: x + lane says where the numbers are, tl.load(x + lane) are the numbers"
ONLY_TL = "inside a kernel only tl's functions and @triton.jit functions work, nothing of torch, NumPy or Python's math"
GLOBAL = "the compiler sees no global variable of Python ({}): hand it over as an argument, a size as tl.constexpr"
LOOP_TYPE = (
    "a variable of a loop keeps the type that it starts with (here {} starts as a whole number): start it at 0.0, or a "
    "block with tl.zeros(..., tl.float32)"
)
ONE_NUMBER = (
    "a mask of many lanes stands beside the address of one number: each token looks up its own entry, so the pointers "
    "are a block too"
)
PRECEDENCE = (
    "in line {} of its cell `{}` binds closer than the comparison beside it: `a < b & c < d` asks a < (b & c) < d; put "
    "each comparison in parentheses, (a < b) & (c < d)"
)
NOTHING = "a kernel returns nothing: what it computes is stored with tl.store"

# What is said: what is told instead. `{}` is the first group.
SENTENCES = (
    ("range must be a power of 2|Shape element .* must be a power of 2", POWER),
    ("must be of type tl.constexpr|must be a constexpr|must be.*constexpr", CONSTANT),
    (
        "object is not iterable|'Name' object has no attribute 'func'|does not support item assignment|__setitem__",
        WHOLE_BLOCK,
    ),
    ("unsupported tensor index|is not subscriptable", WHOLE_BLOCK),
    (
        "Cannot make_shape_compatible|incompatible dimensions|could not be broadcast|cannot be broadcast|to have shape",
        SHAPES,
    ),
    (r"cannot cast|pointer<\w+>' (?:and|to)|invalid operands of type pointer", ADDRESSES),
    ("must be Tensor, not tensor|Unsupported function referenced|ufunc|must be real number, not tensor", ONLY_TL),
    (r"Cannot access global variable (\w+)", GLOBAL),
    (r"Loop-carried variable (\w+) has initial type", LOOP_TYPE),
    (r"unsupported AST node type: (\w+)", "the compiler knows no `{}` inside a kernel"),
    ("Mask argument cannot be block type", ONE_NUMBER),
    ("PassManager::run failed", NOTHING),
    ("Boolean value of Tensor", MANY_ANSWERS),
)


def in_words(message: str) -> str | None:
    """The sentence for what Triton said, or None where there is none."""
    for pattern, sentence in SENTENCES:
        if found := re.search(pattern, message):
            group = (found.group(1) if found.groups() else "") or ""
            return sentence.format(group.lower() if "knows no" in sentence else group)
    return None


def unparenthesised(kernel) -> str | None:
    """One sentence about a comparison in a kernel's source that `&` or `|` pulls apart, or None."""
    lines = [line.encode() for line in linecache.getlines(kernel.fn.__code__.co_filename)]
    for node in (node for found in definitions(kernel) for node in ast.walk(found) if isinstance(node, ast.Compare)):
        for side in (node.left, *node.comparators):
            if isinstance(side, ast.BinOp) and isinstance(side.op, (ast.BitAnd, ast.BitOr)):
                before = lines[side.lineno - 1][: side.col_offset].rstrip()
                behind = lines[side.end_lineno - 1][side.end_col_offset :].lstrip()
                if not (before.endswith(b"(") and behind.startswith(b")")):
                    return PRECEDENCE.format(side.lineno, "&" if isinstance(side.op, ast.BitAnd) else "|")
    return None


def raised(error: BaseException, line: int | None, quote: bool) -> str:
    """One sentence about what a kernel raised in a line of its cell. What Triton said is passed on if it is short, and
    if it holds no number or numbers may be quoted.
    """
    where = f"in line {line} of its cell" if line else ""
    if words := in_words(str(error)):
        return f"{where}: {words}".removeprefix(": ")
    said = last_line(str(error))
    passed = said and (quote or not any(c.isdigit() for c in said))
    return f"your kernel raises {type(error).__name__} {where}{f' ({said})' if passed else ''}".replace("  ", " ")


def refused(message: str, line: int | None) -> str:
    """The same about what the compiler refuses."""
    where = f"line {line} of its cell" if line else "it"
    words = in_words(message) or re.sub(r"^\w+\(['\"](.*)['\"]\)$", r"\1", last_line(message))
    return f"it is right in the interpreter, and the compiler for a GPU refuses {where}{words and ': '}{words}"


def last_line(message: str) -> str:
    """The last line, "" where it is long or holds an address."""
    last = message.strip().split("\n")[-1].strip()
    return "" if len(last) > 160 or "0x" in last else last
