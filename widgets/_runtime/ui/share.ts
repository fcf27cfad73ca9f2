/** "Comparteix": copies a link to these settings; without a clipboard (plain http) it offers the text. */

import { part, setText } from "./dom";
import { strings } from "./text";

export class ShareBox {
  private readonly host: HTMLElement;
  private readonly field: HTMLInputElement;
  private readonly text: HTMLElement;

  constructor(root: HTMLElement) {
    this.host = part(root, "share");
    this.field = part<HTMLInputElement>(root, "link");
    this.text = part(root, "share-text");
    this.field.addEventListener("focus", () => this.field.select());
  }

  /** Shows and copies `link`; resolves to what to tell the reader. */
  async offer(link: string): Promise<string> {
    this.field.value = link;
    this.host.hidden = false;
    const copied = (await writeClipboard(link)) || this.copySelection();
    const message = copied ? strings.link.copied : strings.link.manual;
    setText(this.text, message);
    if (!copied) this.field.focus();
    return message;
  }

  hide(): void {
    this.host.hidden = true;
  }

  /** The old way, which also works on an insecure origin. */
  private copySelection(): boolean {
    const focused = document.activeElement;
    this.field.focus({ preventScroll: true });
    this.field.select();
    let copied = false;
    try {
      copied = document.execCommand("copy");
    } catch {
      copied = false;
    }
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
    return copied;
  }
}

async function writeClipboard(text: string): Promise<boolean> {
  if (!("clipboard" in navigator) || !window.isSecureContext) return false;
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
