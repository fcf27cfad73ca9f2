// Catalan numbers. The rules and the test vectors, shared with widgets/_runtime/catalan.py, are in
// tests/number_cases.json. Intl is not used: "ca" writes 1,2E-4, and its rounding is not Python's.

export type NumberFormat =
  | "percent"
  | "percent-value"
  | "integer"
  | "year"
  | "number"
  | "signed"
  | "scientific";

const MINUS = "\u2212";
const NO_VALUE = "\u2013";
const PERCENT = "\u00a0%";
const SUPERSCRIPTS: Readonly<Record<string, string>> = {
  "-": "⁻", "0": "⁰", "1": "¹", "2": "²", "3": "³", "4": "⁴",
  "5": "⁵", "6": "⁶", "7": "⁷", "8": "⁸", "9": "⁹",
};

/** Writes `value` in Catalan. Without `digits`, trailing zeros of the decimals are dropped. */
export function formatNumber(
  value: number | null | undefined,
  format: NumberFormat,
  digits?: number,
): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NO_VALUE;
  switch (format) {
    case "percent":
      return percent(value, digits);
    case "percent-value":
      return signOf(value, fixed(value, digits ?? 1, digits === undefined)) + PERCENT;
    case "integer":
      return signOf(value, fixed(value, 0, false));
    case "year":
      return value.toFixed(0);
    case "number":
      return plainNumber(value, digits);
    case "signed": {
      const text = plainNumber(value, digits);
      return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
    }
    case "scientific":
      return scientific(value, digits);
  }
}

/** Reads what a reader may type: spaces, thousands points and a decimal comma. NaN if it is not a number. */
export function parseNumber(text: string): number {
  const clean = text.trim().replace(/[\s\u00a0%]/g, "").replace(MINUS, "-");
  const normal = /^[+-]?\d{1,3}(\.\d{3})+(,\d+)?$/.test(clean)
    ? clean.replace(/\./g, "").replace(",", ".")
    : clean.replace(",", ".");
  return /^[+-]?(\d+\.?\d*|\.\d+)$/.test(normal) ? Number(normal) : Number.NaN;
}

/** Reads a link's or a native control's number, which is a machine's ("0.125" is an eighth), or else as `parseNumber`. */
export function readNumber(text: string): number {
  const machine = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(machine) ? machine : parseNumber(text);
}

function percent(value: number, digits: number | undefined): string {
  const decimals = digits ?? 1;
  const magnitude = Math.abs(value);
  const share = shift(magnitude.toFixed(decimals + 2));
  const drop = digits === undefined;
  if (value > 0 && value < 1) {
    const step = 10 ** -decimals;
    if (Number(share) === 0) return `<${group(step.toFixed(decimals), drop)}${PERCENT}`;
    if (Number(share) >= 100) return `>${group((100 - step).toFixed(decimals), drop)}${PERCENT}`;
  }
  return signOf(value, group(share, drop)) + PERCENT;
}

/** Moves the point of a plain decimal two places to the right: exact, where `value * 100` is not. */
function shift(decimal: string): string {
  const [whole = "0", decimals = ""] = decimal.split(".");
  const digits = (whole + decimals.slice(0, 2)).replace(/^0+(?=\d)/, "");
  const rest = decimals.slice(2);
  return rest === "" ? digits : `${digits}.${rest}`;
}

function plainNumber(value: number, digits: number | undefined): string {
  if (value === 0) return signOf(0, fixed(0, digits ?? 0, false));
  if (digits !== undefined) {
    const text = fixed(value, digits, false);
    return /[1-9]/.test(text) ? signOf(value, text) : scientific(value, undefined);
  }
  const exponent = exponentOf(value.toExponential(2));
  if (exponent < -3 || exponent >= 9) return scientific(value, undefined);
  return signOf(value, fixed(value, Math.max(0, 2 - exponent), true));
}

function scientific(value: number, digits: number | undefined): string {
  if (value === 0) return "0";
  const text = Math.abs(value).toExponential(digits ?? 1);
  const exponent = exponentOf(text);
  const mantissa = group(text.slice(0, text.indexOf("e")), digits === undefined);
  if (exponent === 0) return signOf(value, mantissa);
  const power = [...String(exponent)].map((character) => SUPERSCRIPTS[character] ?? "").join("");
  return signOf(value, `${mantissa}·10${power}`);
}

function exponentOf(exponential: string): number {
  return Number(exponential.slice(exponential.indexOf("e") + 1));
}

function fixed(value: number, decimals: number, dropZeros: boolean): string {
  return group(Math.abs(value).toFixed(decimals), dropZeros);
}

function group(decimal: string, dropZeros: boolean): string {
  const [whole = "0", rest = ""] = decimal.split(".");
  const decimals = dropZeros ? rest.replace(/0+$/, "") : rest;
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ".");
  return decimals === "" ? grouped : `${grouped},${decimals}`;
}

function signOf(value: number, text: string): string {
  return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}
