// One query row, its tiles of keys, and the state (m, ℓ, O): right, and with a slip.
// What it exports is held against Python in tests/widgets/test_javascript.py.

const LINES = [
  ["load", "load K_j, V_j"],
  ["s", "s = q · K_jᵀ · scale"],
  ["m", "m_new = max(m, largest s)"],
  ["alpha", "α = exp(m − m_new)", "ℓ = α·ℓ, O = α·O, m = m_new"], // in the picture all of it happens at once
  ["p", "p = exp(s − m)"],
  ["l", "ℓ = ℓ + sum(p)"],
  ["o", "O = O + p · V_j"],
];
// what a mistake turns a line into: the student sees the very change
const WRONG_LINES = {
  no_rescale_o: { alpha: "ℓ = α·ℓ, m = m_new" },
  no_rescale_l: { alpha: "O = α·O, m = m_new" },
  neither: { alpha: "m = m_new" },
  inverse: { alpha: "ℓ = ℓ/α, O = O/α, m = m_new" },
  own_max: { p: "p = exp(s − max(s))" },
  start_zero: { start: "m = 0, ℓ = 0, O = 0" },
};
// and what it does: the powers of α by which the old ℓ and O are multiplied, what p is measured against, m's start
const SLIP = { no_rescale_o: { o: 0 }, no_rescale_l: { l: 0 }, neither: { l: 0, o: 0 }, inverse: { l: -1, o: -1 }, own_max: { own: true }, start_zero: { start: 0 } };
const FIRST = "no_rescale_o"; // of the mistakes: what comes out can be larger than every value, which no average is
const DONE = { m: 3, alpha: 4, p: 5, l: 6, o: 7 }; // the line after which a quantity is new: m_new is m's place in the picture
/** m_new with its "new" below the line. */
const lowered = (text) => text.split(/_(\w+)/).map((part, i) => (i % 2 ? h("sub", {}, part) : part));
const num = (x) => (typeof x === "string" ? Number(x) : x);
const finite = (x) => (x === -Infinity ? 0 : x);
const sum = (xs) => xs.reduce((a, b) => a + b, 0);
const far = (x, y) => Math.abs(x - y);
const vector = (x, more) => `[${x.map((y) => short(y, 5)).join(", ")}${more ? ", …" : ""}]`;

/** The state after each tile, with a slip: mirrors `states` of course_lib/attention/slips.py. `sums`: what a tile itself adds; `by`: what the old is multiplied by. */
export function trace(scores, values, tiles, variant) {
  const slip = SLIP[variant] ?? {}, known = scores.map(num);
  const run = { p: [], m: [], alpha: [], l: [], o: [], sums: { l: [], o: [] }, by: { l: [], o: [] } };
  let m = slip.start ?? -Infinity, l = 0, o = values[0].map(() => 0);
  for (const [first, stop] of tiles) {
    const s = known.slice(first, stop), top = Math.max(...s), m_new = Math.max(m, top);
    const against = finite(slip.own ? top : m_new), p = s.map((x) => Math.exp(x - against));
    const alpha = Math.exp(m - finite(m_new)), shrink = m === -Infinity && l === 0 ? 1 : alpha;
    const by = { l: shrink ** (slip.l ?? 1), o: shrink ** (slip.o ?? 1) };
    const sums = { l: sum(p), o: o.map((_, c) => sum(p.map((x, i) => x * values[first + i][c]))) };
    [m, l, o] = [m_new, l * by.l + sums.l, o.map((x, c) => x * by.o + sums.o[c])];
    for (const [name, value] of Object.entries({ p, m, alpha, l, o })) run[name].push(value);
    for (const name of ["l", "o"]) [run.sums[name].push(sums[name]), run.by[name].push(by[name])];
  }
  return run;
}

/** O / ℓ, and 0 for a row without any key. */
export const divided = (o, l, empty) => o.map((x) => (empty ? 0 : x / l));

