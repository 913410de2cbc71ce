// Shared by the widgets whose picture is the handle: what is dragged, what stays the same node, labels that make room.

/** The place nearest to x on a scale where each step is a factor. */
const nearest = (places, x) => places.reduce((a, c) => (Math.abs(Math.log(c / x)) < Math.abs(Math.log(a / x)) ? c : a));

/** Make `node` something to drag: `act` gets the pointer in the picture's pixels, from press to release; its `data-handle` is then known as dragged. */
function grip(over, node, act, began = () => {}, ended = () => {}) {
  const move = (e) => {
    const r = over.getBoundingClientRect();
    act(e.clientX - r.left, e.clientY - r.top);
  };
  node.addEventListener("pointerdown", (e) => {
    e.preventDefault();
    (over.facDragged ??= new Set()).add(node.dataset.handle);
    began();
    addEventListener("pointermove", move); // the handle may be drawn anew while it moves
    const end = () => {
      for (const name of ["pointerup", "pointercancel"]) removeEventListener(name, end);
      removeEventListener("pointermove", move);
      ended();
    };
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, end);
    move(e);
  });
  return node;
}

/** What stands beside a handle: its quantity and value, asked to be dragged until it was; of two wordings the longest that has room. */
const handleSays = (over, handle, room, ...says) => {
  const words = says.map((text) => (over.facDragged?.has(handle) ? text : `drag: ${text}`));
  return [...words, ...says].find((text) => 7 * text.length < room) ?? "";
};

/** The same as a text of a scene. */
const handleName = (add, over, handle, { room = Infinity, ...place }, ...says) => add(`${handle} says`, "text", { class: "fac-t-hand", "data-names": handle, ...place }, handleSays(over, handle, room, ...says));

/** Two heads of arrows on a knob: along the way that it is dragged. */
const way = ({ cx, cy, class: name }) => ({ class: "fac-knob-way", d: "M-4.6 0l3 -2.7v5.4zM4.6 0l-3 -2.7v5.4z", transform: `translate(${cx} ${cy}) rotate(${/corner/.test(name) ? 45 : /down|rim/.test(name) ? 90 : 0})` });

/**
 * The children of an SVG element by key: a node that is drawn again stays the same node, so it can
 * move by CSS and stay under the hand; one that is not goes. `act` makes a node a grip. While it is
 * held the picture is `facHeld`: then its scale stays, or the hand would chase it.
 */
function scene(parent) {
  let old = new Map(), now = new Map(), next = null, seen = -1;
  const svg = () => parent.ownerSVGElement ?? parent;
  const hold = (held) => () => {
    svg().facHeld = held;
    if (!held) svg().dispatchEvent(new Event("letgo"));
  };
  const add = (key, tag, attributes, content = "", act = null) => {
    const node = old.get(key) ?? s(tag);
    if (act && !node.facAct) grip(svg(), node, (x, y) => node.facAct(x, y), hold(true), hold(false));
    node.facAct = act;
    renew(node, attributes);
    if ((node.facContent ?? "") !== content) say(node, tag, (node.facContent = content));
    if (old.has(key) && node.facPlace > seen) [seen, next] = [node.facPlace, node.nextSibling]; // stays where it is
    else parent.insertBefore(node, next);
    now.set(key, node);
    if (tag === "circle" && attributes.class.startsWith("fac-knob")) add(`${key} way`, "path", way(attributes));
    return node;
  };
  const say = (node, tag, content) => {
    if (tag === "text") node.replaceChildren(...subscripted(content, lower));
    else if (node.firstChild) node.firstChild.textContent = content;
    else node.append(s("title", {}, content));
  };
  const draw = (paint) => {
    [now, next, seen] = [new Map(), parent.firstChild, -1];
    paint(add);
    for (const [key, node] of old) if (!now.has(key)) node.remove();
    let place = 0;
    for (const node of now.values()) node.facPlace = place++;
    old = now;
  };
  return draw;
}

