/** How a lesson is read: "sense fórmules" for the course and for one section, reading levels, the place in the contents. */

import { LEVELS, readPreferences, writePreferences, type Level } from "./preferences";

export function setUpReading(course: string, page: string): void {
  setUpPlain(course, page);
  setUpLevels(course);
  setUpContents();
  setUpPrinting();
}

function setUpPlain(course: string, page: string): void {
  const html = document.documentElement;
  const everywhere = document.querySelector<HTMLButtonElement>("[data-action=plain-all]");
  const buttons = [...document.querySelectorAll<HTMLButtonElement>("[data-action=plain]")];
  const preferences = readPreferences(course);
  let global = preferences.plain ?? false;
  let sections = preferences.sections ?? {};

  const show = (): void => {
    html.toggleAttribute("data-plain", global);
    everywhere?.setAttribute("aria-checked", String(global));
    let mixed = false; // said in words: a switch has no third state
    for (const button of buttons) {
      const section = button.closest("section");
      if (!section) continue;
      const own = sections[`${page}#${section.id}`];
      mixed ||= own !== undefined && own !== global;
      if (own === undefined) delete section.dataset["reading"];
      else section.dataset["reading"] = own ? "plain" : "formal";
      button.setAttribute("aria-checked", String(own ?? global));
    }
    everywhere?.querySelector("[data-mixed]")?.toggleAttribute("hidden", !mixed);
  };
  everywhere?.addEventListener("click", () => {
    global = !global;
    sections = {}; // the last word of the reader is about the whole course
    writePreferences(course, { plain: global, sections });
    show();
  });
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const section = button.closest("section");
      if (!section) return;
      const key = `${page}#${section.id}`;
      const plain = !(sections[key] ?? global);
      const { [key]: _, ...others } = sections;
      sections = plain === global ? others : { ...others, [key]: plain };
      writePreferences(course, { sections });
      show();
    });
  }
  show();
}

function setUpLevels(course: string): void {
  const radios = [...document.querySelectorAll<HTMLInputElement>("input[name=reading-level]")];
  if (!radios.length) return;
  const open = (level: Level): void => {
    for (const passage of document.querySelectorAll<HTMLDetailsElement>("details[data-level]")) {
      passage.open = LEVELS.indexOf(passage.dataset["level"] as Level) <= LEVELS.indexOf(level);
    }
  };
  const chosen = readPreferences(course).level ?? "concept";
  for (const radio of radios) {
    radio.checked = radio.value === chosen;
    radio.addEventListener("change", () => {
      if (!radio.checked) return;
      const level = radio.value as Level;
      writePreferences(course, { level });
      open(level);
    });
  }
  if (chosen !== "concept") open(chosen);
  // A link into a folded passage opens it.
  const reveal = (): void => {
    const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    const passage = target?.closest<HTMLDetailsElement>("details[data-level]");
    if (passage && !passage.open) {
      passage.open = true;
      target?.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);
  reveal();
}

function setUpContents(): void {
  const links = new Map<string, HTMLAnchorElement>();
  for (const link of document.querySelectorAll<HTMLAnchorElement>(".toc a[href^='#']")) links.set(link.hash.slice(1), link);
  if (!links.size || !("IntersectionObserver" in window)) return;
  const visible = new Set<string>();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) visible.add(target.id);
        else visible.delete(target.id);
      }
      const first = [...links.keys()].find((id) => visible.has(id));
      if (first === undefined) return;
      for (const [id, link] of links) {
        if (id === first) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-15% 0px -60% 0px" },
  );
  for (const id of links.keys()) {
    const section = document.getElementById(id);
    if (section) observer.observe(section);
  }
}

/** Paper shows everything: what was folded is opened for the print and folded again after it. */
function setUpPrinting(): void {
  let opened: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll<HTMLDetailsElement>("details:is(.level, .solution, .widget-recorded):not([open])")];
    for (const passage of opened) passage.open = true;
  });
  addEventListener("afterprint", () => {
    for (const passage of opened) passage.open = false;
    opened = [];
  });
}
