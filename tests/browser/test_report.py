"""The report in a real browser: it loads alone, says no error, shows its plots, fits the screen and prints."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from plant.evaluate.report.render import write_report
from plant.steps.evaluate import Settings, evaluate
from tests.scored_samples import matrix, scored

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="needs chromium (make test installs it)")


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    sample = scored(*matrix())
    folder = tmp_path_factory.mktemp("report")
    return write_report(evaluate(sample, Settings(rounds=20)), folder).as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, address):
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(200_000)
    opened.problems, opened.requests = [], []
    opened.on("console", lambda message: opened.problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.goto(address)
    yield opened
    opened.close()


def test_the_page_loads_without_errors(page):
    assert page.problems == []
    assert page.title() == "Evaluation of sample"


def test_the_page_asks_nobody_for_anything(page):
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []


def test_every_plot_is_drawn_and_described(page):
    plots = page.evaluate("[...document.images].map(i => [i.complete && i.naturalWidth > 100, i.alt.length > 10])")
    assert len(plots) >= 5
    assert all(drawn and described for drawn, described in plots)


def test_the_cards_show_the_measures(page):
    assert page.locator(".card .name").all_inner_texts()[:2] == ["MAP", "micro-F1"]
    assert all(0 <= float(value) <= 1 for value in page.locator(".card .value").all_inner_texts())


def test_links_lead_to_sections_that_exist(page):
    missing = "[...document.querySelectorAll('nav a')].filter(a => !document.querySelector(a.hash)).length"
    assert page.evaluate(missing) == 0


@pytest.mark.parametrize("width", [390, 800, 1600])
def test_no_page_is_wider_than_its_screen(browser, address, width):
    small = browser.new_page(viewport={"width": width, "height": 800})
    small.goto(address)
    assert small.evaluate("document.documentElement.scrollWidth") <= width
    small.close()


def test_the_report_prints(page):
    assert page.pdf(format="A4").startswith(b"%PDF")
