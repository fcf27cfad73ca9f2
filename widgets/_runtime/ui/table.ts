/** The data table: one `[data-series]` row per point, all in the document, a page of them shown. */

import type { WidgetDescription } from "./describe";
import { make, part, setText } from "./dom";
import { formatNumber } from "./numbers";
import { panelOf, type SeriesData, xText, yText } from "./series";
import { fill, strings } from "./text";

const ROWS_PER_PAGE = 15;

export class DataTable {
  private readonly body: HTMLElement;
  private readonly pager: HTMLElement;
  private readonly label: HTMLElement;
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private page = 0;

  constructor(
    root: HTMLElement,
    private readonly description: WidgetDescription,
  ) {
    this.body = part(root, "rows");
    this.pager = part(root, "pager");
    this.label = part(this.pager, "page");
    this.previous = this.turner("previous", -1);
    this.next = this.turner("next", 1);
  }

  update(data: SeriesData): void {
    const { labels, series } = this.description;
    const rows: HTMLElement[] = [];
    for (const name of series) {
      const panel = panelOf(labels, name);
      if (!panel) continue;
      for (const [x, y] of data[name] ?? []) {
        rows.push(
          make("tr", { "data-series": name, "data-x": x, "data-y": y },
            make("th", { scope: "row" }, labels.series[name]?.label ?? name),
            make("td", {}, make("span", { class: "unit" }, `${panel.x.label}: `), xText(panel, x)),
            make("td", { "data-value": y }, yText(panel, y)),
          ),
        );
      }
    }
    if (rows.length === 0) rows.push(make("tr", {}, make("td", { colspan: 3 }, strings.table.empty)));
    this.body.replaceChildren(...rows);
    this.show();
  }

  private turner(name: string, step: number): HTMLButtonElement {
    const button = this.pager.querySelector<HTMLButtonElement>(`[data-page="${name}"]`);
    if (!button) throw new Error(`theme/widget.html has no [data-page="${name}"]`);
    button.addEventListener("click", () => {
      this.page += step;
      this.show();
      // A button that has just been disabled would drop the focus on the floor.
      if (button.disabled) (button === this.next ? this.previous : this.next).focus();
    });
    return button;
  }

  private show(): void {
    const rows = [...this.body.children];
    const pages = Math.max(1, Math.ceil(rows.length / ROWS_PER_PAGE));
    this.page = Math.min(pages - 1, Math.max(0, this.page));
    rows.forEach((row, index) => row.toggleAttribute("hidden", Math.floor(index / ROWS_PER_PAGE) !== this.page));
    this.pager.hidden = pages === 1;
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page === pages - 1;
    const numbers = { page: formatNumber(this.page + 1, "integer"), pages: formatNumber(pages, "integer") };
    setText(this.label, fill(strings.table.page, numbers));
  }
}
