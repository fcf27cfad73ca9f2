/** What the pages' scripts say to the reader. */

export const texts = {
  theme: { toDark: "Posa el tema fosc", toLight: "Posa el tema clar" },
  quiz: {
    counter: (solved: number, all: number) => `${solved} de ${all} resoltes`,
    choose: "Tria una resposta abans de comprovar-la.",
    right: "Correcte.",
    wrong: "Encara no.",
    partly: "No del tot: repassa quines has marcat.",
    again: "Torna-ho a provar",
    check: "Comprova la resposta",
  },
  widgets: { missing: "No s'han pogut carregar els experiments. Comprova la connexió i recarrega la pàgina." },
  resources: { counter: (read: number, all: number) => `${read} de ${all} llegits` },
  progress: {
    questions: (solved: number, all: number) => `${solved} de ${all} preguntes`,
    resources: (read: number, all: number) => `${read} de ${all} recursos`,
    none: "Encara no l'has començada",
    begin: "Comença",
    goOn: "Continua",
    started: "Començada",
    done: "Feta",
    need: (solved: number, all: number) => ` (${solved} de ${all} preguntes resoltes)`,
    exported: "S'ha desat el fitxer amb el teu progrés.",
    imported: (count: number) => (count === 1 ? "S'ha recuperat una entrada del teu progrés." : `S'han recuperat ${count} entrades del teu progrés.`),
    failed: (reason: string) => `No s'ha pogut importar el fitxer. ${reason}`,
    file: (course: string) => `${course}-progres.json`,
  },
} as const;
