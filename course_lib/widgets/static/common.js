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

/** Set what has changed since the last time; that is kept here, for to ask the page takes longer. */
function renew(node, attributes) {
  const has = (node.facHas ??= {});
  for (const name in attributes) if (has[name] !== attributes[name]) node.setAttribute(name, (has[name] = attributes[name]));
}

/** What no line may break: N = 8192, 161 KiB, 0.34 %, 2 × 3, A100-80. */
const TOGETHER = /(\b[A-Za-z_]+ = [\d.,]*\d(?: ×)?|[\d.,]*\d (?:[kKMGTP]?i?B(?:\/s)?|T?FLOP(?:\/s)?|[mµn]?s|rows|times|numbers|keys|bytes)\b|[\d.,]*\d %|[\d.,]*\d ×(?: [\d.,]*\d)?|\b[A-Z]\w*-\d+)/;
const bound = (text) => text.split(TOGETHER).map((part, i) => (i % 2 ? h("span", { class: "fac-unbroken" }, part) : part));

/** Write a text that has changed: the same one again would cost a layout. */
const write = (node, text) => node.textContent !== text && (node.namespaceURI === SVG_NS ? (node.textContent = text) : node.replaceChildren(...bound(text)));

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

/** Text in which `backticks` mean code, N x N a product, and N = 128 stays in one line. Mirrors `rich` of asking.py. */
function rich(text) {
  return String(text).replace(/\b([A-Z]|\d+) x (?=([A-Z]|\d+|d)\b)/g, "$1 × ").split("`").flatMap((part, i) => (i % 2 ? h("code", {}, part) : bound(part)));
}

/** Text in which B_q is B with a small q: `below` makes the letter and what stands behind it. */
function subscripted(text, below = (letter, rest) => [h("sub", {}, letter), rest]) {
  if (!text.includes("_")) return [text];
  const [first, ...others] = text.split(/(?<=\b[A-Za-z])_(?=[a-z]{1,3}\b)/);
  return [first, ...others.flatMap((part) => below(part.match(/^[a-z]+/)[0], part.replace(/^[a-z]+/, "")))].filter(Boolean);
}

/** The root of a widget, wearing the theme; follows `presenter`. */
function root(model, el, ...children) {
  const node = h("div", { class: "fac" }, ...children);
  const size = () => node.classList.toggle("fac-presenter", Boolean(model.get("presenter")));
  model.on("change:presenter", size);
  size();
  el.append(node);
  hearLinks(node);
  return node;
}

/** Name a part, so that a link to `#fac-NAME` in the page's prose can point at it. */
function part(name, node) {
  node.setAttribute("data-fac-part", name);
  return node;
}

/**
 * Follow the page's links to parts. One listener a page serves all widgets, those in frames of the
 * page included; it runs before JupyterLab looks for a heading of that name.
 */
function hearLinks(node) {
  const frame = globalThis.frameElement; // null on a page of its own, or in another site's frame
  const page = frame?.ownerDocument ?? document;
  const roots = (page.facRoots ??= []);
  if (!roots.length) page.addEventListener("click", (event) => followLink(event, roots), true);
  roots.push({ node, frame });
}

function followLink(event, roots) {
  const link = event.target.closest?.('a[href^="#fac-"]');
  if (!link) return;
  const top = (n, frame) => n.getBoundingClientRect().top + (frame?.getBoundingClientRect().top ?? 0);
  const wanted = `[data-fac-part="${CSS.escape(link.getAttribute("href").slice(5))}"]`;
  const near = roots
    .filter(({ node }) => node.isConnected && node.getClientRects().length)
    .flatMap(({ node, frame }) => [...node.querySelectorAll(wanted)].map((found) => ({ found, far: Math.abs(top(found, frame) - top(link)) })))
    .sort((a, b) => a.far - b.far)[0];
  if (!near) return;
  event.preventDefault();
  event.stopPropagation();
  pointAt(near.found);
}

