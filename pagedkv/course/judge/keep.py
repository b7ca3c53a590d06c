"""`keep(MyPool)` stores an answer that has every point of its check; `mine("pool")` gives it to later lessons.

What is kept is its source and what that needs (see `source`), stored as notebooks/mine/NAME.py, which git ignores, and
loaded as a module of its own. Where nothing is kept, `mine` gives the package's part and says so.

In CI and while the stored editions are built a temporary folder stands in for that one, so that what a learner has kept
changes no stored output.
"""

import importlib.util
import linecache
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

from pagedkv.arguments import one_of
from pagedkv.course.judge import beside
from pagedkv.course.judge.exercise import Exercise, Role
from pagedkv.course.judge.source import NotKept, text_of
from pagedkv.course.lessons import all_exercises

_passed: dict[str, object] = {}  # name of a role -> the answer that has every point, in this kernel


def remember_passed(exercise: Exercise, answer) -> None:
    """Note an answer that got every point of its exercise, so that `keep` takes it."""
    role = exercise.role
    if role:
        _passed[role.name] = answer if role.of is None else answer[role.of]


def keep(part) -> None:
    """Store a class, function or kernel that has every point of its check, and say so in one line."""
    name = next((name for name, answer in _passed.items() if answer is part), None)
    if name is None:
        print("not kept: check it first; only an answer with every point of its check is kept")
        return
    try:
        _store(_role(name), text_of(part))
    except NotKept as reason:
        print(f"not kept: {reason}")
    else:
        print(f'{name}: kept, for mine("{name}") in later lessons')


def mine(*names: str):
    """The kept part of this name, else the package's; a tuple where several are asked for.

    Several are meant to work together, so they are all the learner's or all the package's. Raises ValueError where no
    exercise has a part of that name.
    """
    roles, folder, parts, lacking = [_role(name) for name in names or (None,)], _folder(), [], {}
    for role in roles:
        try:
            parts.append(_load(role, folder and folder / f"{role.name}.py"))
        except NotKept as reason:
            lacking.setdefault(str(reason), []).append(role.name)
    if not lacking:
        print(f"{', '.join(names)}: yours")
    else:
        parts = [role.package() for role in roles]
        reasons = "; ".join(f"{', '.join(them)} {reason}" for reason, them in lacking.items())
        print(f"{', '.join(names)}: the package's (yours: {reasons})")
    return parts[0] if len(parts) == 1 else tuple(parts)


def _role(name: str) -> Role:
    roles = {e.role.name: e.role for exercises in all_exercises().values() for e in exercises if e.role}
    return roles[one_of("name", name, roles)]


# the folder


@cache
def _of_this_process() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="mine-")


def _folder() -> Path | None:
    """A temporary folder in CI where PAGEDKV_MINE names none; else the one of what a learner keeps."""
    try:
        return beside.mine() or (Path(_of_this_process().name) if os.environ.get("CI") else None)
    except OSError:  # nowhere to write
        return None


def _store(role: Role, text: str) -> None:
    """Write the part, unless it does not load; an earlier one is replaced in one step."""
    folder, file = _folder(), None
    if folder is None:
        raise NotKept("the learner's notebooks are not in this folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".py", delete=False, encoding="utf-8") as file:
            file.write(text)
        _load(role, Path(file.name))
        os.replace(file.name, folder / f"{role.name}.py")
        file = None
    except NotKept as reason:
        raise NotKept(f"your {role.name} {reason} in a module of its own") from None
    except OSError as error:
        raise NotKept(f"the folder of the notebooks cannot be written ({type(error).__name__})") from None
    finally:
        if file is not None:
            Path(file.name).unlink(missing_ok=True)


def _load(role: Role, path: Path | None):
    """The part in a file, run as a module of its own. Raises NotKept where there is none, or one of no use."""
    if path is None or not path.is_file():
        raise NotKept("not kept")
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(f"mine_{role.name}", path)
    module = importlib.util.module_from_spec(spec)
    before, sys.modules[spec.name] = sys.modules.get(spec.name), module  # a dataclass looks its module up
    try:
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), vars(module))
        part = module.kept
    except Exception as error:
        sys.modules.pop(spec.name)
        if before:
            sys.modules[spec.name] = before
        raise NotKept(f"does not load ({type(error).__name__})") from None
    missing = [method for method in role.methods if not callable(getattr(part, method, None))]
    if missing or not callable(getattr(part, "run", part)):
        raise NotKept(f"has no {missing[0]}" if missing else "cannot be called")
    return part
