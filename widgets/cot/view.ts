/** "Prova la teva suma": the reader's own sum, answered by both models, character by character with probabilities. */

import type { RunHandle } from "../_runtime/engine/protocol";
import { make, setText } from "../_runtime/ui/dom";
import { formatNumber, parseNumber } from "../_runtime/ui/numbers";
import { checkValue, valueText } from "../_runtime/ui/parameters";
import { fill, strings } from "../_runtime/ui/text";
import type { ViewModel, WidgetView } from "../_runtime/ui/view";

type Texts = Record<string, string>;

interface Token {
  token: string;
  p: number;
  alternatives: { token: string; p: number }[];
}

interface Trace {
  model: "reasoned" | "direct";
  prompt: string;
  total: number;
  "held-out": boolean;
  answer: number | null;
  correct: boolean;
  tokens: Token[];
}

const ASIDE = "sum";
const FORMATS = ["reasoned", "direct"] as const;

const view: WidgetView = {
  render({ model, element }) {
    const form = new SumForm(model, element);
    return () => form.close();
  },
};

export default view;

class SumForm {
  private readonly texts: Texts;
  private readonly first: HTMLInputElement;
  private readonly second: HTMLInputElement;
  private readonly checkpoint: HTMLSelectElement;
  private readonly solve: HTMLButtonElement;
  private readonly halt: HTMLButtonElement;
  private readonly alert: HTMLElement;
  private readonly note: HTMLElement;
  private readonly traces: HTMLElement;
  /** Checkpoints known to exist, as format/steps/seed. */
  private readonly trained = new Set<string>();
  private readonly unsubscribe: () => void;
  private run: RunHandle | null = null;
  private touched = false;
  /** What the traces on the page answer: the form and the seed, how they are headed, and the note with them. */
  private asked = "";
  private heading = "";
  private answered = "";

