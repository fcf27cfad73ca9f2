/** The theme switch: follows the system until the reader chooses, then remembers the choice. */

import { writePreferences, type Theme } from "./preferences";
import { texts } from "./texts";

export function setUpTheme(course: string): void {
  const button = document.querySelector<HTMLButtonElement>("[data-action=theme]");
  if (!button) return;
  const html = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const current = (): Theme => {
    const chosen = html.dataset["theme"];
    return chosen === "light" || chosen === "dark" ? chosen : system.matches ? "dark" : "light";
  };
  const show = (): void => {
    const text = current() === "dark" ? texts.theme.toLight : texts.theme.toDark;
    button.setAttribute("aria-label", text);
    button.title = text;
  };
  button.addEventListener("click", () => {
    const theme: Theme = current() === "dark" ? "light" : "dark";
    html.dataset["theme"] = theme;
    writePreferences(course, { theme });
    show();
  });
  system.addEventListener("change", show);
  show();
}
