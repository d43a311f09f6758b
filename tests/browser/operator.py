"""What an operator does in Airflow's pages, and what is seen there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

LARGEST_PICTURE = 300_000  # bytes: they are in the repository
PATIENCE = 60_000  # milliseconds; on a busy machine a page takes its time


class Operator:
    """Somebody at a browser."""

    def __init__(self, page: Page, airflow: str, pictures: Path) -> None:
        self.page, self.airflow, self.pictures = page, airflow, pictures
        self.errors: list[str] = []  # what pages complained about
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def open(self, path: str) -> None:
        self.page.goto(path if path.startswith("http") else f"{self.airflow}{path}")

    def picture(self, name: str) -> Path:
        """What is on the screen, once it is still."""
        self.page.wait_for_timeout(2500)  # graphs and fonts settle after the last request
        file = self.pictures / f"{name}.png"
        self.pictures.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=file, animations="disabled")
        assert file.stat().st_size < LARGEST_PICTURE, (name, file.stat().st_size)
        return file

    # --- Airflow --------------------------------------------------------------------------------
    def log_in(self, user: str, password: str) -> None:
        """From wherever one was sent to the login."""
        self.page.wait_for_url(re.compile("/auth/.*login"))
        self.page.locator('input[name="username"]').fill(user)
        self.page.locator('input[name="password"]').fill(password)
        self.page.get_by_role("button", name=re.compile("sign in", re.I)).click()
        self.page.wait_for_url(lambda address: "/auth/" not in address)

    def open_form(self, dag: str) -> Locator:
        self.open(f"/dags/{dag}")
        self.page.get_by_test_id("trigger-dag-button").first.click()
        form = self.page.get_by_role("dialog")
        form.get_by_test_id("trigger-dag-submit").wait_for()
        return form

    def choose(self, form: Locator, name: str) -> None:
        """One of the names of the form's first list."""
        form.locator("input[role=combobox]").first.click()
        self.page.keyboard.type(name)
        self.page.get_by_role("option", name=name, exact=True).click()

    def unfold(self, form: Locator, section: str) -> None:
        form.get_by_role("button", name=section, exact=True).click()

    def fill(self, form: Locator, field: str, value: str) -> None:
        box = form.locator(f'[name="element_{field}"]')
        box.fill(value)
        box.press("Tab")

    def send(self, form: Locator) -> str:
        """Start the run; Airflow goes to its page."""
        form.get_by_test_id("trigger-dag-submit").click()
        self.page.wait_for_url(re.compile("/runs/"))
        return unquote(self.page.url.rpartition("/runs/")[2].partition("/")[0].partition("?")[0])

    def read_note(self) -> None:
        """The whole note of the run on whose page one is."""
        self.page.get_by_label("Edit note").first.click()
