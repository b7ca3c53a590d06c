"""`python -m pagedkv.course.figures [FOLDER]` draws every figure of every lesson again, as SVG and PNG.

Drawing twice changes no byte.
"""

import sys
from pathlib import Path

from tqdm import tqdm

from pagedkv.course.draw.show import save
from pagedkv.course.lessons import all_figures

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "figures")
folder.mkdir(parents=True, exist_ok=True)
for name, draw in tqdm(all_figures().items(), desc="Figures", unit="figure", disable=None):
    picture, alt = draw()
    save(picture, folder / name, alt)
    tqdm.write(str(folder / name))