/** What each tile so far has in a sum, after the tile at `place`: what it added, times all factors since. */
export function shares(sums, by, place) {
  const parts = [];
  for (let j = place, factor = 1; j >= 0; factor *= by[j], j -= 1) parts.unshift(sums[j] * factor);
  return parts;
}

/** Where a step is: the tile's place in the order, and its line (1 to 7); the end is place = n. */
export function position(step, nTiles) {
  if (step === 0) return { place: -1, line: 0 };
  if (step > LINES.length * nTiles) return { place: nTiles, line: 0 };
  return { place: Math.floor((step - 1) / LINES.length), line: ((step - 1) % LINES.length) + 1 };
}

/** The state of a run after a step: the largest score so far, alpha (only while its tile is in SRAM), what is kept of m, l, o. */
export function stateAt(run, step, nTiles, start) {
  const { place, line } = position(step, nTiles);
  const last = Math.min(place, nTiles - 1);
  const read = (name, before, done = DONE[name]) => {
    const i = place >= nTiles || line >= done ? last : last - 1;
    return i < 0 ? before : run[name][i];
  };
  const by = (name) => (place < nTiles && line >= DONE.alpha && line < DONE[name] ? run.by[name][place] : 1); // shrunk, and nothing added yet
  const zero = run.o[0].map(() => 0);
  const alpha = place >= 0 && place < nTiles && line >= DONE.alpha ? run.alpha[place] : null;
  return { m: read("m", start), kept: read("m", start, DONE.alpha), alpha, l: by("l") * read("l", 0), o: read("o", zero).map((x) => by("o") * x) };
}

/** The next step forwards or backwards, by line or by tile. */
export function stepFrom(step, direction, by, nTiles) {
  const last = LINES.length * nTiles + 1;
  if (by === "line") return Math.max(0, Math.min(last, step + direction));
  const stops = [0, ...Array.from({ length: nTiles }, (_, i) => LINES.length * (i + 1)), last];
  if (direction > 0) return stops.find((stop) => stop > step) ?? last;
  return stops.findLast((stop) => stop < step) ?? 0;
}

const TRAITS = ["row", "step", "by", "reverse", "mistake", "order", "changed", "column"];

