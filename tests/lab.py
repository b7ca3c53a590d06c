"""JupyterLab on a folder, opened in headless Chromium: for the tests that need a real browser."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@contextmanager
def jupyter_lab(folder: Path, home: Path):
    """Serve `folder` with settings of its own under `home`; yields the address of the server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    options = [
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        f"--LabApp.workspaces_dir={home / 'workspaces'}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with (home / "lab.log").open("w") as log:
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, env=os.environ | places, stdout=log, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=1).close()
                break
            except OSError:
                time.sleep(0.25)
        else:
            raise RuntimeError((home / "lab.log").read_text())
        yield address
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def chromium(width: int = 1366, height: int = 900):
    """An empty page in headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        installed = shutil.which("chromium") or shutil.which(
            "chromium-browser"
        )  # else the one that playwright installed
        browser = playwright.chromium.launch(executable_path=installed, args=FLAGS)
        yield browser.new_page(viewport={"width": width, "height": height})
        browser.close()


@contextmanager
def notebook_page(address: str, name: str, width: int = 1366, height: int = 900):
    """A page that shows notebook `name` of the lab at `address`; no cell is run."""
    with chromium(width, height) as page:
        page.goto(f"{address}/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
        yield page


def wait_for_kernel(page) -> None:
    page.evaluate(
        """async () => {
          const panel = window.jupyterapp.shell.currentWidget;
          await panel.sessionContext.ready;
          await panel.sessionContext.session.kernel.info;
        }"""
    )


def run_all_cells(page) -> None:
    """Run every cell and wait until all are done, or one has failed."""
    wait_for_kernel(page)
    page.evaluate(
        """async () => {
          await window.jupyterapp.commands.execute('notebook:run-all-cells');
        }"""
    )
