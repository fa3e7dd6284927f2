"""A headless Chromium from the system's packages, and pages of every kind of result.

Needs chromium and chromedriver (Debian: chromium, chromium-driver) and the Python package selenium; skipped without.
FABRIC_SCREENSHOTS=folder keeps a picture of each page.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".build" / "collections"))

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--force-color-profile=srgb"),
)


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Writes the page of a case once, and returns its path."""
    from ansible_collections.k8si.fabric.plugins.plugin_utils import report, report_settings
    from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils import report_cases

    folder = tmp_path_factory.mktemp("pages")
    settings, _problems = report_settings.make_settings({"formats": ["json", "html"]})
    context = {"run": "260302-093000-1a2b", "now": "2026-03-02T10:00:00Z", "collection": "0.1.0"}
    before = {}

    def write(case: str) -> Path:
        path = folder / f"{case}.html"
        if not path.exists():
            baseline = None
            if case == "slow_node":
                facts = report_cases.results(16, 1, passes=2)
                baseline = report.make_report(facts, settings, {**context, "run": "earlier"})
                before[case] = baseline["files"]["results.json"]
            made = report.make_report(
                report_cases.CASES[case](), settings, {**context, "baseline": before.get(case)}
            )
            path.write_text(made["files"]["report.html"], encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    try:
        session = webdriver.Chrome(options=options, service=service)
    except Exception as error:
        pytest.skip(f"chromium does not start: {error}")
    session.set_page_load_timeout(60)
    yield session
    session.quit()


@pytest.fixture
def show(browser, pages):
    """Opens the page of a case, in light or dark, and returns the browser."""

    def open_page(case: str, scheme: str = "light", width: int = 1280, media: str = ""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": features}
        )
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get("about:blank")
        browser.get(pages(case).as_uri())
        return browser

    return open_page


@pytest.fixture
def keep_picture(browser):
    """Keeps a picture of the whole page where FABRIC_SCREENSHOTS names a folder."""

    def keep(name: str) -> None:
        folder = os.environ.get("FABRIC_SCREENSHOTS")
        if not folder:
            return
        import base64

        Path(folder).mkdir(parents=True, exist_ok=True)
        picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))

    return keep
