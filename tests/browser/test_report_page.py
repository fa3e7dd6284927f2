"""The page in a browser: what it says, how it is used, and that it stays by itself."""

from __future__ import annotations

import itertools
import json

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_view import MOST_LINKS

By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

CASES = ["two", "sixteen", "slow_node", "failures", "not_ready", "nothing", "hostile", "large"]


def measured(case: str) -> list[dict]:
    """The links of the test in host memory, from the facts that the page was made of."""
    from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils import report_cases

    return next(t for t in report_cases.CASES[case]()["tests"] if t["test"] == "rdma")["links"]


def words(browser, selector: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, selector).text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("case", CASES)
def test_no_error_and_no_request(case, scheme, show, keep_picture):
    browser = show(case, scheme)
    keep_picture(f"{case}-{scheme}")
    assert browser.get_log("browser") == []
    requests = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    assert [r for r in requests if not r.startswith(("file:", "data:", "about:"))] == []


@pytest.mark.parametrize(
    ("case", "head", "sentence"),
    [
        ("two", "The network is fit for training", "All of 4 links passed"),
        ("slow_node", "The network is not fit for training", "node gpu-node-3, rail 0"),
        ("not_ready", "The network is not fit for training", "1 readiness check failed"),
        ("nothing", "The network is not measured", "Neither readiness nor a test was run."),
    ],
)
def test_the_answer_comes_first(case, head, sentence, show):
    browser = show(case)
    assert words(browser, "h1") == head
    assert sentence in words(browser, "#answer p")
    top = browser.find_element(By.ID, "answer").rect
    assert top["y"] + top["height"] < 300


@pytest.mark.parametrize(("case", "least"), [("two", 2), ("slow_node", 20), ("sixteen", 192)])
def test_cells_of_the_map(case, least, show):
    browser = show(case)
    cells = len({(k["server"], k["client"]) for k in measured(case)})
    assert cells >= least
    section = browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=rdma]")
    assert len(section.find_elements(By.CSS_SELECTOR, "table.map tbody td[tabindex]")) == cells
    assert len(section.find_elements(By.CSS_SELECTOR, "table.map td[tabindex='0']")) == (
        4 if case == "sixteen" else 1
    )


def test_hover_tells_the_figure(show):
    browser = show("slow_node")
    cell = browser.find_element(By.CSS_SELECTOR, "td.s2")
    browser.execute_script(
        "arguments[0].dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))", cell
    )
    tip = browser.find_element(By.ID, "tip")
    assert tip.is_displayed()
    assert "slow (slow_link), 2" in tip.text
    assert "required 360.0" in tip.text


def test_the_map_by_keyboard(show):
    browser = show("slow_node")
    first = browser.find_element(By.CSS_SELECTOR, "table.map td[tabindex='0']")
    browser.execute_script("arguments[0].focus()", first)
    tip = browser.find_element(By.ID, "tip")
    seen = [tip.text]
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_LEFT, Keys.END, Keys.HOME):
        browser.switch_to.active_element.send_keys(key)
        assert browser.switch_to.active_element.tag_name == "td"
        assert tip.text == browser.switch_to.active_element.get_attribute("aria-label")
        seen.append(tip.text)
    assert len(set(seen)) >= 4
    # one stop for Tab, wherever the arrows went
    assert len(browser.find_elements(By.CSS_SELECTOR, "table.map td[tabindex='0']")) == 1
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()


def test_enter_leads_to_the_link(show):
    browser = show("large")
    cell = browser.find_element(By.CSS_SELECTOR, "td.f")
    browser.execute_script("arguments[0].focus()", cell)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    target = browser.execute_script("return location.hash.slice(1)")
    row = browser.find_element(By.ID, target)
    assert row.is_displayed()
    assert "failed" in row.text


def test_the_wall_by_keyboard(show):
    browser = show("large")
    first = browser.find_element(By.CSS_SELECTOR, ".wall li")
    browser.execute_script("arguments[0].focus()", first)
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.get_attribute("aria-label").startswith(
        "gpu-node-2, rail 0: passed"
    )
    assert words(browser, "#tip").startswith("gpu-node-2, rail 0: passed")


def test_raw_outputs_are_folded_and_open_from_a_finding(show):
    browser = show("failures")
    folded = browser.find_elements(By.CSS_SELECTOR, "details.output")
    assert folded and not any(d.get_attribute("open") for d in folded)
    browser.execute_script(
        "arguments[0].click()",
        browser.find_element(By.CSS_SELECTOR, ".finding a[href^='#output-']"),
    )
    browser.execute_async_script("setTimeout(arguments[0], 100)")
    (opened,) = [d for d in folded if d.get_attribute("open")]
    assert "Couldn't allocate MR" in opened.text
    assert "$ stdbuf -oL ib_write_bw -d mlx5_0" in opened.text


