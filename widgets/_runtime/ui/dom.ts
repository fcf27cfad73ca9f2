/** Small helpers over the server-rendered skeleton (theme/widget.html). */

/** The element marked `data-part=name`; the template and this code are one contract, so a missing one throws. */
export function part<E extends HTMLElement = HTMLElement>(root: ParentNode, name: string): E {
  const element = root.querySelector<E>(`[data-part="${name}"]`);
  if (!element) throw new Error(`theme/widget.html has no [data-part="${name}"]`);
  return element;
}

/** As `part`, for what a widget may not have. */
export function maybePart<E extends HTMLElement = HTMLElement>(root: ParentNode, name: string): E | null {
  return root.querySelector<E>(`[data-part="${name}"]`);
}

type Child = Node | string | null | undefined;

/** Creates an element with attributes (false leaves one out, true gives an empty one) and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string | boolean | number>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/** Sets the text only when it differs, so that a live region does not repeat itself. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
