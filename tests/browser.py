"""Pages in headless Chromium."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
IN_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH (Debian: apt-get install chromium)"),
]


def document(address: str, folder: Path) -> str:
    """The page at an address, as HTML, when its scripts have done their work; the browser's profile is in `folder`.

    A browser that hangs, as headless ones rarely do on a busy machine, is started once more.
    """
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"]
    options += [f"--user-data-dir={folder / 'profile'}", "--window-size=1320,1000"]
    command = [str(CHROMIUM), *options, address]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    except subprocess.TimeoutExpired:
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    return done.stdout.decode()
