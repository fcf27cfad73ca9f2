/** The page that bench/chromium.py drives: one worker a lane, asked one thing at a time. */

const workers = new Map();

/** Starts a lane and resolves with what it says of itself, or rejects with why it does not work. */
function open(name, file, options) {
  const worker = new Worker(file, { type: "module" });
  workers.set(name, worker);
  return exchange(worker, { do: "open", ...options });
}

function ask(name, command) {
  return exchange(workers.get(name), command);
}

function exchange(worker, command) {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => ("error" in data ? reject(new Error(data.error)) : resolve(data.result));
    worker.onerror = (event) => reject(new Error(event.message || "the worker could not be loaded"));
    worker.postMessage(command);
  });
}

globalThis.lanes = { open, ask };
