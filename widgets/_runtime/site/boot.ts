/**
 * Runs before the first paint, so that nothing jumps: says that there is JavaScript, and puts the remembered theme and
 * the remembered "sense fórmules" on <html>. A classic script in <head>; everything else waits for main.ts.
 */

import { readPreferences } from "./preferences";

const html = document.documentElement;
const preferences = readPreferences(html.dataset["course"] ?? "");
html.classList.add("js");
if (preferences.theme) html.dataset["theme"] = preferences.theme;
html.toggleAttribute("data-plain", preferences.plain === true);
if (html.hasAttribute("data-embeddable") && new URLSearchParams(location.search).get("embed") === "1") html.classList.add("embed");
