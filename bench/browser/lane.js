/** What every worker of the page has in common: it answers commands, in order, with a result or an error. */

/** `open(options)` resolves to the function that answers all further commands. */
export function serve(open) {
  let answer = null;
  let last = Promise.resolve();
  self.onmessage = ({ data }) => {
    last = last.then(async () => {
      try {
        if (data.do === "open") answer = await open(data);
        const result = data.do === "open" ? { ready: true } : await answer(data);
        self.postMessage({ result: result ?? null });
      } catch (error) {
        self.postMessage({ error: String(error?.message ?? error) });
      }
    });
  };
}

/** Answers the commands of bench/lane.py with a peer that is written in JavaScript. */
export function peerLane(peer, { check, timed, unpackMaterial }) {
  let material = null;
  return async (command) => {
    if (command.do === "describe") return { versions: peer.versions() };
    if (command.do === "load") return void (material = unpackMaterial(command.material));
    if (command.do === "check") return check(peer, material);
    if (command.do === "time") return timed(peer, material, command.work, command.seconds);
    throw new Error(`unknown command ${command.do}`);
  };
}
