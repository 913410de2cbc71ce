// One query row, its K/V tiles, and the state (m, ℓ, O). Python ran the recurrence; this shows it.
// What it exports is held against Python in tests/widgets/test_javascript.py.

const LINES = [
  ["load", "load K_j, V_j"],
  ["s", "s = q · K_jᵀ · scale"],
  ["m", "m_new = max(m, largest s)"],
  ["alpha", "α = exp(m − m_new)"],
  ["p", "p = exp(s − m_new)"],
  ["l", "ℓ = α·ℓ + sum(p)"],
  ["o", "O = α·O + p · V_j"],
];
// what a mistake turns a line into: the student sees the very change
const WRONG_LINES = {
  no_rescale_o: { o: "O = O + p · V_j" },
  no_rescale_l: { l: "ℓ = ℓ + sum(p)" },
  neither: { l: "ℓ = ℓ + sum(p)", o: "O = O + p · V_j" },
  inverse: { l: "ℓ = ℓ/α + sum(p)", o: "O = O/α + p · V_j" },
  own_max: { p: "p = exp(s − max(s))" },
  start_zero: { start: "m = 0, ℓ = 0, O = 0" },
};
const DONE = { m: 3, alpha: 4, p: 5, l: 6, o: 7 }; // the line after which a quantity is new
const num = (x) => (typeof x === "string" ? Number(x) : x);
const fixed = (x) => (Math.abs(x) >= 1e4 ? short(x, 3) : x.toFixed(Math.abs(x) >= 100 ? 1 : 3).replace("-", "−"));
const vector = (x, more) => `[${x.map((y) => short(num(y), 5)).join(", ")}${more ? ", …" : ""}]`;

/** Where a step is: the tile's place in the order, and its line (1 to 7); the end is place = n. */
export function position(step, nTiles) {
  if (step === 0) return { place: -1, line: 0 };
  if (step > LINES.length * nTiles) return { place: nTiles, line: 0 };
  return { place: Math.floor((step - 1) / LINES.length), line: ((step - 1) % LINES.length) + 1 };
}

/** The state of a run after a step: m, alpha, l, o (alpha only while its tile is in SRAM). */
export function stateAt(run, step, nTiles, start) {
  const { place, line } = position(step, nTiles);
  const last = Math.min(place, nTiles - 1);
  const read = (name, before) => {
    const i = place >= nTiles || line >= DONE[name] ? last : last - 1;
    return i < 0 ? before : run[name][i];
  };
  const zero = run.o[0].map(() => 0);
  const alpha = place >= 0 && place < nTiles && line >= DONE.alpha ? run.alpha[place] : null;
  return { m: read("m", start), alpha, l: read("l", 0), o: read("o", zero) };
}

/** The next step forwards or backwards, by line or by tile. */
export function stepFrom(step, direction, by, nTiles) {
  const last = LINES.length * nTiles + 1;
  if (by === "line") return Math.max(0, Math.min(last, step + direction));
  const stops = [0, ...Array.from({ length: nTiles }, (_, i) => LINES.length * (i + 1)), last];
  if (direction > 0) return stops.find((stop) => stop > step) ?? last;
  return stops.findLast((stop) => stop < step) ?? 0;
}

