/** One widget of a page: its state, its runs, and what the reader does to it. */

import type { LoadStage, Parameters, Reading, RunEvent, RunHandle, RunRecord, RunResult, RunState } from "../engine/protocol";
import type { Runtime } from "../engine/runtime";
import type { Storage } from "../engine/storage";
import { Announcer } from "./announcer";
import type { WidgetDescription } from "./describe";
import { maybePart, part, setText } from "./dom";
import { Behind, History, type Shown } from "./history";
import { readLink, writeLink } from "./link";
import { Notes } from "./notes";
import { formatNumber } from "./numbers";
import { Controls, defaults, differing, valueText } from "./parameters";
import { type Prediction, PredictView } from "./predict";
import { megabytes, ProgressView } from "./progress";
import { Recorded } from "./recorded";
import { Rereader } from "./rereader";
import { ResultsView } from "./results";
import { ShareBox } from "./share";
import { fill, strings, tookText, whenText } from "./text";
import { type Action, Toolbar } from "./toolbar";
import type { Cleanup, ViewEvent, ViewModel, ViewModule, WidgetState } from "./view";

interface Site {
  section: HTMLElement;
  description: WidgetDescription;
  runtime: Runtime;
  storage: Storage;
  view: (() => Promise<ViewModule>) | undefined;
  /** The page's address speaks of this widget. */
  ownsLink: boolean;
}

/** A chart that takes longer than this to fetch is not waited for. */
const CHART_MILLISECONDS = 8000;

/** A run that is on. */
interface Attempt {
  parameters: Parameters;
  prediction: Prediction;
  /** Everything that it trained outlives the page. */
  stored: boolean;
  handle: RunHandle | null;
  /** The results that it replaces, to compare with and to go back to. */
  before: Shown | null;
}

export class Controller implements ViewModel {
  readonly section: HTMLElement;
  readonly widget: WidgetDescription;
  readonly runtime: Runtime;
  readonly storage: Storage;
  readonly uid: string;
  state: WidgetState = "idle";

  private readonly controls: Controls;
  private readonly predict: PredictView;
  private readonly progress: ProgressView;
  private readonly results: ResultsView;
  private readonly toolbar: Toolbar;
  private readonly notes: Notes;
  private readonly sharing: ShareBox;
  private readonly announcer: Announcer;
  private readonly history: History;
  private readonly behind: Behind;
  private readonly recorded: Recorded;
  private readonly rereader: Rereader;
  private readonly alert: HTMLElement;
  private readonly listeners = new Set<(event: ViewEvent) => void>();
  private readonly cleanups: Cleanup[] = [];
  private readonly events = new AbortController();

  private attempt: Attempt | null = null;
  private shown: Shown | null = null;
  private readonly ownsLink: boolean;

  constructor({ section, description, runtime, storage, view, ownsLink }: Site) {
    this.section = section;
    this.widget = description;
    this.runtime = runtime;
    this.storage = storage;
    this.uid = section.id;
    this.ownsLink = ownsLink;
    this.controls = new Controls(part(section, "parameters"), description);
    this.predict = new PredictView(section, description.labels.predict);
    this.progress = new ProgressView(section, description.labels);
    this.results = new ResultsView(section, description);
    this.notes = new Notes(part(section, "notes"));
    this.sharing = new ShareBox(section);
    this.announcer = new Announcer(part(section, "status"));
    this.history = new History(description);
    this.behind = new Behind(description, this.history, runtime, (runs) => (this.results.previous = runs));
    this.recorded = new Recorded(section, () => this.shown !== null);
    this.rereader = new Rereader(runtime, description.id, {
      shown: () => this.shown,
      tell: (text) => (text === null ? this.notes.clear("reread") : this.notes.set("reread", text)),
      read: (shown, parameters, reading) => this.onReading(shown, parameters, reading),
      failed: (message) => this.complain(message),
    });
    this.alert = part(section, "alert");
    this.toolbar = new Toolbar(section, (action) => this.act(action));

    part(section, "live").hidden = false;
    const signal = this.events.signal;
    this.recorded.hydrate(signal);
    const code = maybePart<HTMLDetailsElement>(section, "code");
    if (!code) this.toolbar.button("code")?.remove();
    code?.addEventListener("toggle", () => this.toolbar.text("code", strings.actions[code.open ? "hide-code" : "code"]), { signal });
    part(section, "parameters").addEventListener("keydown", (event) => this.onKey(event), { signal });
    part(section, "parameters").addEventListener("input", (event) => this.onInput(event), { signal });
    this.cleanups.push(runtime.subscribe((status, stage, error) => this.onRuntime(status, stage, error)));

    const given = { ...this.presets(), ...this.linked() };
    this.controls.write({ ...defaults(description), ...given });
    this.results.marked = this.values();
    this.enter("idle");
    void this.restore(given);
    void this.mount(view);
  }

