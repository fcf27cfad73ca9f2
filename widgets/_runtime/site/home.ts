/** The home page: progress on the course map, and its way out of and into the browser as a file. */

import type { Progress } from "./progress";
import { texts } from "./texts";

export async function setUpHome(progress: Progress, course: string): Promise<void> {
  const panel = document.querySelector<HTMLElement>("[data-progress-panel]");
  if (!panel) return;
  const say = (text: string, role: "status" | "alert"): void => {
    for (const place of panel.querySelectorAll<HTMLElement>("[data-message]")) {
      place.textContent = place.dataset["message"] === role ? text : "";
    }
  };
  panel.querySelector("[data-action=export]")?.addEventListener("click", async () => {
    let file: string;
    try {
      file = await (await progress.open()).exportProgress();
    } catch (error) {
      return say(error instanceof Error ? error.message : String(error), "alert");
    }
    const url = URL.createObjectURL(new Blob([file], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = texts.progress.file(course);
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    say(texts.progress.exported, "status");
  });
  const file = panel.querySelector<HTMLInputElement>("input[type=file]");
  panel.querySelector("[data-action=import]")?.addEventListener("click", () => file?.click());
  file?.addEventListener("change", async () => {
    const chosen = file.files?.[0];
    if (!chosen) return;
    try {
      const count = await (await progress.open()).importProgress(await chosen.text());
      say(texts.progress.imported(count), "status");
      await showProgress(progress);
    } catch (error) {
      say(texts.progress.failed(error instanceof Error ? error.message : String(error)), "alert");
    }
    file.value = "";
  });
  // Only now: a click meanwhile is not lost.
  const storage = await progress.open();
  const notice = panel.querySelector("[data-notice]");
  storage.onNotice((message) => notice?.replaceChildren(message));
  storage.onChange((store) => {
    if (store === "progress") void showProgress(progress);
  });
  await showProgress(progress);
}

async function showProgress(progress: Progress): Promise<void> {
  for (const card of document.querySelectorAll<HTMLElement>("[data-lesson]")) {
    const lesson = card.dataset["lesson"] ?? "";
    const state = await lessonProgress(progress, lesson, Number(card.dataset["questions"]), Number(card.dataset["references"]));
    card.dataset["progress"] = state.kind;
    const text = card.querySelector("[data-progress-text]");
    if (text) text.textContent = state.text;
    const bar = card.querySelector<HTMLProgressElement>("progress");
    if (bar) bar.value = state.share;
  }
  showStart();
}

/** The way in: the first lesson that is written and not done. */
function showStart(): void {
  const ready = [...document.querySelectorAll<HTMLElement>("[data-lesson]:not(.card-planned)")];
  const next = ready.find((card) => card.dataset["progress"] !== "done") ?? ready[0];
  const link = next?.querySelector<HTMLAnchorElement>("h3 a");
  const start = document.querySelector<HTMLAnchorElement>("[data-start]");
  if (!link || !start) return;
  start.setAttribute("href", link.getAttribute("href") ?? "");
  start.textContent = ready.some((card) => card.dataset["progress"] !== "none") ? texts.progress.goOn : texts.progress.begin;
  document.querySelector("[data-start-title]")?.replaceChildren(link.textContent ?? "");
}

interface LessonProgress {
  kind: "none" | "started" | "done";
  text: string;
  share: number;
}

async function lessonProgress(progress: Progress, lesson: string, questions: number, references: number): Promise<LessonProgress> {
  const solved = Math.min(questions, Object.keys(await progress.answers(lesson)).length);
  const read = Math.min(references, Object.values(await progress.marks(lesson)).filter(Boolean).length);
  const visited = await progress.visited(lesson);
  if (!visited && !solved && !read) return { kind: "none", text: texts.progress.none, share: 0 };
  const parts = [];
  if (questions) parts.push(texts.progress.questions(solved, questions));
  if (references) parts.push(texts.progress.resources(read, references));
  const done = questions > 0 && solved === questions;
  const head = done ? texts.progress.done : texts.progress.started;
  return { kind: done ? "done" : "started", text: [head, ...parts].join(" · "), share: questions ? solved / questions : 0 };
}

/** Beside each prerequisite of a lesson, how much of it is done. */
export async function setUpNeeds(progress: Progress): Promise<void> {
  for (const need of document.querySelectorAll<HTMLElement>("[data-need]")) {
    const all = Number(need.dataset["questions"]);
    if (!all) continue;
    const solved = Math.min(all, Object.keys(await progress.answers(need.dataset["need"] ?? "")).length);
    if (solved) need.append(texts.progress.need(solved, all));
  }
}
