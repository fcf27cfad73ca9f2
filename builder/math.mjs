// TeX to MathML, all formulas of the course in one process.
// stdin: [{tex, display}], stdout: [{mathml} | {error}] in the same order.
import { readFileSync, writeFileSync } from "node:fs";
import temml from "temml";

const formulas = JSON.parse(readFileSync(0, "utf8"));
const rendered = formulas.map(({ tex, display }) => {
  try {
    return { mathml: temml.renderToString(tex, { displayMode: display, throwOnError: true, strict: true, wrap: "none" }) };
  } catch (error) {
    return { error: String(error.message ?? error) };
  }
});
writeFileSync(1, JSON.stringify(rendered));
