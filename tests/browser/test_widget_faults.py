"""Widgets on bad days: a chart or a view that cannot be fetched, storage that fails; and two widgets of one kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect
from widget_page import act, hydrated, note, readouts, section, wait_state

pytestmark = pytest.mark.browser

NO_ROOM = """() => {
  IDBObjectStore.prototype.put = () => { throw new DOMException("", "QuotaExceededError"); };
}"""
SLOW = 8_000
"""Milliseconds after which a chart counts as late: CHART_MILLISECONDS of controller.ts."""


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(service_workers="block", reduced_motion="reduce")
    context.set_default_timeout(60_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def saving_data(page: Page) -> None:
    """As a reader for whom no runtime is fetched before Run."""
    page.add_init_script("Object.defineProperty(navigator, 'connection', { value: { saveData: true } })")


def twice(page: Page) -> None:
    """Puts the lesson's widget on its page a second time, as `::: widget cot` written twice would."""

    def double(route: Route) -> None:
        response = route.fetch()
        html = response.text()
        start = html.index('<section class="widget"')
        end = html.index("</section>", start) + len("</section>")
        second = html[start:end].replace("widget-cot-1", "widget-cot-2")
        route.fulfill(response=response, body=html[:end] + second + html[end:])

    page.route("**/raonament/**", double)


def test_a_shared_link_reaches_the_widget_that_its_anchor_names(page: Page, course):
    saving_data(page)
    twice(page)
    for anchor, owner in (("#widget-cot-2", 1), ("#widget-cot-1", 0), ("", 0), ("#elsewhere", 0)):
        page.goto(f"{course.url}raonament/?w=cot&seed=7{anchor}")
        hydrated(page)
        page.reload()  # a change of the anchor alone loads nothing
        hydrated(page)
        seeds = [section(page).nth(index).locator('[name="seed"]').input_value() for index in (0, 1)]
        assert seeds == [("7" if index == owner else "1") for index in (0, 1)], anchor
    link = page.evaluate(
        """async () => {
          const second = document.getElementById("widget-cot-2");
          second.querySelector('[name="k"]').value = "3";
          second.querySelector('[data-action="share"]').click();
          const field = second.querySelector('[data-part="link"]');
          while (!field.value) await new Promise((resolve) => setTimeout(resolve, 20));
          return field.value;
        }"""
    )
    page.goto(link)
    hydrated(page)
    assert [section(page).nth(index).locator('[name="k"]').input_value() for index in (0, 1)] == ["9", "3"]


def test_a_run_goes_on_without_its_chart_which_comes_when_it_can(page: Page, course):
    page.route("**/assets/chart-*.js", lambda route: route.abort())
    page.goto(course.url + "raonament/")
    hydrated(page)
    act(page, "run")
    wait_state(page, "done")
    expect(note(page, "chart")).to_contain_text("No s'ha pogut carregar el dibuix")
    assert all(value for value, _ in readouts(page).values())
    page.unroute("**/assets/chart-*.js")
    act(page, "repeat")
    wait_state(page, "done")
    section(page).locator(".plot svg").first.wait_for()
    expect(note(page, "chart")).to_have_count(0)


def test_a_chart_that_never_arrives_holds_up_no_run(page: Page, course):
    held: list[Route] = []
    page.route("**/assets/chart-*.js", lambda route: held.append(route))
    page.goto(course.url + "raonament/")
    hydrated(page)
    act(page, "run")
    wait_state(page, "done")
    expect(note(page, "chart")).to_contain_text("encara no ha arribat", timeout=2 * SLOW)
    held[0].continue_()
    section(page).locator(".plot svg").first.wait_for()
    expect(note(page, "chart")).to_have_count(0)


def test_a_view_that_cannot_be_fetched_leaves_the_widgets_working(page: Page, course):
    saving_data(page)
    page.route("**/assets/view-*.js", lambda route: route.abort())
    page.goto(course.url + "raonament/")
    hydrated(page)
    expect(note(page, "view")).to_contain_text("la resta funciona")
    expect(section(page).locator('[data-action="run"]')).to_be_enabled()


def test_without_the_widgets_code_the_page_says_so(page: Page, course):
    page.route("**/assets/widgets-*.js", lambda route: route.abort())
    page.goto(course.url + "raonament/")
    expect(section(page).locator('.widget-body > [role="alert"]')).to_contain_text("No s'han pogut carregar")


def test_what_the_storage_has_no_room_for_is_told_where_the_reader_did_it(page: Page, course):
    saving_data(page)
    page.goto(course.url + "raonament/")
    hydrated(page)
    page.evaluate(NO_ROOM)
    question = page.locator("[data-question]").first
    for index, solution in enumerate(question.locator(".solution li[data-right]").all()):
        if solution.get_attribute("data-right") == "true":
            question.locator(".answers input").nth(index).check()
    question.locator("[data-check]").click()
    expect(question.locator("[data-feedback] + [role=status]")).to_contain_text("No queda espai")
    expect(note(page, "storage")).to_contain_text("No queda espai")
    mark = page.locator("[data-resource]").first
    mark.locator("input").check()
    expect(mark.locator("[role=status]")).to_contain_text("No queda espai")
    expect(question.locator("[data-feedback] + [role=status]")).to_have_count(0)


def test_a_storage_lost_in_the_middle_of_a_visit_is_told(page: Page, course):
    saving_data(page)
    page.goto(course.url + "raonament/")
    hydrated(page)
    page.evaluate(
        "() => { IDBDatabase.prototype.transaction = () => { throw new DOMException('', 'UnknownError'); }; }"
    )
    page.locator("[data-resource] input").first.check()
    expect(page.locator("[data-resource] [role=status]")).to_contain_text("no deixa desar res")
    expect(note(page, "storage")).to_contain_text("no deixa desar res")