  /** Fetches what a run needs, chart first: once the runtime is ready the network is needed no more. */
  async prepare(): Promise<void> {
    await Promise.race([this.loadChart(), new Promise((resolve) => setTimeout(resolve, CHART_MILLISECONDS))]);
    await this.runtime.load().catch(() => undefined); // onRuntime tells, and Run tries again
  }

  close(): void {
    this.attempt?.handle?.stop();
    this.events.abort();
    this.announcer.close();
    for (const cleanup of this.cleanups) cleanup();
  }

  // ---------------------------------------------------------------- what a view may ask (ViewModel)

  parameters(): Parameters {
    return this.attempt?.parameters ?? this.shown?.run.params ?? this.values();
  }

  on(listener: (event: ViewEvent) => void): Cleanup {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  announce(text: string): void {
    this.announcer.say(text);
  }

  /** What the storage, here or in the engine, has to tell: e.g. that there is no room left. */
  notice(text: string): void {
    this.notes.set("storage", text);
  }

  // ---------------------------------------------------------------- what the reader does

  private act(action: Action): void {
    switch (action) {
      case "run":
        return this.run();
      case "pause":
        return this.attempt?.handle?.pause();
      case "resume":
        return this.attempt?.handle?.resume();
      case "stop":
        return this.attempt?.handle?.stop();
      case "repeat":
        return this.repeat();
      case "new-seed":
        return this.newSeed();
      case "share":
        void this.share();
        return;
      case "code":
        return this.showCode();
    }
  }

  private run(parameters?: Parameters): void {
    if (this.attempt) return;
    const read = this.controls.read();
    if (!read.ok) {
      this.complain(read.message);
      read.control.focus();
      return;
    }
    const attempt: Attempt = {
      parameters: parameters ?? read.values,
      prediction: this.predict.value,
      stored: true,
      handle: null,
      before: this.shown,
    };
    this.attempt = attempt;
    this.shown = null;
    this.rereader.cancel();
    this.complain("");
    this.notes.clear("stale", "restored", "stopped", "interrupted", "same-digest", "other-digest", "as-recorded", "link", "changed", "undone", "run");
    this.sharing.hide();
    this.results.clear();
    this.behind.show(null, attempt.parameters);
    this.results.show(true);
    this.results.readAt(attempt.parameters);
    this.progress.reset();
    this.recorded.close();
    this.enter("loading");
    this.syncAddress();
    void this.loadChart();
    this.start(attempt);
  }

  private start(attempt: Attempt): void {
    attempt.handle = this.runtime.start(this.widget.id, attempt.parameters, {
      state: (state, detail) => {
        if (this.attempt === attempt) this.onState(attempt, state, detail);
      },
      event: (event) => {
        if (this.attempt === attempt) this.onEvent(attempt, event);
      },
      done: (result) => {
        if (this.attempt === attempt) this.onDone(attempt, result);
      },
    });
  }

  /** Runs with the very parameters of the run shown, so that the same bits are due. */
  private repeat(): void {
    const shown = this.shown;
    if (!shown) return this.run();
    this.controls.write({ ...shown.run.params, ...this.rereadOnly(shown.read) });
    this.run(shown.run.params);
  }

  private newSeed(): void {
    const before = this.values();
    const seed = Math.floor(Math.random() * 9999) + 1;
    this.controls.write({ ...before, seed: seed === before["seed"] ? seed + 1 : seed });
    const former = this.shown;
    this.run(); // with the bet that there is: whoever wants another one has it there to change
    if (!this.attempt) return;
    const [after, formerSeed] = [this.seedText(this.values()["seed"]), this.seedText(before["seed"])];
    this.notes.set("changed", fill(strings.parameters["new-seed"], { after, before: formerSeed }), {
      label: strings.actions.undo,
      run: () => this.goBack(before, former),
    });
  }

  /** Undoes a new seed: ends its run and shows the former results again. */
  private goBack(parameters: Parameters, former: Shown | null): void {
    const attempt = this.attempt;
    this.attempt = null;
    attempt?.handle?.stop();
    this.notes.clear("changed", "stopped", "same-digest", "other-digest", "as-recorded");
    this.complain("");
    this.controls.write(parameters);
    this.syncAddress();
    this.progress.hide();
    if (former) {
      this.display(former);
      this.enter("done");
    } else {
      this.results.show(false);
      this.results.verdict(null);
      this.enter("idle");
    }
    this.announcer.answer(strings.results.undone);
    this.toolbar.button("run")?.focus({ preventScroll: true });
  }

  private async share(): Promise<void> {
    const read = this.controls.read();
    if (!read.ok) {
      this.complain(read.message);
      read.control.focus();
      return;
    }
    const link = writeLink(location.href, this.widget.id, read.values, this.section.id);
    this.announcer.answer(await this.sharing.offer(link));
  }

  private showCode(): void {
    const code = maybePart<HTMLDetailsElement>(this.section, "code");
    if (!code) return;
    code.open = !code.open;
    if (!code.open) return;
    code.querySelector("summary")?.focus();
    code.scrollIntoView({ block: "start" });
  }

  /** Enter in a number's field does what it does in a form. */
  private onKey(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.key !== "Enter" || !(target instanceof HTMLInputElement) || target.type !== "number") return;
    event.preventDefault();
    this.run();
  }

