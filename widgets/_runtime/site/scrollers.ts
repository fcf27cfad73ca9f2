/** What scrolls sideways can be reached with the keyboard; what fits is no stop on the way. */

export function setUpScrollers(): void {
  const boxes = document.querySelectorAll<HTMLElement>(".formula, .table-wrap, pre.code");
  const mark = (box: HTMLElement): void => {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) mark(target as HTMLElement);
  });
  for (const box of boxes) observer.observe(box);
}
