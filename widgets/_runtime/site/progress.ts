/** The reader's progress, one small record per lesson and kind, in the course's storage. */

import { openStorage, type Storage } from "../engine/storage";

export type Answers = Record<string, number[]>;
export type Marks = Record<string, boolean>;

export class Progress {
  private storage: Promise<Storage> | undefined;
  private asked = false;

  constructor(private readonly course: string) {}

  /** Opened at the first use, so that a page that keeps nothing touches no storage. */
  open(): Promise<Storage> {
    return (this.storage ??= openStorage(this.course));
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

  keepAnswers(lesson: string, answers: Answers): Promise<void> {
    return this.keep(`quiz/${lesson}`, answers);
  }

  keepMarks(lesson: string, marks: Marks): Promise<void> {
    return this.keep(`resources/${lesson}`, marks);
  }

  keepVisit(lesson: string): Promise<void> {
    return this.keep(`visit/${lesson}`, { seen: true });
  }

  private async keep(id: string, value: unknown): Promise<void> {
    const storage = await this.open();
    await storage.putProgress(id, value);
    if (!this.asked && !id.startsWith("visit/")) {
      this.asked = true;
      await storage.persist(); // from a click: the moment when browsers say yes
    }
  }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