  constructor(
    private readonly model: ViewModel,
    element: HTMLElement,
  ) {
    this.texts = model.widget.labels.asides?.[ASIDE] as unknown as Texts;
    const { uid } = model;
    const alertId = `${uid}-sum-alert`;
    this.first = this.number("first", "74", alertId);
    this.second = this.number("second", "46", alertId);
    this.checkpoint = make("select", { name: "sum-checkpoint", id: `${uid}-sum-checkpoint` });
    for (const parameter of model.widget.parameters) {
      if (parameter.name !== "checkpoint" || parameter.kind !== "choice") continue;
      const labels = model.widget.labels.parameters["checkpoint"];
      for (const option of parameter.options) {
        this.checkpoint.append(make("option", { value: String(option) }, labels?.options?.[String(option)] ?? String(option)));
      }
    }
    this.checkpoint.value = String(model.parameters()["checkpoint"]);
    this.solve = make("button", { type: "submit", class: "button primary" }, this.text("run"));
    this.halt = make("button", { type: "button", class: "button", hidden: true }, strings.sum.stop);
    this.alert = make("div", { class: "widget-alert", role: "alert", id: alertId });
    this.note = make("p", { class: "note" });
    this.traces = make("div", { class: "traces" });
    const form = make("form", { class: "sum-form", novalidate: true },
      this.field(this.first, this.label("first")),
      make("span", { class: "sum-sign", "aria-hidden": "true" }, "+"),
      this.field(this.second, this.label("second")),
      this.field(this.checkpoint, this.label("checkpoint")),
      make("div", { class: "sum-actions" }, this.solve, this.halt),
    );
    element.append(
      make("p", { class: "view-title", id: `${uid}-sum-title` }, this.text("title")),
      make("p", { class: "view-intro" }, this.text("intro")),
      form, this.alert, this.note, this.traces,
    );
    element.setAttribute("role", "group");
    element.setAttribute("aria-labelledby", `${uid}-sum-title`);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.start();
    });
    this.first.addEventListener("paste", (event) => this.paste(event));
    this.halt.addEventListener("click", () => this.run?.stop());
    this.checkpoint.addEventListener("change", () => (this.touched = true));
    form.addEventListener("input", (event) => {
      if (event.target instanceof HTMLInputElement) {
        event.target.removeAttribute("aria-invalid");
        setText(this.alert, "");
      }
      this.compare();
    });
    this.unsubscribe = model.on((event) => {
      if (event.type === "run" && event.event.type === "checkpoint") {
        this.trained.add(`${event.event.format}/${event.event.steps}/${event.event.seed}`);
      }
      if (event.type === "parameters" && !this.touched) this.checkpoint.value = String(event.parameters["checkpoint"]);
      if (event.type !== "run" || event.event.type === "checkpoint") this.compare();
    });
    void this.lookUp();
  }

  close(): void {
    this.unsubscribe();
    this.run?.stop();
  }

  // ---------------------------------------------------------------- asking

  private start(): void {
    if (this.run) return;
    const values = this.check();
    if (!values) return;
    const seed = this.seed();
    const steps = Number(this.checkpoint.value);
    this.traces.replaceChildren();
    this.traces.removeAttribute("data-stale");
    this.asked = this.wish();
    this.heading = fill(strings.sum.of, {
      sum: `${values.first}\u00a0+\u00a0${values.second}`, checkpoint: this.checkpointText(), seed: String(seed),
    });
    this.busy(true);
    setText(this.note, this.ready(steps) ? this.text("solving") : this.fillText("training", { steps: formatNumber(steps, "integer") }));
    let solved = 0;
    this.run = this.model.runtime.start(this.model.widget.id, { ...values, checkpoint: steps, seed }, {
      state: (state, detail) => {
        if (state === "error") {
          this.end();
          setText(this.alert, detail ?? "");
        } else if (state === "stopped") {
          this.end();
          setText(this.note, this.text("stopped"));
        }
      },
      event: (event) => {
        if (event.type === "sample" && event.name.startsWith("trace-")) {
          const trace = event.data as Trace;
          if (solved === 0) {
            this.answered = this.text(trace["held-out"] ? "held-out" : "trained");
            setText(this.note, this.answered);
          }
          solved += 1;
          this.show(trace);
        } else if (event.type === "progress" && solved === 0) {
          const stage = this.model.widget.labels.stages[event.stage] ?? event.stage;
          setText(this.note, `${stage} · ${formatNumber(event.done / event.total, "percent", 0)}`);
        }
      },
      done: () => {
        for (const format of FORMATS) this.trained.add(`${format}/${steps}/${seed}`);
        this.end();
      },
    }, ASIDE);
  }

  private check(): { first: number; second: number } | null {
    const values = [this.first, this.second].map((input) => {
      const parameter = this.model.widget.asides[ASIDE]?.parameters.find(({ name }) => name === input.name);
      const checked = parameter && checkValue(parameter, undefined, input.value, parseNumber);
      if (checked?.ok) {
        input.removeAttribute("aria-invalid");
        return Number(checked.value);
      }
      input.setAttribute("aria-invalid", "true");
      return null;
    });
    const wrong = [this.first, this.second].filter((_, index) => values[index] === null);
    setText(this.alert, [...new Set(wrong.map(({ value }) => (value.trim() === "" ? strings.sum.empty : this.fillText("invalid", { value: value.trim() }))))].join(" "));
    wrong[0]?.focus();
    const [first, second] = values;
    return typeof first === "number" && typeof second === "number" ? { first, second } : null;
  }

  /** A whole sum pasted in the first field, "74+46", fills both. */
  private paste(event: ClipboardEvent): void {
    const match = /^\s*(\d+)\s*\+\s*(\d+)\s*=?\s*$/.exec(event.clipboardData?.getData("text") ?? "");
    if (!match) return;
    event.preventDefault();
    this.first.value = match[1] ?? "";
    this.second.value = match[2] ?? "";
    this.compare();
  }

  private busy(busy: boolean): void {
    const focused = document.activeElement === (busy ? this.solve : this.halt);
    this.solve.hidden = busy;
    this.halt.hidden = !busy;
    if (focused) (busy ? this.halt : this.solve).focus({ preventScroll: true });
  }

  private end(): void {
    this.run = null;
    this.busy(false);
    this.compare();
  }

  // ---------------------------------------------------------------- which models there are

  private seed(): number {
    return Number(this.model.parameters()["seed"]);
  }

  private ready(steps: number): boolean {
    return this.model.state === "done" || FORMATS.every((format) => this.trained.has(`${format}/${steps}/${this.seed()}`));
  }

  private async lookUp(): Promise<void> {
    const backend = this.model.widget.backend;
    for (const checkpoint of await this.model.storage.listCheckpoints()) {
      if (checkpoint.backend === backend) this.trained.add(`${checkpoint.format}/${checkpoint.steps}/${checkpoint.seed}`);
    }
    this.tell();
  }

  /** Says what pressing the button would do, if it is not simply to answer. */
  private tell(): void {
    if (this.run || (this.traces.childElementCount > 0 && !this.traces.hasAttribute("data-stale"))) return;
    const steps = Number(this.checkpoint.value);
    const values = { steps: formatNumber(steps, "integer"), seed: String(this.seed()) };
    const active = this.model.state === "running" || this.model.state === "paused";
    const stale = this.traces.childElementCount > 0 ? strings.sum.stale : "";
    setText(this.note, [stale, this.ready(steps) ? "" : this.fillText(active ? "training" : "needs", values)].filter(Boolean).join(" "));
  }

  /** Dims the traces once the form or the widget's seed no longer ask for them. */
  private compare(): void {
    const stale = this.traces.childElementCount > 0 && this.wish() !== this.asked;
    const was = this.traces.hasAttribute("data-stale");
    this.traces.toggleAttribute("data-stale", stale);
    if (was && !stale) setText(this.note, this.answered);
    else this.tell();
  }

  private wish(): string {
    return JSON.stringify([this.first.value.trim(), this.second.value.trim(), this.checkpoint.value, this.seed()]);
  }

  private checkpointText(): string {
    const parameter = this.model.widget.parameters.find(({ name }) => name === "checkpoint");
    return parameter ? valueText(parameter, this.model.widget.labels.parameters["checkpoint"], Number(this.checkpoint.value)) : "";
  }

  // ---------------------------------------------------------------- showing

  private show(trace: Trace): void {
    const text = trace.tokens.map(({ token }) => token).join("");
    const groups = groupsOf(text, trace.model);
    const verdict = trace.correct ? this.text("correct") : this.fillText("wrong", { expected: formatNumber(trace.total, "integer") });
    const detail = make("div", { class: "token-detail" }, make("p", {}, this.text("select")));
    const row = make("ol", { class: "tokens" });
    let at = 0;
    for (const group of groups) {
      const cells = trace.tokens
        .slice(at, at + group.length + (group.closed ? 1 : 0))
        .map((token, index) => this.cell(token, at + index, row, detail));
      const name = group.name ? make("span", { class: "group-name" }, this.text(group.name)) : null;
      row.append(
        make("li", {},
          make("span", { class: "group" }, make("span", { class: "cells" }, ...cells.slice(0, group.length)), name),
          ...cells.slice(group.length)),
      );
      at += cells.length;
    }
    const product = trace.tokens.reduce((whole, { p }) => whole * p, 1);
    const share = formatNumber(product, "percent");
    const answer = trace.answer === null ? this.text("malformed") : formatNumber(trace.answer, "integer");
    const title = this.text(trace.model);
    const outcome = make("p", { class: "trace-outcome" },
      make("span", { class: "trace-answer" }, answer), " ",
      make("span", { class: "trace-verdict" }, `${trace.correct ? "✓" : "✗"}\u00a0${verdict}`),
    );
    outcome.style.setProperty("--i", String(trace.tokens.length + 2));
    this.traces.append(
      make("div", { class: "trace", role: "group", "data-trace": trace.model, "data-correct": String(trace.correct), "aria-label": title },
        make("p", { class: "trace-head" },
          make("strong", { class: "trace-model" }, title), " ",
          make("span", { class: "trace-of" }, this.heading),
        ),
        make("span", { class: "trace-prompt" }, make("span", { class: "visually-hidden" }, `${this.text("prompt")}: `), trace.prompt),
        row,
        outcome,
        detail,
        make("p", { class: "trace-product" }, this.fillText("product", { share })),
      ),
    );
    this.model.announce(`${title}: ${answer}. ${verdict}.`);
  }

  private cell(token: Token, index: number, row: HTMLElement, detail: HTMLElement): HTMLElement {
    const share = formatNumber(token.p, "percent", 0);
    const button = make("button", { type: "button", class: "token", "aria-pressed": "false", "data-p": token.p, title: formatNumber(token.p, "percent") },
      make("span", { class: "token-character" }, token.token),
      make("span", { class: "token-bar", "aria-hidden": "true" }),
      make("span", { class: "token-share" }, make("span", { class: "visually-hidden" }, `${this.text("probability")} `), share),
    );
    button.style.setProperty("--p", String(token.p));
    button.style.setProperty("--i", String(index));
    button.addEventListener("click", () => {
      for (const other of row.querySelectorAll(".token")) other.setAttribute("aria-pressed", String(other === button));
      detail.replaceChildren(this.detail(token));
    });
    return button;
  }

  private detail(token: Token): HTMLElement {
    const line = (character: string, p: number, chosen: boolean): HTMLElement => {
      const bar = make("span", { class: "option-bar", "aria-hidden": "true" });
      bar.style.setProperty("--p", String(p));
      return make("li", chosen ? { class: "chosen" } : {},
        make("span", { class: "option-character" }, character), bar, make("span", { class: "option-share" }, formatNumber(p, "percent")));
    };
    return make("div", { role: "status" },
      make("p", {}, `«${token.token}», ${this.text("probability")} ${formatNumber(token.p, "percent")}. ${this.text("alternatives")}:`),
      make("ul", { class: "options" },
        line(token.token, token.p, true),
        ...token.alternatives.map(({ token: character, p }) => line(character, p, false))),
    );
  }

  // ---------------------------------------------------------------- small parts

  private number(name: string, value: string, alert: string): HTMLInputElement {
    return make("input", {
      type: "text", inputmode: "numeric", name, id: `${this.model.uid}-sum-${name}`, value, maxlength: 12, size: 3,
      autocomplete: "off", "aria-describedby": alert,
    });
  }

  private field(control: HTMLInputElement | HTMLSelectElement, label: string): HTMLElement {
    return make("div", { class: "field" }, make("label", { for: control.id }, label), control);
  }

  private label(name: string): string {
    const labels = (this.model.widget.labels.asides?.[ASIDE]?.["parameters"] ?? {}) as Record<string, { label: string }>;
    return labels[name]?.label ?? name;
  }

  private text(key: string): string {
    const text = this.texts[key];
    if (typeof text !== "string") throw new Error(`widgets/cot/labels.toml has no asides.${ASIDE}.${key}`);
    return text;
  }

  private fillText(key: string, values: Readonly<Record<string, string>>): string {
    return fill(this.text(key), values);
  }
}

interface Group {
  name?: string;
  length: number;
  /** A punctuation mark follows, which stays on the group's line. */
  closed: boolean;
}

/** Cuts a well-formed response into its named parts; anything else stays whole. */
function groupsOf(text: string, format: Trace["model"]): Group[] {
  const match = format === "reasoned" ? /^(\d\d),(\d\d):(\d+)\.$/.exec(text) : /^(\d+)\.$/.exec(text);
  if (!match) return [{ length: text.length, closed: false }];
  const names = format === "reasoned" ? ["units", "tens", "sum"] : ["sum"];
  return names.map((name, index) => ({ name, length: match[index + 1]?.length ?? 0, closed: true }));
}