function render({ model, el }) {
  const data = model.get("data"), values = data.values, nTiles = data.tiles.length;
  const last = LINES.length * nTiles + 1, more_columns = data.d_v > data.columns;

  // Controls -------------------------------------------------------------------------------------
  const bar = player(model, el, { last: () => last, move: (direction) => stepFrom(model.get("step"), direction, model.get("by"), nTiles) });
  const order = data.fixed || nTiles === 1 ? null : choose("Order", [["false", "as given"], ["true", "last tile first"]], "reverse", (x) => x === "true");
  const mistakes = Object.entries(data.says).filter(([name]) => name !== "right");
  const slips = mistakes.map(([name, says]) => h("button", { type: "button", class: `fac-step-slip-button ${name === FIRST ? "fac-step-first" : ""}`, onclick: () => put(model, { mistake: model.get("mistake") === name ? "none" : name }) }, says));
  const mistake = h("div", { class: "fac-step-slips", role: "group", "aria-label": "A mistake to try" }, slips);
  const by = choose("Step by", [["line", "line"], ["tile", "tile"]], "by");
  const row = data.rows.length > 1 ? choose("Query row", data.rows.map((r) => [r, r]), "row", Number) : null;
  const column = data.columns > 1 ? choose("Column of V and O", Array.from({ length: data.columns }, (_, c) => [c, c]), "column", Number) : null;
  const back = h("button", { type: "button", onclick: () => put(model, { changed: {}, order: data.tiles.map((_, i) => i) }) }, "Undo what was dragged");

  const few = data.rows.length < 4;

  function choose(label, options, trait, read = (x) => x) {
    const { node, row } = select(label, options, (value) => put(model, { [trait]: read(value) }));
    const follow = () => (node.value = String(model.get(trait)));
    model.on(`change:${trait}`, follow);
    follow();
    return row;
  }

  const picture = stepperPicture(model, data, now, () => said);
  const head = h("p", { class: "fac-step-title" }), place_ = h("span", { class: "fac-soft" }), formula = h("span", {});
  const words = h("p", { class: "fac-stage-words fac-step-words" }, place_, " ", formula);
  const code = h("ol", { class: "fac-code", "aria-label": "The algorithm" });
  const state = h("div", {}), final = h("div", { class: "fac-final" });
  const voice = announcer();
  let said = "";

  const fold = more("step by tile, the numbers", h("div", { class: "fac-row" }, few ? null : row, column, by), state,
    data.fixed ? null : h("p", { class: "fac-soft" }, "Drag a score up or down, a tile's name to another place. With the keyboard: Tab to the scores, ←/→ to another, ↑/↓ to change it, Shift with ←/→ to move its tile."));
  const kept = unfolded(fold, drawState);
  const title = data.title ? h("div", { class: "fac-title" }, data.title) : null;
  root(model, el, title, head, picture.node, words, bar.node,
    h("div", { class: "fac-halves" }, part("stepper-code", code),
      h("div", {}, h("div", { class: "fac-step-try" }, h("div", {}, "A mistake to try: first ", h("b", {}, `“${data.says[FIRST]}”`)), part("stepper-mistake", mistake), few ? row : null, order, back), final)),
    fold, voice.node);

  /** All that is shown of the row, computed anew only when something but the step has changed. */
  let known = { key: "" };
  function now() {
    const [r, reverse, wrong, order, changed, column] = ["row", "reverse", "mistake", "order", "changed", "column"].map((name) => model.get(name));
    const key = JSON.stringify([r, reverse, wrong, order, changed, column]);
    if (known.key === key) return known;
    const scores = data.scores[r].map((x, i) => changed[`${r}:${i}`] ?? num(x)), sequence = reverse ? [...order].reverse() : order;
    const walk = (places, name) => {
      const tiles = places.map((i) => data.tiles[i]), run = trace(scores, values, tiles, name);
      run.out = divided(run.o.at(-1), run.l.at(-1), tiles.every(([a, b]) => scores.slice(a, b).every((x) => x === -Infinity)));
      run.means = run.o.map((o, i) => o[column] / run.l[i]);
      run.added = { l: run.sums.l, o: run.sums.o.map((o) => o[column]) };
      run.parts = { l: [], o: [] };
      for (const what of ["l", "o"]) for (let i = 0; i < places.length; i += 1) run.parts[what].push(shares(run.added[what], run.by[what], i));
      return run;
    };
    const whole = trace(scores, values, [[0, data.n_k]], "right");
    known = { key, scores, sequence, column, wrong: wrong === "none" ? null : wrong, right: walk(sequence, "right"), start: wrong === "start_zero" ? 0 : -Infinity };
    known.truth = divided(whole.o[0], whole.l[0], scores.every((x) => x === -Infinity));
    known.slip = known.wrong && walk(sequence, known.wrong);
    known.other = sequence.some((tile, i) => tile !== i) ? walk(data.tiles.map((_, i) => i), "right") : null; // the order given
    return known;
  }

  function draw() {
    const all = now(), step = Math.min(model.get("step"), last), { place, line } = position(step, nTiles);
    const [at, line_, numbers] = where(all, place, line), what = line_ + numbers;
    write(head, headline(all, place, line));
    write(place_, at);
    write(formula, line ? numbers.replace(/^:/, `${LINES[line - 1][1].split(/[_ ]/)[0]} =`) : numbers); // the line itself is marked in the code
    said = `${at} ${head.textContent}. ${what}`;
    bar.follow(said);
    const dragged = Object.keys(model.get("changed")).length || model.get("order").some((tile, i) => tile !== i);
    back.hidden = !dragged;
    slips.forEach((button, i) => button.setAttribute("aria-pressed", mistakes[i][0] === all.wrong));
    picture.draw();
    if (code.facShown !== all.wrong) drawCode((code.facShown = all.wrong));
    const current = place < 0 ? 0 : place >= nTiles ? LINES.length + 2 : line + 1;
    [...code.children].forEach((item, i) => (i === current ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current")));
    kept();
    const end = place >= nTiles;
    if (final.facShown !== all) drawFinal((final.facShown = all));
    final.classList.toggle("fac-waiting", !end);
    voice.say(said);
  }

  /** The line that has run, with its numbers. */
  function where({ scores, sequence, right, column }, place, line) {
    if (place < 0) return ["Start:", "", "no key seen yet."];
    if (place >= nTiles) return ["End:", "", "one division, O / ℓ."];
    const [first, stop] = data.tiles[sequence[place]], x = (y) => short(y, 6), list = (numbers) => (numbers.length > 4 ? `${numbers.length} numbers` : `[${numbers.map((y) => (y === -Infinity ? "masked" : short(y, 2))).join(", ")}]`);
    const before = (name, zero) => (place ? right[name][place - 1] : zero), { m, alpha, l, o, added, by } = right;
    const old = before("m", -Infinity), shrunk = (name, old) => x(place ? by[name][place] * old : 0);
    const says = [
      "", `: ${list(scores.slice(first, stop))}`, `: max(${x(old)}, ${x(Math.max(...scores.slice(first, stop)))}) = ${x(m[place])}`,
      `: exp(${x(old)} − ${x(m[place])}) = ${short(alpha[place], 4)}`, `: ${list(right.p[place])}`,
      `: ${shrunk("l", before("l", 0))} + ${x(added.l[place])} = ${x(l[place])}`,
      `: ${shrunk("o", o[place - 1]?.[column])} + ${x(added.o[place])} = ${x(o[place][column])}`,
    ];
    return [`Tile ${place + 1} of ${nTiles}:`, LINES[line - 1][1], says[line - 1]];
  }

  /** The weight of the score that the picture follows: the highest one under m. */
  function followed(scores, m) {
    const best = Math.max(...scores.filter((s) => s < m));
    return best > -Infinity ? `A score ${under(best, m).is.slice(1)} below m weighs ${short(Math.exp(best - m), 3)}` : "A score at m weighs 1";
  }

  /** What has just happened, in a line. */
  function headline({ scores, sequence, right, column, slip, wrong, truth }, place, line) {
    const x = (y) => short(y, 3);
    if (place < 0) return `${nTiles > 1 ? `${nTiles} tiles, each used once and forgotten` : "One tile"}: only m, ℓ and O are kept`;
    if (place >= nTiles) return slip && far(slip.out[column], truth[column]) > 1e-4 * Math.max(1e-300, ...truth.map(Math.abs)) ? `The mistake answers ${short(slip.out[column], 4)}; right is ${short(truth[column], 4)}` : `${nTiles > 1 ? "Tile by tile" : "One tile"}, the answer is ${short(right.out[column], 4)}, as all at once`;
    const tile = sequence[place], [first, stop] = data.tiles[tile], name = `tile ${nTiles <= 26 ? String.fromCharCode(65 + tile) : tile + 1}`, top = Math.max(...scores.slice(first, stop));
    const old = place ? right.m[place - 1] : -Infinity, m = right.m[place], by = right.by.l[place];
    if (line > 2 && m === -Infinity) return `Every key of ${name} is masked: nothing is added`;
    return [
      `${name.replace("t", "T")} comes: ${stop - first > 1 ? `keys ${first} to ${stop - 1}` : `key ${first}`}`,
      top === -Infinity ? `Every key of ${name} is masked` : `The highest score of ${name} is ${x(top)}`,
      m > old ? (place && old > -Infinity ? `m, the largest score so far, rises from ${x(old)} to ${x(m)}` : `m = ${x(m)}, the largest score so far`) : `m stays ${x(m)}: no score of ${name} is larger`,
      !place || old === -Infinity ? "Nothing is summed yet that could shrink" : by < 1 ? `m rose by ${x(m - old)}, so ℓ and O both shrink: × exp(−${x(m - old)})` : "m did not rise: the sums stay as large",
      followed(scores.slice(first, stop), m),
      `ℓ gets the weights of ${name}: ${x(right.added.l[place])} more`,
      `O gets their values, weighted: ${x(right.added.o[place])} ${right.added.o[place] < 0 ? "added" : "more"}`,
    ][line - 1];
  }

  // Words ----------------------------------------------------------------------------------------
  function drawCode(wrong) {
    const changes = WRONG_LINES[wrong] ?? {};
    const item = (key, text, inner, then) => {
      const changed = changes[key] ? h("span", { class: "fac-was" }, " ✗ ", h("b", {}, lowered(changes[key]))) : null;
      return h("li", { class: inner ? "fac-in" : null }, lowered(text), ...(then ? [h("br"), ...lowered(then)] : []), changed);
    };
    code.replaceChildren(
      item("start", "m = −∞, ℓ = 0, O = 0"),
      item("for", "for each tile j:"),
      ...LINES.map(([key, text, then]) => item(key, text, true, then)),
      item("end", "out = O / ℓ"),
    );
  }

  function drawState() {
    const { right, slip, wrong, start } = now(), step = Math.min(model.get("step"), last);
    const before = stepFrom(step, -1, model.get("by"), nTiles), runs = slip ? [right, slip] : [right];
    const cells = (key, format) => runs.map((run) => {
      const [was, is] = [before, step].map((at) => stateAt(run, at, nTiles, run === slip ? start : -Infinity)[key]);
      const changed = is != null && step > 0 && String(was) !== String(is);
      const old = changed && was != null ? h("span", { class: "fac-was" }, format(was), " → ") : null;
      return h("td", { class: `${changed ? "fac-changed" : ""} ${run === right ? "" : "fac-wrong"}` }, old, is == null ? "–" : format(is));
    });
    const scalar = (x) => short(x, 6);
    const line = (label, key, format) => h("tr", {}, h("th", { scope: "row" }, label), cells(key, format));
    const head = slip ? h("tr", {}, h("th", {}), h("th", { scope: "col" }, "✓ right"), h("th", { scope: "col" }, `✗ ${data.says[wrong]}`)) : null;
    state.replaceChildren(h("table", {}, h("caption", { class: "fac-hear" }, "The state that is kept"), h("tbody", {}, head,
      line("m", "kept", scalar), line("α", "alpha", scalar), line("ℓ", "l", scalar), line("O", "o", (x) => vector(x, more_columns)))));
  }

  /** Always as tall as it will be at the end: until then its words are there, unseen. */
  function drawFinal(all) {
    const { right, slip, wrong, truth } = all, differ = (out) => Math.max(...out.map((x, i) => far(x, truth[i])));
    const scale = Math.max(1e-300, ...truth.map(Math.abs)), same = differ(right.out) <= 1e-4 * scale;
    const shown = [
      h("p", {}, h("b", {}, "Streamed, O / ℓ: "), vector(right.out, more_columns)),
      h("p", {}, h("b", {}, "All at once: "), vector(truth, more_columns)),
      h("p", {}, same ? "✓ The same: nothing was lost by throwing tiles away." : `✗ They differ by up to ${short(differ(right.out), 3)}: these tiles are not every key once.`),
    ];
    if (slip) shown.push(h("p", {}, h("b", {}, `✗ ${data.says[wrong]}: `), vector(slip.out, more_columns), `. ${consequence(slip.out, differ(slip.out), scale)}`));
    final.replaceChildren(...shown);
  }

  function consequence(out, gap, scale) {
    if (out.some((x) => !Number.isFinite(x))) return "Not a number: the sum underflowed or overflowed.";
    if (gap <= 1e-4 * scale) return "The same answer: this order hides the mistake. Try the other order or another row.";
    const of = (c) => values.map((v) => v[c]);
    if (out.some((x, c) => x > Math.max(...of(c)))) return "Above every value: impossible for an average.";
    if (out.some((x, c) => x < Math.min(...of(c)))) return "Below every value: impossible for an average.";
    return `Off by up to ${short(gap, 3)}, and nothing shows it.`;
  }

  onChanges(model, TRAITS, draw);
  draw();
  return bar.stop;
}

export default { render };
