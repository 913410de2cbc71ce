// Shared by all widgets: elements, controls, numbers as text. Joined in front of each module.

const SVG_NS = "http://www.w3.org/2000/svg";
const FOCUSABLE = /^(button|input|select|textarea|summary|a)$/;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

/** An HTML element; what can have focus keeps JupyterLab's shortcuts away from its keys. */
function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  const focusable = FOCUSABLE.test(tag) || attributes?.tabindex != null;
  if (focusable) node.setAttribute("data-lm-suppress-shortcuts", "true");
  return fill(node, attributes, children);
}

/** An SVG element. */
function s(tag, attributes, ...children) {
  const node = document.createElementNS(SVG_NS, tag);
  if (attributes?.tabindex != null) node.setAttribute("data-lm-suppress-shortcuts", "true");
  return fill(node, attributes, children);
}

/** Text in which `backticks` mean code. */
function rich(text) {
  return String(text).split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** The root of a widget, wearing the theme; follows `presenter`. */
function root(model, el, ...children) {
  const node = h("div", { class: "fac" }, ...children);
  const size = () => node.classList.toggle("fac-presenter", Boolean(model.get("presenter")));
  model.on("change:presenter", size);
  size();
  el.append(node);
  return node;
}

/** A polite announcement for screen readers, at most one in 400 ms. */
function announcer() {
  const node = h("div", { class: "fac-hear", "aria-live": "polite", role: "status" });
  let timer = 0;
  const say = (text) => {
    clearTimeout(timer);
    timer = setTimeout(() => (node.textContent = text), 400);
  };
  return { node, say };
}

let lastId = 0;
const freshId = (what) => `fac-${what}-${Date.now().toString(36)}-${++lastId}`;

const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Set traits and tell the kernel; what is unchanged is left alone. */
function put(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

/** A number as people type it: 8192, 8,192, 1.5e9, 3,5 or 2^13; NaN if it is none. */
function parseNumber(text) {
  let t = String(text).trim().replace(/[\s_']/g, "").replace("−", "-");
  const power = /^(\d+(?:\.\d+)?)(?:\^|\*\*)(\d+)$/.exec(t);
  if (power) return Number(power[1]) ** Number(power[2]);
  if (/^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(t)) t = t.replaceAll(",", "");
  else if (/^-?\d+,\d+$/.test(t)) t = t.replace(",", ".");
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(t) ? Number(t) : NaN;
}

/** Bytes as people read them, four significant digits: mirrors accounting/format.py. */
function bytesText(n, base = 1000) {
  const units = base === 1000 ? ["B", "kB", "MB", "GB", "TB", "PB"] : ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = n, unit = 0;
  while (unit < units.length - 1 && Number(Math.abs(value).toPrecision(4)) >= base) {
    value /= base;
    unit += 1;
  }
  const digits = Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
  return `${digits} ${units[unit]}`;
}

/** A number to `digits` significant digits without an exponent in everyday ranges. */
function short(x, digits = 4) {
  if (x === Infinity) return "∞";
  if (x === -Infinity) return "−∞";
  if (!Number.isFinite(x)) return "NaN";
  const y = Number(x.toPrecision(digits));
  const text = Math.abs(y) >= 1e6 || (y !== 0 && Math.abs(y) < 1e-4) ? y.toExponential() : String(y);
  return text.replace("-", "−");
}
