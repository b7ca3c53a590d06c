"""`python -m pagedkv.draw [FOLDER]` draws every figure again, as SVG and PNG. Drawing twice changes no byte."""

import sys
from pathlib import Path

from pagedkv.draw.figures import FIGURES
from pagedkv.draw.kernel_figures import KERNEL_FIGURES
from pagedkv.draw.show import save

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "figures")
folder.mkdir(parents=True, exist_ok=True)
for name, draw in (FIGURES | KERNEL_FIGURES).items():
    picture, alt = draw()
    save(picture, folder / name, alt)
    print(folder / name)