/** Mark a part for a while, bring it into view, and let a screen reader go on from there. */
function pointAt(node) {
  for (const other of node.ownerDocument.querySelectorAll(".fac-pointed")) other.classList.remove("fac-pointed");
  node.classList.add("fac-pointed");
  node.closest("details")?.setAttribute("open", "");
  setTimeout(() => node.classList.remove("fac-pointed"), 8000);
  for (let fold = node.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  if (!node.matches("button, input, select")) node.setAttribute("tabindex", "-1");
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  node.focus({ preventScroll: true });
  node.scrollIntoView({ block: "nearest", behavior: reducedMotion() ? "auto" : "smooth" });
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

/** The size of type, as the style sheet has it: a room's, a large screen's, a desk's. */
const typeSize = (model) => (model.get("presenter") ? 22 : matchMedia("(min-width: 1700px)").matches ? 18 : 15);

const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/**
 * Set traits; the kernel is told once the picture has changed, in one message for a burst. It has to
 * be told in this very task: in a later one, an echo of the value before could come first and be shown.
 */
const untold = new WeakSet();
function put(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  if (untold.has(model)) return;
  untold.add(model);
  queueMicrotask(() => {
    untold.delete(model);
    model.save_changes();
  });
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

/** A labelled select: `options` are [value, text] pairs, `act` gets the value chosen. */
function select(label, options, act) {
  const id = freshId("select");
  const node = h("select", { id, onchange: () => act(node.value) }, options.map(([value, text]) => h("option", { value }, text)));
  return { node, row: h("label", { for: id }, `${label} `, node) };
}

/** What hears the letter that stands on a card: a, b, c … choose it. */
/** Whether fingers point here, and no keyboard is at hand. */
const byTouch = () => matchMedia("(pointer: coarse)").matches;

const byLetter = (inputs) => (event) => {
  const input = event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey ? inputs[event.key.toLowerCase().charCodeAt(0) - 97] : null;
  input?.focus();
  input?.click();
};

/** A labelled checkbox. */
function checkbox(label, act) {
  const id = freshId("check");
  const node = h("input", { id, type: "checkbox", onchange: () => act(node.checked) });
  return { node, row: h("label", { for: id }, node, ` ${label}`) };
}

/**
 * A slider beside a box for the exact value. `write` returns a sentence where the value is refused:
 * then the field says so and the last good state stays. `places` turns slider places into values.
 */
function field(label, places, read, write) {
  const id = freshId("field");
  const said = h("div", { class: "fac-said", role: "status" });
  const slider = h("input", { type: "range", min: 0, max: places.length - 1, step: 1, "aria-label": label, oninput: () => set(places[Number(slider.value)]) });
  const box = h("input", { id, type: "text", inputmode: "numeric", autocomplete: "off", "aria-label": label.includes("_") ? label : null, onchange: () => take(), onkeydown: (e) => e.key === "Enter" && take() });
  const take = () => set(parseNumber(box.value)); // JupyterLab keeps Enter from becoming a change
  const set = (value) => {
    const wrong = write(value) ?? "";
    said.textContent = wrong;
    box.setAttribute("aria-invalid", Boolean(wrong));
    if (!wrong) box.value = read(); // 2^13 becomes 8192
  };
  let shown = null;
  const follow = () => {
    const value = read();
    if (value === shown && !said.textContent) return;
    shown = value;
    box.value = value;
    box.setAttribute("aria-invalid", false);
    said.textContent = "";
    const near = places.findIndex((place) => place >= value);
    slider.value = near < 0 ? places.length - 1 : near;
    slider.setAttribute("aria-valuetext", String(value));
  };
  return { node: h("div", { class: "fac-field" }, h("label", { for: id }, subscripted(label)), slider, box, said), follow };
}

const powersOfTwo = (least, most) => Array.from({ length: Math.log2(most / least) + 1 }, (_, i) => least * 2 ** i);

/** A field for a whole-number trait between 1 and `most`; the slider has powers of two. */
function countField(model, trait, label, least, most) {
  return field(label, powersOfTwo(least, 2 ** Math.floor(Math.log2(most))), () => model.get(trait), (value) => {
    if (!Number.isInteger(value) || value < 1 || value > most) return `A whole number from 1 to ${most}, please.`;
    put(model, { [trait]: value });
  });
}

/** Previous, next, play (a step `every()` ms), reset and a seek slider over the trait `step`, which ends at `last()`. */
function player(model, el, { last, move, every = () => 900, ready = () => true }) {
  let timer = 0;
  const go = (step) => put(model, { step: Math.max(0, Math.min(last(), step)) });
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.setAttribute("aria-pressed", "false");
    play.textContent = "Play";
  };
  const start = () => {
    if (model.get("step") >= last()) go(0);
    timer = setInterval(() => (model.get("step") >= last() || !el.isConnected ? stop() : go(move(1))), every());
    play.setAttribute("aria-pressed", "true");
    play.textContent = "Pause";
  };
  const by = (act) => () => (stop(), act());
  const previous = h("button", { type: "button", onclick: by(() => go(move(-1))) }, "◀ Previous");
  const next = h("button", { type: "button", onclick: by(() => go(move(1))) }, "Next ▶");
  const play = h("button", { type: "button", "aria-pressed": "false", onclick: () => (timer ? stop() : start()) }, "Play");
  const reset = h("button", { type: "button", onclick: by(() => go(0)) }, "Reset");
  const seek = h("input", { type: "range", class: "fac-seek", min: 0, step: 1, "aria-label": "Step", oninput: () => (stop(), go(Number(seek.value))) });
  const follow = (says) => {
    const step = Math.min(model.get("step"), last());
    seek.max = last();
    seek.value = step;
    seek.setAttribute("aria-valuetext", says);
    previous.disabled = step === 0;
    next.disabled = step >= last();
    next.classList.toggle("fac-go", ready()); // what is to be done next
  };
  return { node: h("div", { class: "fac-row" }, previous, next, play, reset, seek), follow, stop };
}

/** Stripes across a rectangle in SVG, as a path: what is hatched has stripes of the page in it. */
function hatching(x, y, wide, tall, every = 9) {
  let path = "";
  for (let c = every / 2; c < wide + tall; c += every) {
    const [left, right] = [Math.max(0, c - tall), Math.min(c, wide)];
    path += `M${(x + left).toFixed(1)} ${(y + c - left).toFixed(1)}L${(x + right).toFixed(1)} ${(y + c - right).toFixed(1)}`;
  }
  return path;
}

/** Draw once for several traits that change together. */
function onChanges(model, traits, draw) {
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => {
      waiting = false;
      draw();
    });
  };
  for (const trait of traits) model.on(`change:${trait}`, later);
  return later;
}

/** Coefficient times product of powers: the monomials that Python sends. */
function termBytes(term, values) {
  let product = term.coefficient;
  for (const [name, power] of Object.entries(term.powers)) product *= values[name] ** power;
  return product;
}

const termText = (term) => `${term.coefficient === 1 ? "" : `${term.coefficient} `}${Object.entries(term.powers).map(([name, power]) => (power === 1 ? name : `${name}^${power}`)).join(" ")}`;
