"""`python -m pagedkv.course.figures [FOLDER]` draws every figure of every lesson again, as SVG and PNG.

Drawing twice changes no byte.
"""

import argparse
from pathlib import Path

from tqdm import tqdm

from pagedkv.arguments import command
from pagedkv.course.draw.show import save
from pagedkv.course.lessons import all_figures


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m pagedkv.course.figures", description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", metavar="FOLDER", type=Path, default="figures")
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in tqdm(all_figures().items(), desc="Figures", unit="figure", disable=None):
        picture, alt = draw()
        save(picture, folder / name, alt)
        tqdm.write(str(folder / name))


if __name__ == "__main__":
    command(main)
