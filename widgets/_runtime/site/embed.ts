/** A widget inside another page: tells the parent its height whenever that changes. */

export function setUpEmbed(widget: string): void {
  if (!document.documentElement.classList.contains("embed") || window.parent === window) return;
  let last = 0;
  const tell = (): void => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    if (height === last) return;
    last = height;
    // Any parent may embed a widget, and a height is no secret.
    window.parent.postMessage({ type: "raona:height", widget, height }, "*");
  };
  new ResizeObserver(tell).observe(document.body);
  tell();
}
