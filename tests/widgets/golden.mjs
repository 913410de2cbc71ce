// node golden.mjs MODULE GOLDEN: the module's own functions against the table that Python wrote.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [module, golden] = process.argv.slice(2);
const functions = await import(pathToFileURL(module));
const cases = JSON.parse(readFileSync(golden, "utf-8"));
let checked = 0;
const wrong = [];

const isObject = (x) => x !== null && typeof x === "object";
const keys = (x) => Object.keys(x).sort().join();

function compare(got, want, where) {
  if (isObject(want) && isObject(got) && keys(want) === keys(got)) {
    for (const [name, value] of Object.entries(want)) compare(got[name], value, `${where}.${name}`);
    return;
  }
  checked += 1;
  const same = typeof want === "number" ? Math.abs(got - want) <= 1e-12 * Math.abs(want) : got === want;
  if (!same) wrong.push(`${where}: ${JSON.stringify(got)}, Python says ${JSON.stringify(want)}`);
}

cases.forEach(([call, args, want], i) => compare(functions[call](...args), want, `${i} ${call}(${JSON.stringify(args)})`));
if (wrong.length || !checked) {
  console.error([`${wrong.length} of ${checked} differ`, ...wrong.slice(0, 10)].join("\n"));
  process.exit(1);
}
