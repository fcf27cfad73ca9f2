/** How the reader likes to read. In localStorage, since it must be known before the first paint; nothing else is. */

export type Theme = "light" | "dark";
export type Level = "concept" | "practice" | "research";
export const LEVELS: readonly Level[] = ["concept", "practice", "research"];

export interface Preferences {
  theme?: Theme;
  /** "Sense fórmules" everywhere. */
  plain?: boolean;
  /** Sections that differ from the rest of the course: "slug#id" → without formulas. */
  sections?: Record<string, boolean>;
  level?: Level;
}

export function readPreferences(course: string): Preferences {
  try {
    return validated(JSON.parse(localStorage.getItem(key(course)) ?? "{}"));
  } catch {
    return {}; // no storage (a sandboxed frame), or not ours
  }
}

export function writePreferences(course: string, change: Partial<Preferences>): Preferences {
  const preferences = { ...readPreferences(course), ...change };
  try {
    localStorage.setItem(key(course), JSON.stringify(preferences));
  } catch {
    // The choice holds for this page only.
  }
  return preferences;
}

function key(course: string): string {
  return `raona-${course}:preferences`;
}

function validated(value: unknown): Preferences {
  if (typeof value !== "object" || value === null) return {};
  const { theme, plain, sections, level } = value as Record<string, unknown>;
  const preferences: Preferences = {};
  if (theme === "light" || theme === "dark") preferences.theme = theme;
  if (typeof plain === "boolean") preferences.plain = plain;
  if (LEVELS.includes(level as Level)) preferences.level = level as Level;
  if (typeof sections === "object" && sections !== null) {
    preferences.sections = Object.fromEntries(Object.entries(sections).filter((entry): entry is [string, boolean] => typeof entry[1] === "boolean"));
  }
  return preferences;
}