  private onInput(event: Event): void {
    const target = event.target as HTMLInputElement | HTMLSelectElement;
    this.controls.show(target.name);
    const read = this.controls.read();
    this.complain(read.ok ? "" : read.message);
    if (!read.ok) return;
    this.notes.clear("link", "undone");
    this.results.marked = read.values;
    this.syncAddress();
    this.emit({ type: "parameters", parameters: read.values });
    if (this.shown && !this.attempt) this.compare(this.shown, read.values);
  }

  /** Marks results as stale, or reads their samples again, after a change in the controls. */
  private compare(shown: Shown, values: Parameters): void {
    const changed = differing(this.widget, shown.run.params, values).filter(({ rereads }) => !rereads);
    const first = changed[0];
    this.results.stale = first !== undefined;
    if (first) {
      const labels = this.widget.labels.parameters[first.name];
      const before = valueText(first, labels, shown.run.params[first.name] ?? null);
      this.notes.set("stale", fill(strings.parameters.stale, { label: labels?.label ?? first.name, before }), {
        label: strings.actions.undo,
        run: () => {
          this.controls.write({ ...shown.run.params, ...this.rereadOnly(shown.read) });
          this.results.marked = this.values();
          this.compare(shown, this.values());
          this.syncAddress();
        },
      });
    } else this.notes.clear("stale");
    const read = { ...shown.run.params, ...this.rereadOnly(values) };
    if (differing(this.widget, shown.read, read).length > 0) this.rereader.request(read);
  }

  // ---------------------------------------------------------------- what the engine says

  private onState(attempt: Attempt, state: RunState, detail: string | undefined): void {
    switch (state) {
      case "loading":
        return this.enter("loading");
      case "running":
        if (this.state === "paused") this.announcer.answer(strings.states.resumed);
        else if (this.state === "loading") this.announcer.say(strings.states.running);
        this.progress.start();
        return this.enter("running");
      case "waiting":
        this.progress.waiting();
        return this.enter("running");
      case "paused":
        this.progress.pause();
        this.announcer.answer(strings.states.paused);
        return this.enter("paused");
      case "stopped":
        return this.onStopped(attempt);
      case "error":
        return this.onError(detail ?? "");
      case "done":
        return; // onDone follows with the results
    }
  }