function render({ model, el }) {
  const data = model.get("data");
  const nTiles = data.tiles.length;
  const last = LINES.length * nTiles + 1;

  // Controls -------------------------------------------------------------------------------------
  const bar = player(model, el, { last: () => last, move: (direction) => stepFrom(model.get("step"), direction, model.get("by"), nTiles) });
  const by = choose("Step by", [["line", "line"], ["tile", "tile"]], "by");
  const row = data.rows.length > 1 ? choose("Query row", data.rows.map((r) => [r, r]), "row", Number) : null;
  const order = data.orders.length > 1
    ? choose("Order", [["false", "as given"], ["true", "last tile first"]], "reverse", (x) => x === "true") : null;
  const mistakes = Object.entries(data.says).filter(([name]) => name !== "right");
  const mistake = choose("What if we forget to rescale?", [["none", "no mistake"], ...mistakes], "mistake");

  function choose(label, options, trait, read = (x) => x) {
    const { node, row } = select(label, options, (value) => put(model, { [trait]: read(value) }));
    const follow = () => (node.value = String(model.get(trait)));
    model.on(`change:${trait}`, follow);
    follow();
    return row;
  }

  // The picture ----------------------------------------------------------------------------------
  const finite = Object.values(data.by_row).flatMap((r) => r.scores.map(num)).filter(Number.isFinite);
  const low = Math.min(...finite), high = Math.max(...finite);
  const tall = (score) => `${12 + (88 * (score - low)) / (high - low || 1)}%`;
  const cards = data.tiles.map(([first, stop]) => {
    const what = h("small", {});
    const bars = h("div", { class: "fac-bars", "aria-hidden": "true" });
    const keys = stop - first === 1 ? `key ${first}` : `keys ${first}–${stop - 1}`;
    return { what, bars, node: h("li", { class: "fac-tile" }, h("b", {}, keys), what, bars) };
  });
  const strip = h("ul", { class: "fac-tiles" });
  const sram = h("div", {});
  const code = h("ol", { class: "fac-code", "aria-label": "The algorithm" });
  const state = h("div", {});
  const final = h("div", {});
  const summary = h("p", { class: "fac-soft" });
  const voice = announcer();

  const title = data.title ? h("div", { class: "fac-title" }, data.title) : null;
  root(model, el, title,
    h("div", { class: "fac-row" }, row, order, by, part("stepper-mistake", mistake)),
    bar.node,
    part("stepper-tiles", strip), summary,
    h("div", { class: "fac-halves" },
      h("div", {}, part("stepper-code", code), sram),
      h("div", {}, part("stepper-notes", state), final)),
    voice.node);

  function draw() {
    const here = data.by_row[model.get("row")];
    const runs = here.runs[model.get("reverse") ? "reversed" : "given"];
    const wrong = model.get("mistake") === "none" ? null : model.get("mistake");
    const step = Math.min(model.get("step"), last);
    const { place, line } = position(step, nTiles);
    const sequence = data.tiles.map((_, i) => (model.get("reverse") ? nTiles - 1 - i : i));

    bar.follow(where(step));

    strip.replaceChildren(...sequence.map((tile, at) => drawCard(tile, at, place, line, here)));
    summary.textContent = where(step);
    strip.setAttribute("aria-label", `K/V tiles, first visited first. ${where(step)}`);
    drawCode(line, place, wrong);
    drawKeys(here, runs, wrong, sequence[place], place, line);
    drawState(runs, wrong, step);
    drawFinal(here, runs, wrong, place);
    voice.say(where(step));

    function where(at) {
      const spot = position(at, nTiles);
      if (spot.place < 0) return "Start: no key seen yet.";
      if (spot.place >= nTiles) return `End: ${nTiles} of ${nTiles} tiles folded in, then one division.`;
      return `Tile ${spot.place + 1} of ${nTiles}, line ${spot.line} of ${LINES.length}: ${LINES[spot.line - 1][1]}`;
    }
  }

  function drawCard(tile, at, place, line, here) {
    const card = cards[tile];
    const [first, stop] = data.tiles[tile];
    const now = at === place, folded = at < place;
    const known = now && line >= 2; // scores exist only while their tile is here
    card.node.className = `fac-tile${now ? " fac-now" : folded ? " fac-folded" : ""}`;
    card.what.textContent = now ? "● now in SRAM" : folded ? "✓ folded in, thrown away" : "○ not touched yet";
    card.bars.replaceChildren(...(known ? here.scores.slice(first, stop) : []).map((score) => {
      const value = num(score);
      return Number.isFinite(value) ? h("i", { style: `height:${tall(value)}` }) : h("i", { class: "fac-masked" });
    }));
    return card.node;
  }

  function drawCode(line, place, wrong) {
    const other = WRONG_LINES[wrong] ?? {};
    const item = (key, text, current, inner) => {
      const changed = other[key] ? h("span", { class: "fac-was" }, " ✗ ", h("b", {}, other[key])) : null;
      return h("li", { class: inner ? "fac-in" : null, "aria-current": current ? "step" : null }, text, changed);
    };
    code.replaceChildren(
      item("start", "m = −∞, ℓ = 0, O = 0", place < 0),
      item("for", "for each tile j:", false),
      ...LINES.map(([key, text], i) => item(key, text, place >= 0 && place < nTiles && line === i + 1, true)),
      item("end", "out = O / ℓ", place >= nTiles),
    );
  }

  function drawKeys(here, runs, wrong, tile, place, line) {
    if (place < 0 || place >= nTiles) return sram.replaceChildren(h("p", { class: "fac-soft" }, "No tile in SRAM."));
    const [first, stop] = data.tiles[tile];
    const p = line >= DONE.p ? runs.right.p[place] : null;
    const other = p && wrong ? runs[wrong].p?.[place] : null;
    const keys = here.scores.slice(first, stop).map((score, i) => {
      const masked = num(score) === -Infinity;
      return h("li", {}, h("b", {}, `key ${first + i}`),
        line >= 2 ? h("div", {}, masked ? "s masked" : `s ${fixed(num(score))}`) : null,
        p ? h("div", {}, `p ${fixed(num(p[i]))}`) : null,
        other ? h("div", {}, `✗ ${fixed(num(other[i]))}`) : null);
    });
    sram.replaceChildren(h("ul", { class: "fac-keys", "aria-label": "The tile now in SRAM" }, keys));
  }

  function drawState(runs, wrong, step) {
    const before = stepFrom(step, -1, model.get("by"), nTiles);
    const names = wrong ? ["right", wrong] : ["right"];
    const more = data.d_v > data.columns;
    const cells = (key, format) => names.map((name) => {
      const start = name === "start_zero" ? 0 : -Infinity;
      const [was, is] = [before, step].map((at) => stateAt(runs[name], at, nTiles, start)[key]);
      const text = is == null ? "–" : format(is);
      const changed = is != null && step > 0 && JSON.stringify(was) !== JSON.stringify(is);
      const old = changed && was != null ? h("span", { class: "fac-was" }, format(was), " → ") : null;
      return h("td", { class: `${changed ? "fac-changed" : ""} ${name === "right" ? "" : "fac-wrong"}` }, old, text);
    });
    const scalar = (x) => short(num(x), 6);
    const line = (label, key, format) => h("tr", {}, h("th", { scope: "row" }, label), cells(key, format));
    const head = wrong
      ? h("tr", {}, h("th", {}), h("th", { scope: "col" }, "✓ right"), h("th", { scope: "col" }, `✗ ${data.says[wrong]}`)) : null;
    state.replaceChildren(h("table", {}, h("caption", { class: "fac-hear" }, "The state that is kept"), h("tbody", {}, head,
      line("m", "m", scalar), line("α", "alpha", scalar), line("ℓ", "l", scalar), line("O", "o", (x) => vector(x, more)))));
  }

  function drawFinal(here, runs, wrong, place) {
    if (place < nTiles) return final.replaceChildren();
    const more = data.d_v > data.columns;
    const differ = (out) => Math.max(...out.map((x, i) => Math.abs(num(x) - num(here.truth[i]))));
    const scale = Math.max(1e-300, ...here.truth.map((x) => Math.abs(num(x))));
    const same = differ(runs.right.out) <= 1e-4 * scale;
    const shown = [
      h("p", {}, h("b", {}, "Streamed, O / ℓ: "), vector(runs.right.out, more)),
      h("p", {}, h("b", {}, "All at once: "), vector(here.truth, more)),
      h("p", {}, same ? "✓ The same: nothing was lost by throwing tiles away." : `✗ They differ by up to ${short(differ(runs.right.out), 3)}: these tiles are not every key once.`),
    ];
    if (wrong) {
      shown.push(h("p", {}, h("b", {}, `✗ ${data.says[wrong]}: `), vector(runs[wrong].out, more), `. ${consequence(here, runs[wrong].out)}`));
    }
    final.replaceChildren(h("div", { class: "fac-final" }, shown));
  }

  function consequence(here, out) {
    const [lows, highs] = data.range;
    const gap = Math.max(...out.map((x, i) => Math.abs(num(x) - num(here.truth[i]))));
    if (out.some((x) => !Number.isFinite(num(x)))) return "Not a number: the sum underflowed or overflowed.";
    const scale = Math.max(1e-300, ...here.truth.map((x) => Math.abs(num(x))));
    if (gap <= 1e-4 * scale) return "The same answer: this order hides the mistake. Try the other order or another row.";
    if (out.some((x, i) => num(x) > highs[i])) return "Above every value: impossible for an average.";
    if (out.some((x, i) => num(x) < lows[i])) return "Below every value: impossible for an average.";
    return `Off by up to ${short(gap, 3)}, and nothing shows it.`;
  }

  onChanges(model, ["row", "step", "by", "reverse", "mistake"], draw);
  draw();
  return bar.stop;
}

export default { render };
