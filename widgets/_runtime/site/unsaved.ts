/** One line that says why what the reader has just done will not be remembered. It moves to where that was. */

let line: HTMLElement | undefined;

/** Shows `why` right after `place`; with null, what was said before no longer holds. */
export function tellUnsaved(place: Element, why: string | null): void {
  line?.remove();
  if (why === null) return;
  line = document.createElement("p");
  line.className = "progress-notice";
  line.setAttribute("role", "status");
  place.after(line);
  line.textContent = why; // after the line is there, so that it is read out
}
