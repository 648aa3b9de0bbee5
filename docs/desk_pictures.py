"""Draw the pictures of `docs/desk.md`: python docs/desk_pictures.py [CODER] (default: the coder of `make demo`).

The desk runs over a store that lasts as long as this; Chromium decides on six codes and looks at them.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent / "desk"
CODER = "runs/demo/plant-demo/coder"
CHROMIUM = "/usr/bin/chromium"
STEPS = ("a", "j", "a", "j", "a", "j", "r", "j", "a", "j", "Enter")  # four accepted, one rejected, the sixth in sight
SELECT = """() => {
  const words = document.querySelector('#why mark').textContent;
  const pieces = document.createTreeWalker(document.querySelector('#text'), NodeFilter.SHOW_TEXT);
  for (let node; (node = pieces.nextNode()); ) {
    const at = node.data.indexOf(words);
    if (at >= 0) return getSelection().setBaseAndExtent(node, at, node, at + words.length);
  }
}"""


@contextmanager
def desk(coder: str) -> Iterator[str]:
    """The address of a desk with demo notes, as long as the block lasts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    plant = [sys.executable, "-c", "from plant.cli.main import main; main()", "serve", coder, "--notes", "demo"]
    with TemporaryDirectory() as folder:
        store = ["--store", f"{folder}/desk.sqlite", "--port", str(port), "--name", "coder"]
        with subprocess.Popen([*plant, *store]) as service:
            address = f"http://127.0.0.1:{port}/"
            while not _is_ready(address):
                time.sleep(0.2)
            yield address
            service.terminate()


def _is_ready(address: str) -> bool:
    try:
        return urlopen(f"{address}v1/ready", timeout=5).status == 200
    except OSError:
        return False


def opened(browser: Any, address: str, *, width: int, height: int, touch: bool = False) -> Page:
    """A page of the desk with its first note read."""
    page = browser.new_page(viewport={"width": width, "height": height}, has_touch=touch)
    page.goto(address)
    page.wait_for_selector(".row[data-code]")
    page.locator(".row[data-code]").first.focus()
    return page


def rested(page: Page) -> None:
    """What follows when nobody waits is there, and what was decided is saved."""
    page.wait_for_selector("#saved[data-state=saved]")
    page.wait_for_timeout(1500)


def draw(address: str, browser: Any) -> None:
    """All pictures."""
    page = opened(browser, address, width=1440, height=900)
    for key in STEPS:
        page.keyboard.press(key)
    rested(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(300)
        page.screenshot(path=FOLDER / f"{scheme}.png")
    page.emulate_media(color_scheme="light")
    page.evaluate(SELECT)
    page.wait_for_selector("#toolbar:not([hidden])")
    page.click("#add-words")
    page.keyboard.type("sepsis", delay=50)
    rested(page)
    page.screenshot(path=FOLDER / "search.png")
    tablet = opened(browser, address, width=834, height=1112, touch=True)
    for key in ("j", "j", "j", "j", "j", "Enter"):
        tablet.keyboard.press(key)
    rested(tablet)
    tablet.screenshot(path=FOLDER / "tablet.png")


def main() -> None:
    """Start a desk and draw it."""
    with desk(sys.argv[1] if len(sys.argv) > 1 else CODER) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        draw(address, browser)
        browser.close()


if __name__ == "__main__":
    main()
