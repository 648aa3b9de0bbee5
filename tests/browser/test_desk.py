"""The desk in a real browser: what a coder sees, does with mouse and keys, and what is kept of it."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from plant.serve.access import Access
from plant.serve.export import export_lines
from plant.serve.reader import Reader
from plant.serve.schemas import Change
from plant.serve.server import listening
from plant.serve.store import Step, Store, Who
from tests.browser.desk import AXE, desk_apart, running_desk
from tests.desk_samples import NOTE, small_coder

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="needs chromium (make test installs it)")
ME = Who("coder", "reviewer")
HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror=window.hacked=1>\n"
    "🫁🫁 e\u0301 שלום \x00 &amp; acute kidney injury\r\nthen a dry cough"
)
SELECT = """words => {
  const pieces = document.createTreeWalker(document.querySelector('#text'), NodeFilter.SHOW_TEXT);
  for (let node; (node = pieces.nextNode()); ) {
    const at = node.data.indexOf(words);
    if (at >= 0) return getSelection().setBaseAndExtent(node, at + 1, node, at + words.length - 1);
  }
}"""
MIDDLE = """name => {
  const range = new Range();
  const [span] = CSS.highlights.get(name);
  range.setStart(span.startContainer, span.startOffset);
  range.setEnd(span.endContainer, span.endOffset);
  const box = range.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}"""


@pytest.fixture(scope="module")
def reader() -> Reader:
    return small_coder()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def served(reader: Reader, tmp_path: Path) -> Iterator[tuple[str, Any]]:
    with running_desk(reader, tmp_path / "desk.sqlite") as (address, desk):
        yield address, desk


def opened(browser: Any, address: str, **options: Any) -> Any:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, **options)
    page.set_default_timeout(200_000)  # a crowded host takes its time; what never comes fails all the same
    page.problems, page.requests = [], []
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(address)
    page.wait_for_selector(".row[data-code]")
    return page


def verdicts(page: Any) -> dict[str, str]:
    rows = "rows => rows.map(row => [row.dataset.code, row.dataset.verdict])"
    return dict(page.locator(".row[data-code]").evaluate_all(rows))


def saved(page: Any) -> None:
    page.wait_for_selector("#saved[data-state=saved]")


def take_first_hit(page: Any) -> None:
    """Enter takes what was typed as soon as it is found, which may be later than the next line of a test."""
    page.wait_for_selector("#hits .hit")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search:not([open])", state="attached")


def exported(desk: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export_lines(desk.store)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_note_is_coded_from_the_queue_to_the_export(browser: Any, served: tuple[str, Any], scheme: str) -> None:
    address, desk = served
    desk.store.add_note(ME, "first", NOTE)
    desk.store.add_note(ME, "second", "a dry cough")
    page = opened(browser, address, color_scheme=scheme)
    assert page.evaluate("[...CSS.highlights.get('ev1')].length + [...CSS.highlights.get('strong')].length") > 1
    page.locator("[data-code=N17] .yes").click()
    page.locator("[data-code=S62] .no").click()
    page.evaluate(SELECT, "dry cough")
    page.locator("#add-words").click()
    page.keyboard.type("hypert")
    take_first_hit(page)
    page.locator("[data-code=R05] .no").click()
    page.locator("#undo").click()
    saved(page)
    assert {code: verdict for code, verdict in verdicts(page).items() if verdict != "none"} == {
        "N17": "accept",
        "S62": "reject",
        "I10": "accept",
    }
    page.reload()
    page.wait_for_selector(".row[data-verdict=accept]")
    page.keyboard.press("Control+Enter")
    page.locator("#finishing .primary").click()
    page.wait_for_function("() => document.querySelector('#title').textContent == 'second'")
    [record] = exported(desk)
    assert (record["id"], record["codes"], record["rejected"]) == ("first", ["N17", "I10"], ["S62"])
    assert [NOTE[mark["start"] : mark["end"]] for mark in record["evidence"]] == ["dry cough"]
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith((address, "data:"))] == []
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    page.close()


def test_twenty_steps_by_keys_and_twenty_undos_return_to_the_start(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address)
    before = verdicts(page)
    page.keyboard.press("F6")
    page.keyboard.press("F6")
    assert page.evaluate("document.activeElement.closest('#grid') !== null")
    for _ in range(5):
        for key in ("a", "j", "r", "k"):
            page.keyboard.press(key)
    page.keyboard.press("j")
    for _ in range(10):
        page.keyboard.press("a")
    saved(page)
    for _ in range(20):
        page.keyboard.press("Control+z")
    saved(page)
    assert verdicts(page) == before
    assert desk.store.decisions(desk.store.queue()[0]["id"]) == []
    for _ in range(20):
        page.keyboard.press("Control+Shift+z")
    saved(page)
    assert len(desk.store.audit()) >= 60
    page.close()


def test_words_tell_their_codes_and_are_walked_and_selected_by_keys(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address)
    page.mouse.move(*page.evaluate(MIDDLE, "ev1"))
    page.wait_for_selector(".row.near")
    told = page.locator(".row.near").evaluate_all("rows => rows.map(row => row.dataset.code)")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector(f".row[data-code={told[0]}][aria-selected=true]")
    page.mouse.move(*page.evaluate(MIDDLE, "strong"))
    page.locator(".row[data-code]").last.hover()
    page.wait_for_function("() => !document.querySelector('.row.near')")
    page.locator("#note").focus()
    page.keyboard.press("]")
    page.wait_for_function("() => document.querySelector('#voice').textContent.includes('speaks for')")
    page.keyboard.press("ArrowRight")
    first = page.evaluate("getSelection().toString()")
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_function("words => getSelection().toString() !== words", arg=first)
    both = page.evaluate("getSelection().toString()")
    assert re.fullmatch(r"\w+", first)
    assert both.startswith(first)
    page.wait_for_selector("#toolbar:not([hidden])")
    page.keyboard.press("s")
    assert page.locator("#search .with mark").text_content() == " ".join(both.split())
    assert page.problems == []
    page.close()


def test_codes_are_ordered_changed_and_given_words_by_keys(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    note, _ = desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address)
    page.locator(".row[data-code]").first.focus()
    codes = list(verdicts(page))
    for _ in codes[:2]:
        page.keyboard.press("a")
        page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Alt+ArrowUp")
    page.evaluate(SELECT, "fever")
    page.locator("#note").focus()
    page.evaluate(SELECT, "fever")
    page.wait_for_selector("#toolbar:not([hidden])")
    page.keyboard.press("w")
    page.keyboard.press("c")
    page.keyboard.type("cough" if codes[1] != "R05" else "wrist")
    take_first_hit(page)
    saved(page)
    rows = {row["code"]: row for row in desk.store.decisions(note)}
    changed = next(row for row in rows.values() if row["replaces"])
    assert (changed["replaces"], rows[codes[1]]["verdict"]) == (codes[1], "reject")
    assert "fever" in {NOTE[mark["start"] : mark["end"]] for mark in changed["evidence"]}
    assert "order" in {line["action"] for line in desk.store.audit()}
    page.close()


def test_hostile_text_is_shown_as_text_and_what_is_selected_is_exported(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    desk.store.add_note(ME, "<b>name</b>", HOSTILE)
    page = opened(browser, address)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#title").inner_text() == "<b>name</b>"
    assert "<script>window.hacked" in page.locator("#text").inner_text()
    assert page.locator("#text script, #text img").count() == 0
    page.evaluate(SELECT, "kidney injury")
    page.locator("#add-words").click()
    page.keyboard.type("N17")
    take_first_hit(page)
    saved(page)
    page.keyboard.press("Control+Enter")
    page.locator("#finishing .primary").click()
    page.wait_for_selector("#notice:not([hidden])")
    [record] = exported(desk)
    assert [record["text"][mark["start"] : mark["end"]] for mark in record["evidence"]] == ["kidney injury"]
    assert record["text"] == HOSTILE
    page.close()


def test_enter_takes_nothing_where_the_search_was_not_answered(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    note, _ = desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address)
    page.evaluate(SELECT, "dry cough")
    page.locator("#add-words").click()
    page.wait_for_selector("#hits .hit")
    page.route("**/codes/search", lambda route: route.abort())
    page.keyboard.type("N17")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('#search .none').textContent.startsWith('Not searched')")
    assert page.locator("#search").get_attribute("open") is not None
    assert desk.store.decisions(note) == []
    page.unroute("**/codes/search")
    take_first_hit(page)
    saved(page)
    assert [row["code"] for row in desk.store.decisions(note)] == ["N17"]
    page.close()


def test_a_megabyte_in_one_line_is_shown(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    desk.store.add_note(ME, "long", "a dry cough " + "x" * 1_000_000)
    page = opened(browser, address)
    page.wait_for_selector("#text:not([style*=min-height])", timeout=60_000)  # far lines follow when nobody waits
    assert page.evaluate("document.querySelector('#text').textContent.length") == 1_000_012
    page.close()


def test_the_second_of_two_pages_is_told_and_nothing_is_lost(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    note, _ = desk.store.add_note(ME, "first", NOTE)
    page, other = opened(browser, address), opened(browser, address)
    other.locator("[data-code=R05] .no").click()
    saved(other)
    other.close()
    page.locator("[data-code=N17] .yes").click()
    page.wait_for_selector("#notice:not([hidden])")
    saved(page)
    assert {row["code"]: row["verdict"] for row in desk.store.decisions(note)} == {"R05": "reject", "N17": "accept"}
    desk.store.decide(Step(ME, note, 2), [Change(code="S62", verdict="reject")])
    page.locator("[data-code=S62] .yes").click()
    page.locator("#conflict .mine").click()
    saved(page)
    assert {row["code"]: row["verdict"] for row in desk.store.decisions(note)}["S62"] == "accept"
    page.close()


def test_decisions_wait_while_the_service_is_away_and_are_saved_once(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    note, _ = desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address)
    page.route("**/decisions", lambda route: route.abort())
    page.locator("[data-code=N17] .yes").click()
    page.wait_for_selector("#saved[data-state=waiting]")
    page.unroute("**/decisions")
    saved(page)
    assert [row["code"] for row in desk.store.decisions(note)] == ["N17"]
    page.close()


def test_who_is_not_known_signs_in_with_a_token(browser: Any, reader: Reader, tmp_path: Path) -> None:
    with closing(Store(tmp_path / "d.sqlite")) as store:
        token = store.keys.add(Who("root", "admin"), "anna", "coder")
    with running_desk(reader, tmp_path / "d.sqlite", access=Access(anyone=None)) as (
        address,
        desk,
    ):
        desk.store.add_note(ME, "first", NOTE)
        page = browser.new_page()
        page.goto(address)
        page.locator("#token").fill("wrong")
        page.locator("#sign-in .primary").click()
        page.wait_for_function("() => document.querySelector('.wrong').textContent != ''")
        page.locator("#token").fill(token)
        page.locator("#sign-in .primary").click()
        page.wait_for_selector(".row[data-code]")
        assert page.locator("#who").get_attribute("title") == "anna, coder"
        page.close()


def test_no_page_is_wider_than_its_screen(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address)
    for width in (320, 720, 768, 900, 1100, 1440):  # 720 is 1440 at 200 %
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#note").is_visible()
    page.close()


def test_printing_lights_everything_and_lists_what_was_accepted(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address)
    page.locator("[data-code=N17] .yes").click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", reduced_motion="reduce")
    assert "N17" in page.locator("#sheet-for-print").inner_text()
    assert not page.locator("#codes-pane").is_visible()
    assert page.locator(".block").first.evaluate("block => getComputedStyle(block).contentVisibility") == "visible"
    assert page.locator("#next").evaluate("button => getComputedStyle(button).transitionDuration") == "0s"
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


def test_without_highlights_the_same_words_are_marks_and_the_text_stays_whole(
    browser: Any, served: tuple[str, Any]
) -> None:
    address, desk = served
    note, _ = desk.store.add_note(ME, "first", NOTE)
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script("delete window.Highlight")
    page.goto(address)
    page.locator("[data-code=N17] .title").click()
    page.wait_for_selector("#text mark.at-strong")
    assert page.locator("#text mark.at-strong").evaluate_all("marks => marks.map(mark => mark.textContent)") != []
    assert page.locator("#text mark.at-ev1, #text mark.at-ev2").count() > 0
    lines = "[...document.querySelectorAll('#text .line')].map(line => line.textContent).join('\\n')"
    assert page.evaluate(lines) == NOTE
    page.evaluate(SELECT, "fever")
    page.locator("#mark-words").click()
    saved(page)
    [mark] = desk.store.decisions(note)[0]["evidence"]
    assert NOTE[mark["start"] : mark["end"]] == "fever"
    page.close()


def test_forced_colours_light_the_chosen_code_alone(browser: Any, served: tuple[str, Any]) -> None:
    address, desk = served
    desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address, forced_colors="active")
    sizes = "Object.fromEntries([...CSS.highlights].map(([name, layer]) => [name, layer.size]))"
    lit = page.evaluate(sizes)
    assert lit["strong"] > 0
    assert sum(size for name, size in lit.items() if name.startswith("ev")) == 0
    page.close()


def test_a_decision_whose_answer_is_lost_is_saved_once(browser: Any, reader: Reader, tmp_path: Path) -> None:
    with running_desk(reader, tmp_path / "desk.sqlite") as (address, desk):
        note, _ = desk.store.add_note(ME, "first", NOTE)
        page = opened(browser, address)
        answered = []

        def swallow(route: Any) -> None:  # the service has saved it; the page never hears of it
            answered.append(route.fetch().status)
            route.abort()

        page.route("**/decisions", swallow, times=1)
        page.locator("[data-code=N17] .yes").click()
        page.wait_for_selector("#saved[data-state=waiting]")
        saved(page)
        assert answered == [200]
        assert [row["code"] for row in desk.store.decisions(note)] == ["N17"]
        assert [line["action"] for line in desk.store.audit()].count("decide") == 1
        page.close()


@pytest.mark.slow
def test_what_was_decided_while_the_service_was_killed_is_saved_once(
    browser: Any, reader: Reader, tmp_path: Path
) -> None:
    coder, store = tmp_path / "coder", tmp_path / "desk.sqlite"
    reader.coder.save(coder)
    with closing(Store(store)) as kept:
        note, _ = kept.add_note(ME, "first", NOTE)
    with closing(listening("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page, decided = None, []
    for pause, code in ((0.0, "N17"), (0.02, "R05"), (0.1, "I10")):  # seconds until the service is killed
        with desk_apart(coder, store, port) as server:
            page = page or opened(browser, f"http://127.0.0.1:{port}/")
            page.wait_for_selector("#saved[data-state=saved]", timeout=60_000)
            page.locator(f"[data-code={code}] .yes").click()
            time.sleep(pause)
            server.kill()
        decided.append(code)
    with desk_apart(coder, store, port):
        page.wait_for_selector("#saved[data-state=saved]", timeout=60_000)
    with closing(Store(store)) as kept:
        assert sorted(row["code"] for row in kept.decisions(note)) == sorted(decided)
        assert [line["action"] for line in kept.audit()].count("decide") == len(decided)
    page.close()


def contrast_by_hand(page: Any) -> list[tuple[str, str, float]]:
    """Pairs of tokens that text is set in, whose contrast is below 4.5: axe cannot see highlights."""
    pairs = [
        *(("--ink", f"--ev{depth}") for depth in (1, 2, 3)),
        *(("--lit-ink", layer) for layer in ("--strong", "--weak")),
        *(("--soft", surface) for surface in ("--bg", "--panel", "--raised")),
        ("--caution", "--caution-bg"),
        ("--on-accept", "--accept"),
        ("--on-reject", "--reject"),
        ("--ink", "--focus-bg"),
    ]
    probe = """names => names.map(name => {
      const probe = document.createElement('i');
      probe.style.color = `var(${name})`;
      document.body.append(probe);
      const colour = getComputedStyle(probe).color;
      probe.remove();
      return colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
    })"""
    names = sorted({name for pair in pairs for name in pair})
    colours = dict(zip(names, page.evaluate(probe, names), strict=True))
    ratios = [(ink, ground, ratio(colours[ink], colours[ground])) for ink, ground in pairs]
    return [pair for pair in ratios if pair[2] < 4.5]


def ratio(one: list[float], other: list[float]) -> float:
    """The contrast of two colours, as WCAG defines it."""

    def luminance(colour: list[float]) -> float:
        parts = [value / 255 for value in colour]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_passes_axe_in_both_themes(browser: Any, served: tuple[str, Any], scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("needs axe-core, which `make browser` gets by npm")
    address, desk = served
    desk.store.add_note(ME, "first", NOTE)
    page = opened(browser, address, color_scheme=scheme, reduced_motion="reduce")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert contrast_by_hand(page) == []

    def violations() -> list[str]:
        found = page.evaluate("axe.run(document)")
        assert len(found["passes"]) > 15  # it did look
        return [f"{one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found["violations"]]

    assert violations() == []
    page.locator("[data-code=N17] .yes").click()
    page.locator("[data-code=S62] .no").click()
    page.locator("#tab-final").click()
    assert violations() == []
    for button in ("#open-search", "#where", "#open-settings", "#open-keys", "#finish"):
        page.locator(button).click()
        if button == "#open-search":
            page.keyboard.type("kid")
            page.wait_for_selector("#hits .hit")
        assert violations() == [], button
        page.keyboard.press("Escape")
    page.close()


def test_the_page_is_small_and_has_no_style_or_script_inline() -> None:
    folder = Path(__file__).parents[2] / "src" / "plant" / "serve" / "page"
    html = (folder / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son\w+=|https?://", html)
    assert sum(path.stat().st_size for path in folder.glob("*.js")) <= 60_000
    assert (folder / "desk.css").stat().st_size <= 30_000
