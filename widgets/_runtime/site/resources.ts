/** "Marca els que hagis llegit": check boxes beside the bibliography. */

import type { Marks, Progress } from "./progress";
import { texts } from "./texts";
import { tellUnsaved } from "./unsaved";

export async function setUpResources(progress: Progress, lesson: string): Promise<void> {
  const items = [...document.querySelectorAll<HTMLElement>("[data-resource]")];
  if (!items.length) return;
  const marks: Marks = {};
  const boxes = new Map<string, HTMLInputElement>();
  const show = (): void => {
    for (const [key, box] of boxes) box.checked = marks[key] === true;
    const read = [...boxes.keys()].filter((key) => marks[key]).length;
    for (const counter of document.querySelectorAll("[data-resource-counter]")) {
      counter.textContent = texts.resources.counter(read, boxes.size);
    }
  };
  for (const item of items) {
    const box = item.querySelector<HTMLInputElement>("[data-resource-check]");
    const key = item.dataset["resource"];
    if (!box || key === undefined) continue;
    boxes.set(key, box);
    box.addEventListener("change", () => {
      marks[key] = box.checked;
      show();
      void progress.keepMarks(lesson, marks).then((why) => tellUnsaved(box.closest("label") ?? box, why));
    });
  }
  Object.assign(marks, { ...(await progress.marks(lesson)), ...marks });
  show();
}
