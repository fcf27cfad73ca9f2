/** What the engine says to the reader. */

export const STRINGS = {
  // Loading
  openedFromDisk:
    "La pàgina s'ha obert directament com a fitxer i així el navegador no deixa executar res. Obre-la des d'un servidor web.",
  tooOld: "Aquest navegador no pot executar els experiments. Actualitza'l o prova'n un altre.",
  workerMissing: "No s'ha pogut carregar el motor dels experiments. Comprova la connexió i torna-ho a provar.",
  stalled: (seconds: number) =>
    `Fa ${seconds} segons que la càrrega no avança. Comprova la connexió i torna-ho a provar.`,
  startStalled: "Python no acaba d'engegar-se. Tanca altres pestanyes per alliberar memòria i torna-ho a provar.",
  unreachable: (file: string) =>
    `No s'ha pogut baixar «${file}». Comprova la connexió i torna-ho a provar.`,
  missing: (file: string, status: number) =>
    `El servidor no ha enviat «${file}» (resposta ${status}). Avisa qui publica el curs.`,
  damaged: (file: string) =>
    `«${file}» ha arribat malmès: no és el fitxer que s'esperava. Torna-ho a provar; si es repeteix, avisa qui publica el curs.`,
  noStart: (detail: string) => `Python no s'ha pogut engegar. Torna-ho a provar. (Detall tècnic: ${detail})`,

  // Runs
  runFailed: (detail: string) =>
    `L'experiment ha trobat un error i s'ha aturat. Pots tornar-lo a executar. (Detall tècnic: ${detail})`,
  crashed:
    "El motor dels experiments s'ha aturat de cop. El que ja s'havia desat es conserva: torna a executar l'experiment.",
  restarted:
    "S'ha hagut de reiniciar el motor per aturar un altre experiment. El que ja s'havia desat es conserva: torna'l a executar.",
  notReady: "El motor dels experiments encara no és a punt.",

  // Storage
  memoryOnly:
    "Aquest navegador no deixa desar res: els models entrenats i el teu progrés es perdran en tancar la pàgina. Exporta el progrés si el vols conservar.",
  blocked:
    "Una altra pestanya del curs, d'una versió anterior, no deixa obrir el que tens desat. Tanca-la i recarrega aquesta pàgina.",
  outdated:
    "El curs s'ha actualitzat en una altra pestanya. Recarrega la pàgina: mentrestant, aquí no es desa res.",
  full: "No queda espai per desar més coses en aquest navegador. El que facis ara es perdrà en tancar la pàgina.",
  storageFailed: (detail: string) => `No s'ha pogut desar. (Detall tècnic: ${detail})`,

  // Import of progress
  notJson: "Aquest fitxer no és un progrés exportat del curs: no es pot llegir com a JSON.",
  notProgress: "Aquest fitxer no és un progrés exportat del curs.",
  newerFormat: "Aquest fitxer és d'una versió més nova del curs. Recarrega la pàgina i torna-ho a provar.",
  otherCourse: (found: string, expected: string) =>
    `Aquest fitxer és del curs «${found}» i no pas d'aquest, «${expected}».`,
  tooLarge: "Aquest fitxer és massa gran per ser un progrés exportat del curs.",
  badEntry: (name: string) => `L'entrada «${name}» d'aquest fitxer no és vàlida. No s'ha importat res.`,
};
