"""`python -m pagedkv.course.figures [FOLDER]` draws every figure again, as SVG and PNG. Drawing twice changes no byte."""

import sys
from pathlib import Path

from pagedkv.course.draw.show import save
from pagedkv.course.lesson_2_2.pictures import FIGURES
from pagedkv.course.lesson_4_3.kernel_figures import KERNEL_FIGURES

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "figures")
folder.mkdir(parents=True, exist_ok=True)
for name, draw in (FIGURES | KERNEL_FIGURES).items():
    picture, alt = draw()
    save(picture, folder / name, alt)
    print(folder / name)
