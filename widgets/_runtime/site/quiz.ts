/** "Comprova que ho has entès": each answer is checked and explained, and solved questions are remembered. */

import type { Answers, Progress } from "./progress";
import { texts } from "./texts";
import { tellUnsaved } from "./unsaved";

export async function setUpQuizzes(progress: Progress, lesson: string): Promise<void> {
  const quizzes = [...document.querySelectorAll<HTMLElement>("[data-quiz]")];
  if (!quizzes.length) return;
  const answers: Answers = {};
  const questions: Question[] = [];
  const count = (): void => {
    for (const quiz of quizzes) {
      const all = [...quiz.querySelectorAll<HTMLElement>("[data-question]")];
      const solved = all.filter((question) => question.dataset["solved"] === "true").length;
      const counter = quiz.querySelector("[data-quiz-counter]");
      if (counter) counter.textContent = texts.quiz.counter(solved, all.length);
    }
  };
  for (const element of document.querySelectorAll<HTMLFieldSetElement>("[data-question]")) {
    const question = new Question(element, () => {
      answers[question.key] = question.chosen();
      count();
      void progress.keepAnswers(lesson, answers).then((why) => tellUnsaved(question.end, why));
    });
    questions.push(question);
  }
  Object.assign(answers, { ...(await progress.answers(lesson)), ...answers });
  for (const question of questions) question.restore(answers[question.key]);
  count();
}

class Question {
  readonly key: string;
  private readonly inputs: HTMLInputElement[];
  private readonly solutions: HTMLElement[];
  private readonly feedback: HTMLElement | null;
  private readonly button: HTMLButtonElement | null;

  constructor(
    private readonly element: HTMLFieldSetElement,
    private readonly solved: () => void,
  ) {
    this.key = element.dataset["question"] ?? "";
    this.inputs = [...element.querySelectorAll<HTMLInputElement>(".answers input")];
    this.solutions = [...element.querySelectorAll<HTMLElement>(".solution li[data-right]")];
    this.feedback = element.querySelector("[data-feedback]");
    this.button = element.querySelector("[data-check]");
    this.button?.addEventListener("click", () => this.check(true));
    element.addEventListener("change", () => this.reset());
  }

  /** After which there is room for a word more. */
  get end(): Element {
    return this.feedback ?? this.element;
  }

  chosen(): number[] {
    return this.inputs.flatMap((input, index) => (input.checked ? [index] : []));
  }

  restore(chosen: number[] | undefined): void {
    if (!chosen || this.chosen().length) return;
    this.inputs.forEach((input, index) => (input.checked = chosen.includes(index)));
    this.check(false);
  }

  private right(index: number): boolean {
    return this.solutions[index]?.dataset["right"] === "true";
  }

  /** Another choice after feedback: what was said no longer applies. */
  private reset(): void {
    delete this.element.dataset["solved"];
    this.feedback?.replaceChildren();
    for (const input of this.inputs) input.closest("li")?.removeAttribute("data-verdict");
  }

  private check(byReader: boolean): void {
    const chosen = this.chosen();
    if (!chosen.length) {
      if (byReader) this.say("wrong", texts.quiz.choose, []);
      return;
    }
    const solved = this.inputs.every((input, index) => input.checked === this.right(index));
    for (const index of chosen) {
      const item = this.inputs[index]?.closest("li");
      if (item) item.dataset["verdict"] = this.right(index) ? "right" : "wrong";
    }
    const partly = chosen.every((index) => this.right(index));
    const verdict = solved ? texts.quiz.right : partly ? texts.quiz.partly : texts.quiz.wrong;
    this.say(solved ? "right" : "wrong", verdict, chosen);
    this.element.dataset["attempted"] = "true";
    if (!solved) return;
    this.element.dataset["solved"] = "true";
    if (byReader) this.solved();
  }

  private say(kind: "right" | "wrong", verdict: string, chosen: number[]): void {
    if (!this.feedback) return;
    const head = document.createElement("strong");
    head.className = `verdict verdict-${kind}`;
    head.textContent = verdict;
    const reasons = chosen.map((index) => {
      const reason = document.createElement("div");
      for (const node of this.solutions[index]?.querySelector(".solution-why")?.childNodes ?? []) reason.append(node.cloneNode(true));
      return reason;
    });
    this.feedback.dataset["kind"] = kind;
    this.feedback.replaceChildren(head, ...reasons);
  }
}
