/** The interface's Catalan texts and how they are filled in. */

import strings from "../strings.json";

export { strings };

/** Fills `{name}` in a template; a name without a value is a mistake in the code, so it throws. */
export function fill(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{([\w-]+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`the text «${template}» needs a value for ${whole}`);
    return value;
  });
}

/** "queden uns 20 s": rounded so that the figure does not twitch. */
export function timeLeft(seconds: number): string {
  if (seconds < 3) return strings.progress.moment;
  if (seconds < 58) {
    const rounded = seconds < 10 ? Math.round(seconds) : Math.round(seconds / 5) * 5;
    return fill(strings.progress.seconds, { seconds: String(rounded) });
  }
  const total = Math.round(seconds / 10) * 10;
  const minutes = Math.floor(total / 60);
  const rest = String(total % 60);
  return minutes === 1
    ? fill(strings.progress.minute, { seconds: rest })
    : fill(strings.progress.minutes, { minutes: String(minutes), seconds: rest });
}

export function tookText(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  const duration =
    seconds < 60
      ? fill(strings.progress["took-seconds"], { seconds: seconds < 10 ? seconds.toFixed(1).replace(".", ",") : seconds.toFixed(0) })
      : fill(strings.progress["took-minutes"], {
          minutes: String(Math.floor(Math.round(seconds) / 60)),
          seconds: String(Math.round(seconds) % 60),
        });
  return fill(strings.progress.took, { duration });
}

/** "el 3 de març a les 17:40" (with "l'1" and "l'11"). */
export function whenText(milliseconds: number): string {
  const date = new Date(milliseconds);
  const day = date.getDate();
  const article = day === 1 || day === 11 ? "l'" : "el ";
  const dayAndMonth = new Intl.DateTimeFormat("ca", { day: "numeric", month: "long" }).format(date);
  const hour = date.getHours();
  const clock = `${hour}:${String(date.getMinutes()).padStart(2, "0")}`;
  return `${article}${dayAndMonth} a ${hour === 1 ? "la" : "les"} ${clock}`;
}
