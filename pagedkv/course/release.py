"""`python -m pagedkv.course.release` zips the course as one version: pagedkv-VERSION.zip, of what is committed.

In it lie `course/`, the whole with its solutions, for the teacher; `handout.zip`, as `make handout` has made it, for
learners; and `book/`, the web book of the handout, to read or to put on a server. The same commit gives the same bytes.
The version stands in `pagedkv/__init__.py`, and its tag is v and the version: where another commit has that tag nothing
is made, where none has it the zip is, and what would set it is said.
"""

import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from tqdm import tqdm

from pagedkv.arguments import command

ROOT = Path(__file__).parents[2]
VERSION = import_module("pagedkv").__version__
NAME, TAG = f"pagedkv-{VERSION}", f"v{VERSION}"


class Refused(Exception):
    """Why nothing is made, in one sentence."""


def git(*arguments: str) -> bytes:
    """What git prints; nothing where it fails."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True).stdout


def tagged(commit: str) -> bool:
    """Whether this commit has the version's tag. Raises Refused where another one has it."""
    other = git("rev-parse", "--quiet", "--verify", f"refs/tags/{TAG}^{{commit}}").decode().strip()
    if other not in ("", commit):
        raise Refused(f"{TAG} is commit {other[:7]}: check that out, or raise __version__ in pagedkv/__init__.py")
    return other == commit


def handout(commit: str) -> bytes:
    """handout.zip, which must be of this commit; git archive leaves its id as a comment."""
    path = ROOT / "handout.zip"
    if not path.exists() or ZipFile(path).comment.decode() != commit:
        raise Refused("handout.zip is not of this commit: run `make release`, which makes it first")
    return path.read_bytes()


def book(content: bytes, commit_time: int) -> dict[str, bytes]:
    """The files of the web book of a handout, by name."""
    with tempfile.TemporaryDirectory() as folder:
        ZipFile(BytesIO(content)).extractall(folder)
        course, html = Path(folder) / "pagedkv", Path(folder) / "html"
        setting = {"PYTHONPATH": str(course), "SOURCE_DATE_EPOCH": str(commit_time), "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "pagedkv.course.book", str(html)]
        if subprocess.run(command, cwd=course, env=os.environ | setting).returncode:
            raise Refused("the web book of the handout could not be built; what is wrong stands above")
        paths = [path for path in html.rglob("*") if path.is_file() and ".doctrees" not in path.parts]
        return {path.relative_to(html).as_posix(): path.read_bytes() for path in paths if path.name != ".buildinfo"}


def course(commit: str) -> dict[str, tuple[bytes, int]]:
    """(content, mode) of every committed file, by name."""
    with ZipFile(BytesIO(git("archive", "--format=zip", commit))) as archive:
        return {
            one.filename: (archive.read(one), one.external_attr >> 16) for one in archive.infolist() if not one.is_dir()
        }


def store(path: Path, files: dict[str, tuple[bytes, int]], seconds: int) -> None:
    """Write a zip in one step; its bytes depend on nothing but these files and this time."""
    part, date = path.with_name(f".{path.name}.{os.getpid()}.part"), time.gmtime(seconds)[:6]
    try:
        with ZipFile(part, "w") as archive:
            for name in tqdm(sorted(files), desc="Zip", unit="file", disable=None):
                content, mode = files[name]
                info = ZipInfo(f"{NAME}/{name}", date)
                info.compress_type, info.external_attr, info.create_system = ZIP_DEFLATED, (mode or 0o100644) << 16, 3
                archive.writestr(info, content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def main() -> int:
    try:
        commit = git("rev-parse", "HEAD").decode().strip()
        if not commit or git("status", "--porcelain"):
            raise Refused("a release is made of what is committed: commit your changes first")
        has_tag, given = tagged(commit), handout(commit)
        seconds = int(git("log", "-1", "--format=%ct", commit))
        files = {f"course/{name}": of for name, of in course(commit).items()}
        files |= {f"book/{name}": (content, 0) for name, content in book(given, seconds).items()}
        path = ROOT / f"{NAME}.zip"
        store(path, files | {"handout.zip": (given, 0)}, seconds)
    except (Refused, OSError) as refused:
        print(f"no release: {refused}")
        return 1
    print(
        f"{path.name}, {path.stat().st_size / 1e6:.0f} MB: course/ with its solutions, handout.zip for learners, book/"
    )
    if not has_tag:
        print(f"this commit has no tag {TAG} yet; to set it: git tag {TAG}")
    return 0


if __name__ == "__main__":
    command(main)