  private onEvent(attempt: Attempt, event: RunEvent): void {
    switch (event.type) {
      case "progress":
        this.progress.update(event.stage, event.done, event.total);
        break;
      case "point":
        this.results.point(event.series, event.x, event.y);
        break;
      case "readout": {
        this.results.readout(event.name, event.value);
        const readout = this.widget.labels.readouts[event.name]?.label ?? event.name;
        const value = this.results.readouts.text(event.name, event.value);
        this.announcer.say(fill(strings.progress.reached, { readout, value }));
        break;
      }
      case "checkpoint":
        attempt.stored &&= event.stored;
        this.announcer.say(
          fill(strings.progress[event.stored ? "checkpoint" : "checkpoint-unsaved"], { steps: formatNumber(event.steps, "integer") }),
        );
        break;
      case "sample": // comes back whole in the run's record
        break;
      case "note":
        this.notes.set("run", event.text);
        break;
    }
    this.emit({ type: "run", event });
  }

  private onDone(attempt: Attempt, result: RunResult): void {
    this.attempt = null;
    const run: RunRecord = { ...result.run, prediction: attempt.prediction };
    void this.storage.saveRun(run).catch(() => undefined); // to add the bet; `onNotice` tells why it cannot
    const twin = this.history.twin(run);
    this.history.add(run);
    this.display({ run, read: run.params });
    this.progress.finish(tookText(this.progress.elapsed));
    if (twin) {
      if (twin.digest === run.digest) this.notes.set("same-digest", strings.results["same-digest"]);
      else this.notes.set("other-digest", strings.results["other-digest"]);
    } else if (this.recorded.matches(run)) {
      this.notes.set("as-recorded", fill(strings.recorded.matched, { seed: this.seedText(run.seed) }));
    }
    this.enter("done");
    this.announcer.answer([strings.states.done, twin ? "" : run.explanation].filter(Boolean).join(" "));
    const values = this.values();
    if (this.shown) this.compare(this.shown, values);
  }

  private onStopped(attempt: Attempt): void {
    this.attempt = null;
    const text = fill(strings.results[attempt.stored ? "stopped" : "stopped-unsaved"], { share: this.progress.shareText });
    const before = attempt.before;
    this.notes.clear("changed");
    this.notes.set("stopped", text, before ? { label: strings.actions.undo, run: () => this.goBack(before.run.params, before) } : undefined);
    this.progress.finish(strings.states.stopped);
    this.results.draw();
    this.enter("idle");
    this.announcer.answer(text);
  }

  private onReading(shown: Shown, parameters: Parameters, reading: Reading): void {
    const changed = this.changedReadouts(reading.readouts);
    shown.read = parameters;
    // A reading has only the series that change with what is read again.
    this.results.reading({ ...reading, series: { ...shown.run.series, ...reading.series } });
    this.results.readAt(parameters);
    this.behind.show(shown.run, parameters);
    this.results.explain(reading.explanation);
    this.results.verdict(this.predict.verdict(shown.run.prediction, reading.outcome, reading.readouts));
    if (changed.length > 0) this.announcer.say(changed.join(" "));
  }

  private onError(message: string): void {
    this.attempt = null;
    this.progress.hide();
    this.results.draw();
    this.enter("error");
    this.complain(message);
  }

  private onRuntime(status: Runtime["status"], stage: LoadStage | undefined, error: string | undefined): void {
    this.notes.clear("runtime");
    if (status === "ready") this.behind.again();
    if (status === "loading") {
      if (this.attempt && this.state === "loading") this.progress.loading(stage);
      else if (!this.attempt && stage) {
        const text = [strings.runtime[stage.stage], stage.totalBytes > 0 ? megabytes(stage) : ""].filter(Boolean).join(", ");
        this.notes.set("runtime", fill(strings.runtime.background, { stage: text }));
      }
    } else if (status === "failed" && !this.attempt) {
      this.notes.set("runtime", fill(strings.runtime.failed, { message: error ?? "" }));
    }
  }

  // ---------------------------------------------------------------- showing

  private enter(state: WidgetState): void {
    this.state = state;
    this.section.dataset["state"] = state;
    const active = state === "loading" || state === "running" || state === "paused";
    this.toolbar.show(state);
    this.controls.lock(active);
    this.predict.lock(active);
    this.emit({ type: "state", state });
  }

  private display(shown: Shown): void {
    this.shown = shown;
    const { run } = shown;
    this.results.show(true);
    this.results.reading(run);
    this.results.stale = false;
    this.results.explain(run.explanation);
    this.results.verdict(this.predict.verdict(run.prediction, run.outcome, run.readouts));
    this.results.provenance(run);
    this.results.readAt(shown.read);
    this.behind.show(run, shown.read);
    this.results.draw();
    this.recorded.close();
  }

