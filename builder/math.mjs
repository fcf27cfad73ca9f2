// TeX to MathML, all formulas of the course in one process.
// stdin: [{tex, display}], stdout: [{mathml} | {error}] in the same order.
import { readFileSync, writeFileSync } from "node:fs";
import temml from "temml";

const formulas = JSON.parse(readFileSync(0, "utf8"));
// Temml takes the full stop or comma after a number for a part of it; a screen reader would read it so.
const apart = (mathml) => mathml.replace(/<mn>([\d.,]*\d)([.,])<\/mn>/g, "<mn>$1</mn><mtext>$2</mtext>");

const rendered = formulas.map(({ tex, display }) => {
  try {
    return { mathml: apart(temml.renderToString(tex, { displayMode: display, throwOnError: true, strict: true, wrap: "none" })) };
  } catch (error) {
    return { error: String(error.message ?? error) };
  }
});
writeFileSync(1, JSON.stringify(rendered));
