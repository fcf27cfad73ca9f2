/** The reader's progress, one small record per lesson and kind, in the course's storage. */

import { openStorage, type Storage } from "../engine/storage";

export type Answers = Record<string, number[]>;
export type Marks = Record<string, boolean>;

export class Progress {
  private storage: Promise<Storage> | undefined;
  private asked = false;
  private notice = "";

  constructor(private readonly course: string) {}

  /** Opened at the first use, so that a page that keeps nothing touches no storage. */
  open(): Promise<Storage> {
    this.storage ??= openStorage(this.course).then((storage) => {
      storage.onNotice((message) => {
        this.notice = message;
      });
      return storage;
    });
    return this.storage;
  }

  /** Solved questions of a lesson: question → the answers chosen. */
  async answers(lesson: string): Promise<Answers> {
    const stored = record(await (await this.open()).getProgress(`quiz/${lesson}`));
    return Object.fromEntries(
      Object.entries(stored).filter((entry): entry is [string, number[]] => Array.isArray(entry[1]) && entry[1].every(Number.isInteger)),
    );
  }

  /** Resources of a lesson marked as read. */
  async marks(lesson: string): Promise<Marks> {
    const stored = record(await (await this.open()).getProgress(`resources/${lesson}`));
    return Object.fromEntries(Object.entries(stored).filter((entry): entry is [string, boolean] => typeof entry[1] === "boolean"));
  }

  async visited(lesson: string): Promise<boolean> {
    return Object.keys(record(await (await this.open()).getProgress(`visit/${lesson}`))).length > 0;
  }

  /** Like everything that keeps something: resolves to null, or to the reason, in Catalan, why it is not kept. */
  keepAnswers(lesson: string, answers: Answers): Promise<string | null> {
    return this.keep(`quiz/${lesson}`, answers);
  }

  keepMarks(lesson: string, marks: Marks): Promise<string | null> {
    return this.keep(`resources/${lesson}`, marks);
  }

  keepVisit(lesson: string): Promise<string | null> {
    return this.keep(`visit/${lesson}`, { seen: true });
  }

  private async keep(id: string, value: unknown): Promise<string | null> {
    const storage = await this.open();
    const kept = await storage.putProgress(id, value).then(() => storage.persistent, () => false);
    if (!kept) return this.notice;
    if (!this.asked && !id.startsWith("visit/")) {
      this.asked = true;
      await storage.persist(); // from a click: the moment when browsers say yes
    }
    return null;
  }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