  /** Nothing waits for this for long: without a chart there are the readouts and the table. */
  private async loadChart(): Promise<void> {
    const late = setTimeout(() => {
      if (this.attempt || this.shown) this.notes.set("chart", strings.runtime["chart-late"]);
    }, CHART_MILLISECONDS);
    try {
      await this.results.load();
      this.notes.clear("chart");
    } catch {
      this.notes.set("chart", strings.runtime["chart-failed"]);
    } finally {
      clearTimeout(late);
    }
  }

  private complain(message: string): void {
    setText(this.alert, message);
  }

  private changedReadouts(values: Readonly<Record<string, number | null>>): string[] {
    const shown = this.section.querySelectorAll<HTMLElement>("[data-readout]");
    const changed: string[] = [];
    for (const element of shown) {
      const name = element.dataset["readout"] ?? "";
      const value = values[name];
      if (value === undefined || value === null || String(value) === element.dataset["value"]) continue;
      const readout = this.widget.labels.readouts[name]?.label ?? name;
      changed.push(fill(strings.progress.reached, { readout, value: this.results.readouts.text(name, value) }));
    }
    return changed;
  }

  // ---------------------------------------------------------------- parameters, link, storage

  /** The controls' values; where one is invalid, its default. */
  private values(): Parameters {
    const read = this.controls.read();
    return read.ok ? read.values : defaults(this.widget);
  }

  private rereadOnly(values: Parameters): Parameters {
    const names = this.widget.parameters.filter(({ rereads }) => rereads).map(({ name }) => name);
    return Object.fromEntries(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])));
  }

  private seedText(seed: Parameters[string] | undefined): string {
    return typeof seed === "number" ? String(seed) : ""; // a name, not a quantity
  }

  private presets(): Parameters {
    const presets = this.section.dataset["presets"];
    return presets ? (JSON.parse(presets) as Parameters) : {};
  }

  private linked(): Parameters {
    if (!this.ownsLink) return {};
    const { values, problems } = readLink(location.search, this.widget);
    if (problems.length > 0) this.complain(fill(strings.link.bad, { problems: problems.join(" ") }));
    else if (Object.keys(values).length > 0) this.notes.set("link", strings.link.restored);
    return values;
  }

  /** An address that carries this widget's settings keeps up with them, so that a reload finds them. */
  private syncAddress(): void {
    if (!this.ownsLink) return;
    const anchor = location.hash.slice(1);
    history.replaceState(history.state, "", writeLink(location.href, this.widget.id, this.values(), anchor, true));
  }

  /** Shows the last finished run again, unless a link or the lesson asks for another one. */
  private async restore(given: Parameters): Promise<void> {
    const newest = await this.history.load(this.storage);
    if (this.attempt || this.shown) return; // the reader was faster
    if (newest?.state === "running") {
      const values = { seed: this.seedText(newest.seed), when: whenText(newest.created) };
      this.notes.set("interrupted", fill(strings.results.interrupted, values));
    }
    const run = this.history.matching(given);
    if (!run) return;
    const shown = { run, read: run.params };
    this.controls.write({ ...run.params, ...given });
    this.results.marked = this.values();
    this.predict.value = isPrediction(run.prediction) ? run.prediction : null;
    this.display(shown);
    const values = { when: whenText(run.created), seed: this.seedText(run.seed) };
    this.notes.clear("link");
    this.notes.set("restored", fill(strings.results.restored, values));
    this.enter("done");
    void this.loadChart();
    this.compare(shown, this.values());
  }

  private async mount(load: (() => Promise<ViewModule>) | undefined): Promise<void> {
    if (!load) return;
    const view = await load().then((module) => module.default, () => null);
    if (this.events.signal.aborted) return;
    if (!view) return this.notes.set("view", strings.runtime["view-failed"]);
    const element = part(this.section, "view");
    element.hidden = false;
    const undo = [view.initialize?.({ model: this }), view.render({ model: this, element })];
    for (const cleanup of undo) if (cleanup) this.cleanups.push(cleanup);
  }

  private emit(event: ViewEvent): void {
    for (const listener of this.listeners) listener(event);
  }
}

function isPrediction(value: unknown): value is string | number {
  return typeof value === "string" || typeof value === "number";
}