/** A picture in CSS pixels: `draw(width, font size)` at the start, when its width changes and when it is called. */
function stage(model, name, draw, ...layers) {
  const pattern = freshId("hatch");
  const svg = s("svg", { class: "fac-stage", role: "img" }, s("defs", {}, s("pattern", { id: pattern, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { class: "fac-stripe", width: 1.6, height: 7 }))), layers);
  const node = part(name, h("div", { class: "fac-stage-box" }, svg));
  const now = () => {
    width ||= node.clientWidth; // looked at once, for a look costs a layout; the observer tells the rest
    const wide = width || 1000, box = `0 0 ${wide} ${draw(wide, typeSize(model))}`;
    if (box !== shown) svg.setAttribute("viewBox", (shown = box));
  };
  let width = 0, shown = "";
  new ResizeObserver(() => {
    if (!node.clientWidth || node.clientWidth === width) return;
    width = node.clientWidth;
    now();
  }).observe(node);
  svg.addEventListener("letgo", now);
  model.on("change:presenter", now);
  return { node, svg, hatch: `url(#${pattern})`, draw: now };
}

/** Middles of labels of these sizes between `low` and `high`, moved as little as need be so that none lie on another. */
function spread(places, sizes, low, high) {
  const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b]), found = [...places];
  let edge = low;
  for (const i of order) {
    found[i] = Math.max(found[i], edge + sizes[i] / 2);
    edge = found[i] + sizes[i] / 2;
  }
  edge = high;
  for (const i of order.reverse()) {
    found[i] = Math.min(found[i], edge - sizes[i] / 2);
    edge = found[i] - sizes[i] / 2;
  }
  return found;
}

/** What the marks of a picture mean, below it: pairs of a class and words. */
const key = (...marks) => h("div", { class: "fac-key" }, marks.map(([mark, words]) => h("span", {}, h("i", { class: mark }), words)));

/** What is not needed at first, folded; `what` names it. */
const more = (what, ...rows) => h("details", { class: "fac-more" }, h("summary", {}, `more: ${what}`), rows);

/** Draw what lies in a fold: at first, and from then on only while it is open. */
function unfolded(fold, draw) {
  let drawn = false, stale = true;
  const catchUp = () => {
    if (stale) draw();
    stale = false;
  };
  fold.firstChild.addEventListener("click", catchUp); // "toggle" comes a moment after it has opened
  fold.addEventListener("toggle", catchUp); // opened by a search of the page
  return () => {
    stale = true;
    if (fold.open || !drawn) catchUp();
    drawn = true;
  };
}

/** A short text on a plate of the page's ground: readable on any colour, in both themes. */
function chip(add, key, text, x, y, fs, cls = "") {
  const w = Math.max(1.2 * fs, wide(text, 0.87 * fs) + 0.5 * fs);
  add(`${key} chip`, "rect", { class: `fac-chip ${cls}`, x: x - w / 2, y: y - 0.55 * fs, width: w, height: 1.1 * fs, rx: 0.55 * fs });
  add(key, "text", { class: `fac-t-small fac-t-chip ${cls}`, x, y: y + 0.31 * fs, "text-anchor": "middle" }, text);
}

/** A letter below the line in SVG, and what follows it on the line again. */
const lower = (letter, rest) => [s("tspan", { dy: "0.3em", "font-size": "75%" }, letter), rest && s("tspan", { dy: "-0.225em" }, rest)];

/** The width of a line of text, near enough to place it. */
const wide = (text, size) => 0.6 * size * text.length;

/** A text in lines of at most so many letters. */
const wrapped = (text, most) => text.split(" ").reduce((lines, word) => (lines.length && `${lines.at(-1)} ${word}`.length <= most ? [...lines.slice(0, -1), `${lines.at(-1)} ${word}`] : [...lines, word]), []);