def test_a_links_curve_can_be_chosen(show):
    browser = show("large")
    select = browser.find_element(By.CSS_SELECTOR, "select[data-curves=rdma]")
    unmeasured = sum(not k["rows"] for k in measured("large"))
    options = select.find_elements(By.TAG_NAME, "option")
    # none, and the links of the list that have a table; those that failed are all in the list
    assert unmeasured > 0 and len(options) == 1 + MOST_LINKS - unmeasured
    browser.execute_script(
        "arguments[0].value = '0'; arguments[0].dispatchEvent(new Event('change'))", select
    )
    path = browser.find_element(By.ID, "chosen-rdma").get_attribute("d")
    assert path.count("L") == 22


def test_links_can_be_found(show):
    browser = show("sixteen")
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    browser.find_element(By.CSS_SELECTOR, "input[data-filter='rdma-good']").send_keys(
        "gpu-node-16/2"
    )
    rows = browser.find_elements(By.CSS_SELECTOR, "#rdma-good tbody tr")
    shown = [r.text for r in rows if r.is_displayed()]
    assert 0 < len(shown) < 20
    assert all("gpu-node-16/2" in text for text in shown)


def test_hostile_names_and_outputs_are_text(show):
    browser = show("hostile")
    assert browser.find_elements(By.CSS_SELECTOR, "script") == browser.find_elements(
        By.CSS_SELECTOR, "body > script"
    )
    assert len(browser.find_elements(By.CSS_SELECTOR, "script")) == 2
    assert "<script>alert('x')</script>" in words(browser, "#answer p")
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    text = words(browser, "body")
    assert "{{ 1 + 1 }}</pre>\\x1b[31m\\x00" in text
    cell = browser.find_element(By.CSS_SELECTOR, "td.f")
    browser.execute_script("arguments[0].focus()", cell)
    assert "<script>alert('x')</script>" in words(browser, "#tip")


def test_without_scripts_it_still_reads(show, browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show("slow_node")
        assert "not fit" in words(browser, "h1")
        cell = browser.find_element(By.CSS_SELECTOR, "td.s2")
        assert "slow (slow_link)" in cell.get_attribute("title")
        assert not browser.find_element(By.CSS_SELECTOR, ".script-only").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("case", ["sixteen", "large", "hostile"])
def test_a_narrow_window_does_not_scroll_sideways(case, show, keep_picture):
    browser = show(case, width=420)
    keep_picture(f"{case}-narrow")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 420


def test_print(show, keep_picture):
    browser = show("slow_node", media="print", width=800)
    keep_picture("slow_node-print")
    assert not browser.find_element(By.TAG_NAME, "nav").is_displayed()
    assert browser.find_element(By.CSS_SELECTOR, "table.map").is_displayed()


# WCAG 2.2: 4.5 for text. Computed by the browser itself, from what is painted behind the text.
CONTRAST = """
function channel(v) { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); }
function luminance(c) { return 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]); }
function parse(text) { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 && n[3] === 0 ? null : n; }
function behind(element) {
  for (let e = element; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c) { return c; } }
  return parse(getComputedStyle(document.body).backgroundColor);
}
const bad = [];
for (const element of document.querySelectorAll("body *")) {
  const own = Array.from(element.childNodes).some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || !element.getClientRects().length || element.closest("svg, script, style, .skip")) { continue; }
  const a = luminance(parse(getComputedStyle(element).color)), b = luminance(behind(element));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) { bad.push(element.tagName + "." + element.className + " " + ratio.toFixed(2) + " " + element.textContent.slice(0, 30)); }
}
return Array.from(new Set(bad));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("case", ["slow_node", "failures", "large"])
def test_contrast(case, scheme, show):
    browser = show(case, scheme)
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert browser.execute_script(CONTRAST) == []


def test_names_and_roles(show):
    browser = show("slow_node")
    assert browser.execute_script("return document.documentElement.lang") == "en"
    levels = [int(h.tag_name[1]) for h in browser.find_elements(By.CSS_SELECTOR, "h1, h2, h3")]
    assert levels[0] == 1 and all(b - a <= 1 for a, b in itertools.pairwise(levels))
    for chart in browser.find_elements(By.CSS_SELECTOR, "svg.chart"):
        assert chart.get_attribute("role") == "img"
        assert chart.get_attribute("aria-label")
    for table in browser.find_elements(By.TAG_NAME, "table"):
        assert table.find_elements(By.CSS_SELECTOR, "th[scope=col]")
    for field in browser.find_elements(By.CSS_SELECTOR, "select, input"):
        assert field.accessible_name
