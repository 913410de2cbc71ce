// Bytes to and from HBM by several models. The models are data; only K_rows is counted here as well.
// What it exports is held against Python in tests/widgets/test_javascript.py.

const greatestCommonDivisor = (a, b) => (b ? greatestCommonDivisor(b, a % b) : a);

/**
 * Rows of K that causal programs load, as `derived_counts` of course_lib/accounting/traffic.py has
 * it, without a walk over all Q tiles: both tilings meet after their least common multiple, and from
 * one such period to the next each program loads one more.
 */
export function causalRows(n, blockQ, blockK) {
  const period = (blockQ / greatestCommonDivisor(blockQ, blockK)) * blockK;
  const tiles = period / blockQ; // Q tiles in a period
  const whole = Math.floor(n / period);
  let each = 0, rest = 0;
  if (whole) for (let i = 1; i <= tiles; i += 1) each += Math.ceil((i * blockQ) / blockK) * blockK;
  for (let i = whole * tiles; i * blockQ < n; i += 1) rest += Math.min(Math.ceil(Math.min((i + 1) * blockQ, n) / blockK) * blockK, n);
  return whole * each + (tiles * period * whole * (whole - 1)) / 2 + rest;
}

/** The symbols of the formulas. Without a mask K_rows is T_q N_k, whatever the tiles of K. */
export function symbols(shape) {
  const { n, blockQ, blockK, causal } = shape;
  const kRows = causal ? causalRows(n, blockQ, blockK) : Math.ceil(n / blockQ) * n;
  return { H: shape.heads, H_kv: shape.kvHeads, N_q: n, N_k: n, d: shape.d, b: shape.b, K_rows: kRows };
}

export const modelBytes = (model, values) => model.terms.reduce((sum, term) => sum + termBytes(term, values), 0);

/** What one query head moves, a trip at a time, as areas as tall as S: the twin of `HBMAccountant.areas`. */
export function areas(model, values) {
  return model.terms.map((term) => {
    const wide = termBytes(term, values) / values.H / values.b / values.N_q;
    const kind = "K_rows" in term.powers && values.K_rows > values.N_k ? "pile" : "N_q" in term.powers && "N_k" in term.powers ? "square" : "strip";
    return { tensor: term.tensor, direction: term.direction, kind, wide, tall: values.N_q };
  });
}

/** The trips where they lie: in one row, the strips last, so that what moves more is longer. */
export function placed(trips) {
  const starts = new Map();
  let x = 0;
  for (const strips of [false, true]) for (const trip of trips) if ((trip.kind === "strip") === strips) x = starts.set(trip, x).get(trip) + trip.wide;
  return trips.map((trip) => ({ ...trip, x: starts.get(trip), y: 0 }));
}

/** The least seconds of overhead, traffic and arithmetic; the largest sets the pace. */
export function pace(flops, bytes, launches, chip, launchSeconds) {
  const times = { overhead: launches * launchSeconds, traffic: bytes / (chip.hbm_gb_per_s * 1e9), arithmetic: flops / (chip.tflops_half * 1e12) };
  const limit = Object.keys(times).reduce((a, b) => (times[b] > times[a] ? b : a));
  return { ...times, limit };
}

/** The N at which the N^2 terms overtake the others; null without N^2 terms. */
export function crossover(model, shape) {
  const one = { H: shape.heads, H_kv: shape.kvHeads, d: shape.d, N_q: 1, N_k: 1, b: 1 };
  let square = 0, rest = 0;
  for (const term of model.terms) {
    if ("K_rows" in term.powers) continue;
    if ("N_q" in term.powers && "N_k" in term.powers) square += termBytes(term, one);
    else rest += termBytes(term, one);
  }
  return square ? rest / square : null;
}

/** How many times as much: 1.19, 32.5, 65, 123. */
export const times = (ratio) => short(ratio, 3);

/** A share in whole percent that says 100 only of the whole. */
function percent(share) {
  return share < 1 && share > 0.99 ? "over 99 %" : `${Math.round(100 * share)} %`;
}

const often = (times) => (times === 1 ? "once" : `${short(times, 3)} times`);
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Terms with the same symbols added up: what the formula says, dearest first. */
function collected(model, values) {
  const sums = new Map();
  for (const term of model.terms) {
    const text = Object.entries(term.powers).map(([name, power]) => (power === 1 ? name : `${name}^${power}`)).join(" ");
    const entry = sums.get(text) ?? { text, count: 0, bytes: 0 };
    entry.count += term.coefficient;
    entry.bytes += termBytes(term, values);
    sums.set(text, entry);
  }
  return [...sums.values()].sort((a, b) => b.bytes - a.bytes);
}

const milliseconds = (ms) => (ms >= 1000 ? `${short(ms / 1000, 3)} s` : ms >= 0.1 ? `${ms.toPrecision(3)} ms` : ms >= 1e-4 ? `${short(ms * 1000, 3)} µs` : `${short(ms * 1e6, 2)} ns`);

const LENGTHS = powersOfTwo(16, 2 ** 20).flatMap((n) => (n < 2 ** 20 ? [n, 1.5 * n] : [n])); // where a drag stops
const LETTER = 14; // pixels: from this width on a strip has its letter under it
const RING = 26; // pixels: on a smaller S the handle would hide it
const thousands = (n) => (n >= 65536 && n % 1024 === 0 ? `${n / 1024}k` : `${n}`); // as the plot over N has them
const plainly = (label) => label.replace(/ \(.*/, "");
const LIMITS = { overhead: "launches set", traffic: "traffic sets", arithmetic: "arithmetic sets" };
const WAITS = ["waits for", "arithmetic"];
const TURN = ["q", "k", "s", "s_scaled", "p", "v", "o"]; // the order in which naive code makes its trips

function render({ model, el }) {
  const data = model.get("data");
  const voice = announcer();
  const get = (name) => model.get(name);
  const TRAITS = ["n", "d", "heads", "kv_heads", "layers", "batch", "block_q", "block_k", "dtype", "causal", "gpu"];

  // Settings -------------------------------------------------------------------------------------
  const tiled = data.models.some((m) => m.terms.some((t) => "K_rows" in t.powers));
  const fields = [
    powerField("n", "N, rows of Q, K, V", 16),
    powerField("d", "d, head dimension", 8),
    headsField(),
    groupField(),
    powerField("layers", "layers", 1),
    powerField("batch", "batch", 1),
    powerField("block_q", "B_q, rows of a Q tile", 16),
    powerField("block_k", "B_k, rows of a K/V tile", 16),
  ];
  const presetNames = Object.keys(data.presets);
  const preset = select("Preset", [["", "own settings"], ...presetNames.map((name) => [name, name])], (name) => name && put(model, data.presets[name]));
  const dtype = select("dtype", Object.entries(data.dtypes).map(([name, b]) => [name, `${name}, ${b} B`]), (value) => put(model, { dtype: value }));
  const gpu = select("GPU", Object.keys(data.gpus).map((name) => [name, name]), (value) => put(model, { gpu: value }));
  const causal = checkbox("causal", (checked) => put(model, { causal: checked }));

  function powerField(trait, label, least) {
    return countField(model, trait, label, least, data.limits[trait]);
  }

  /** Query heads; the K/V heads follow, so that the GQA ratio stays where it can. */
  function headsField() {
    const most = data.limits.heads;
    return field("H, query heads", powersOfTwo(1, most), () => get("heads"), (value) => {
      if (!Number.isInteger(value) || value < 1 || value > most) return `A whole number from 1 to ${most}, please.`;
      const group = get("heads") / get("kv_heads");
      put(model, { heads: value, kv_heads: value % group ? value : value / group });
    });
  }

  /** Query heads per K/V head: any divisor of H. */
  function groupField() {
    return field("GQA, query heads per K/V head", powersOfTwo(1, 256), () => get("heads") / get("kv_heads"), (value) => {
      const wanted = Math.min(value, get("heads"));
      if (!Number.isInteger(value) || value < 1 || get("heads") % wanted) return `A number that divides the ${get("heads")} query heads, please.`;
      put(model, { kv_heads: get("heads") / wanted });
    });
  }

  part("accountant-n", fields[0].node);
  part("accountant-gqa", fields[3].node);

  // The picture: a lane a model, every area at one scale --------------------------------------------
  const words = h("p", { class: "fac-words fac-finding" });
  const lanes = data.models.map(modelLane);
  const handled = lanes.find((lane) => lane.model.terms.some((t) => "N_q" in t.powers && "N_k" in t.powers)) ?? lanes[0];
  const ghost = s("rect", { class: "fac-ghost", visibility: "hidden" }); // S as it was before the last zoom
  const around = s("rect", { class: "fac-around" }); // the S whose corner it is
  const lead = s("path", { class: "fac-lead" }); // from a small S to its handle
  const drag = s("text", { class: "fac-trip fac-t-hand", "data-names": "n" });
  const [reach, knob] = ["fac-grab", "fac-knob"].map((name) => grip(handled.svg, s("circle", { class: `${name} fac-corner`, r: 18, "data-handle": "n" }, s("title", {}, "drag: N")), (x, y) => dragged(Math.max(x, y - above, 1)), () => ([grabbed, held_, above] = [null, true, shown.down]), () => ((held_ = false), later())));
  const arrows = s("path");
  const hand = s("g", {}, ghost, around, lead, drag, reach, knob, arrows);
  handled.svg.append(hand);
  let grabbed = null, held_ = false, above = 0; // where a drag began: N for each pixel from the corner of S, and how far below the row's top that lies
  const stage = part("accountant-picture", h("div", { class: "fac-lanes" }));
  const clock = s("svg", { class: "fac-clock", role: "img" }), clocked = scene(clock);
  const legend = h("p", { class: "fac-soft fac-scale" });
  const lay = h("button", { type: "button", onclick: () => layNext() }, "▶ One trip at a time");
  const plot = h("div", { class: "fac-plot" });
  const counters = h("p", { class: "fac-soft" });
  const overN = h("details", { class: "fac-more", ontoggle: () => draw(true) }, h("summary", {}, "the same over N, and what hardware counters saw"),
    part("accountant-over-n", h("div", {}, plot, counters)));
  const more = h("details", { class: "fac-more" }, h("summary", {}, "more: heads, dtype, GPU, tiles"),
    h("div", { class: "fac-row" }, preset.row, dtype.row, gpu.row, causal.row), h("div", { class: "fac-fields" }, fields.slice(2).map((f) => f.node)));
  const sums = h("div", { class: "fac-sums" }), addsUp = h("details", { class: "fac-more", ontoggle: () => draw(true) }, h("summary", {}, "how it adds up"), sums);
  root(model, el, part("accountant-words", words), stage, part("accountant-time", clock), legend,
    h("div", { class: "fac-controls" }, lay, fields[0].node, fields[1].node), h("div", { class: "fac-folds" }, addsUp, more, overN), voice.node);

  function lane(name, color) {
    const label = h("b", {}, name), ratio = h("span"), of = h("small"), value = h("span", { class: "fac-bytes" }), marks = s("g", {}), over = s("g", {}), named = s("g", {});
    const time = h("b", { class: "fac-time" }), says = h("small", {}), end = h("div", { class: "fac-end" }, time, says);
    const svg = s("svg", { class: "fac-lane", "aria-hidden": "true" }, marks, over, named);
    const node = h("div", { class: "fac-bar" }, h("div", { class: `fac-bar-head fac-text-${color}` }, label, h("em", {}, ratio, of), value), h("div", { class: "fac-clip" }, svg), end);
    return { node, label, value, ratio, of, time, says, end, svg, marks, named, timed: scene(over) };
  }

  function modelLane(m) {
    const made = lane(plainly(m.label), m.means);
    const trips = m.terms.map((term) => {
      const name = data.scores[term.tensor];
      const rect = s("rect", { class: `fac-area fac-fill-${name ? "s" : term.tensor}` });
      const says = s("text", { class: `fac-trip fac-on-${name ? "s" : term.tensor}` }, `${term.direction === "read" ? "read" : "write"} ${name ?? term.tensor.toUpperCase()}`);
      const letter = name ? "" : s("text", { class: `fac-trip fac-letter fac-name-${term.tensor}` }, term.tensor.toUpperCase());
      made.marks.append(rect);
      made.named.append(says, letter);
      return { rect, score: name, says, letter };
    });
    const counted = s("text", { class: "fac-trip fac-on-s fac-t-hand" });
    made.named.append(counted);
    const turns = m.terms.map((_, i) => i).sort((a, b) => TURN.indexOf(m.terms[a].tensor) - TURN.indexOf(m.terms[b].tensor));
    part(`accountant-${m.name}`, made.node);
    return Object.assign(made, { model: m, trips, turns, counted });
  }

  function extraLane(entry) {
    const made = lane(`${entry.kind === "ledger" ? "● " : "◆ "}${entry.label}${entry.n ? `, N = ${entry.n}` : ""}`.replace(/(?<=\bN) = /, "\u00a0=\u00a0"), "other");
    made.value.textContent = bytesText(entry.bytes);
    made.rect = s("rect", { class: "fac-area fac-fill-other" });
    made.torn = s("text", { class: "fac-trip fac-left", x: 8 }, "goes on below ↓");
    made.marks.append(made.rect, made.torn);
    return Object.assign(made, { entry });
  }

  const shapeAt = (n) => ({
    n, d: get("d"), heads: get("heads") * get("batch"), kvHeads: get("kv_heads") * get("batch"),
    b: data.dtypes[get("dtype")], blockQ: get("block_q"), blockK: get("block_k"), causal: get("causal"),
  });

  const width = () => (across_ ||= stage.clientWidth || 1000);
  let across_ = 0; // of the stage: read when its size changes, for a look at it costs a layout
  let shown = { extra: null, extras: [], scale: 0, n: 0, down: 0, alike: false };

  function draw(unfolds = false) {
    if (!unfolds) for (const f of fields) f.follow(); // what was refused stays in sight
    dtype.node.value = get("dtype");
    gpu.node.value = get("gpu");
    causal.node.checked = get("causal");
    preset.node.value = presetNames.find((name) => Object.entries(data.presets[name]).every(([k, v]) => get(k) === v)) ?? "";

    const shape = shapeAt(get("n")), values = symbols(shape), layers = get("layers");
    const flops = (4 * values.H * values.N_q * values.N_k * values.d * layers) / (shape.causal ? 2 : 1);
    const chip = data.gpus[get("gpu")];
    const totals = data.models.map((m) => layers * modelBytes(m, values));
    const extra = get("extra");
    if (extra !== shown.extra) {
      shown = { ...shown, extra, extras: extra.map(extraLane) };
      stage.replaceChildren(...[...lanes, ...shown.extras].map((l) => l.node));
    }
    const bound = data.models.findIndex((m) => m.kind === "lower bound");
    // Where K and V are read once, at worst is at best: one lane then; while a handle is held no lane comes or goes
    const same = bound === 0 && data.models[1]?.kind === "upper bound" && totals[0] === totals[1], alike = held_ ? shown.alike : same;
    const paces = totals.map((total, i) => pace(flops, total, layers * data.models[i].launches, chip, data.launch_s)), waits = paces.some((one) => one.limit === "overhead");
    const lasts = paces.map((one) => one[one.limit]), counts = waits ? lasts : totals; // the large numbers are of what the headline is about
    lanes.forEach((l, i) => {
      l.counts = (bytes) => write(l.value, waits ? milliseconds(1000 * lasts[i]) : bytesText(bytes));
      l.counts(totals[i]);
      write(l.ratio, bound >= 0 && lanes.length > 1 ? `${times(counts[i] / counts[bound])} ×` : "");
      write(l.of, l.ratio.textContent && ` the ${waits ? "time" : "bytes"}`);
      const scores = l.model.terms.map((term) => data.scores[term.tensor]).filter(Boolean);
      l.note = scores.length ? `${[...new Set(scores)].join(", ")}: ${scores.length} trips` : i === bound ? (same ? "K and V read once" : "a cache keeps K and V: read once") : `each Q tile reads K and V again: ${short(values.K_rows / values.N_k, 4)} ×`;
    });
    if (alike !== shown.alike) lanes[1].node.hidden = shown.alike = alike;
    write(lanes[0].label, plainly(data.models[0].label).replace(same && alike ? / .*/ : "", ""));
        for (const l of shown.extras) write(l.says, l.entry.kind === "ledger" ? "counted in code that ran" : "measured by hardware counters");
    drawRows(shape, values, paces, alike);
    write(words, inWords(totals, paces, chip));
    picture.setAttribute("aria-label", `Bytes over N, both axes logarithmic. At N = ${shape.n}: ${data.models.map((m, i) => `${m.label} ${bytesText(totals[i])}`).join(", ")}.`);
    if (overN.open) drawPlot(shape, extra);
    if (addsUp.open) sums.replaceChildren(...lanes.map((l, i) => spelled(l.model, totals[i])));
    voice.say(words.textContent);

    function spelled(m, total) {
      const each = collected(m, values).map((p) => h("li", {}, h("span", { class: "fac-mono" }, `${p.count} ${p.text}`), ` = ${bytesText(p.bytes * layers)}, ${percent((p.bytes * layers) / total)}`));
      const limits = `${short(flops / total, 3)} FLOP/byte; ${milliseconds(total / chip.hbm_gb_per_s / 1e6)} of traffic at ${chip.hbm_gb_per_s} GB/s; memory above the inputs ${bytesText(termBytes(m.footprint, values), 1024)}${shape.causal ? "; FLOPs are halved for causal, as papers do" : ""}`;
      return h("div", {}, h("b", {}, m.label), h("ul", {}, h("li", {}, m.describes), each, h("li", {}, limits)));
    }
  }

  /** How much larger than at a desk all is. */
  const grown = () => (get("presenter") ? 1.4 : typeSize(model) / 15);

  /**
   * A lane a row, all at one scale: the areas of one head, in numbers, each as tall as S. What is longer is more bytes, and
   * more time of HBM: the axis of time lies below the rows, and a line through all is the time of the arithmetic. Where a
   * row waits for launches, these are its bar, with the time of the bytes in it; the areas below are that part, zoomed in.
   */
  function drawRows(shape, values, paces, alike) {
    const z = grown(), line = 16 * z, letter_ = 7 * z, whole = width(), narrow = whole < 600 * z, beside = Math.round((narrow ? 112 : 170) * z), column = whole - beside, pad = (get("presenter") ? 27 : 24) * z;
    const rows = lanes.map((l, i) => ({ l, pace: paces[i] })).filter((_, i) => !alike || i !== 1), many = rows.length + shown.extras.length, waits = rows.some(({ pace }) => pace.limit === "overhead");
    const longest_ = Math.max(...paces.map((pace) => pace[pace.limit])), unit = longest_ >= 1 ? [1, "s"] : longest_ >= 1e-4 ? [1e-3, "ms"] : longest_ >= 1e-7 ? [1e-6, "µs"] : [1e-9, "ns"]; // one for all that lies on the axis
    const told = (seconds) => (waits ? milliseconds(1000 * seconds) : `${seconds >= 0.1 * unit[0] ? (seconds / unit[0]).toPrecision(3) : short(seconds / unit[0], 3)} ${unit[1]}`);
    const chip = data.gpus[get("gpu")], perUnit = (at) => (get("layers") * at.N_q * values.H * values.b) / (chip.hbm_gb_per_s * 1e9); // seconds of a number's width
    const row = (l, at) => placed(areas(l.model, at)), arithmetic = paces[0].arithmetic / perUnit(values);
    // The scale holds from one power of two to the next: between them S itself grows. It is such that the longest N fits.
    const fitted = (n) => {
      const at = symbols(shapeAt(n)), longest = Math.max((arithmetic * n) / shape.n, ...lanes.map((l) => extent(row(l, at))));
      return (column - (narrow ? 69 : 150) * z - 1.1 * line) / longest;
    };
    const side = Math.min((get("presenter") ? 120 : 120 * z), fitted(data.limits.n) * data.limits.n);
    const all = lanes.length + shown.extras.length, high = (Math.ceil(Math.max(side + pad, 84 * z)) * all + 6 * (all - many)) / many;
    const room = 2 ** Math.ceil(Math.log2(shape.n)), scale = Math.min(fitted(room), (waits ? Math.min(side, 0.3 * high) : side) / room), px = (x) => x * scale;
    stage.style.setProperty("--fac-beside", `${beside}px`);
    stage.classList.toggle("fac-narrow", narrow);
    words.style.minHeight = whole < 600 ? "3.75em" : whole < 1000 ? "2.5em" : ""; // as many lines, whatever is said
    legend.style.minHeight = whole < 600 ? "4lh" : "";
    const corner = px(shape.n), hung = corner < RING, hangs = corner + (hung ? (corner > 20 ? 0 : line) + 13 : 0), lineAt = px(arithmetic), second = scale / perUnit(values); // pixels
    const most = Math.max(...paces.map((pace) => Math.max(pace.overhead, pace.traffic))), whole_ = Math.min((column - (narrow ? 140 : 180) * z) / most, second), zoomed = second / whole_; // pixels of a second of launches
    // Where launches are the bar, one row has its bytes below it, zoomed in, and takes the room of those after it; it begins where it always does.
    const gap = 22 * z, last = rows.length - rows.findIndex(({ l }) => l === handled), bar = waits ? Math.max(11 * z, (narrow ? 1 : 0.5) * Math.min(high - 24 * z, (last * high - 24 * z * (last - 1) - gap - px(room) - 50 * z) / last)) : 0, // flat, where boxes are long
      roomy = 160 * z, boxed = (l, pace) => pace.overhead * whole_ > roomy * (get("layers") * l.model.launches), // one launch's box has room for words, at the sliver that they name
      down = waits ? bar + gap : 0, lower = down ? `translate(0 ${down})` : "";
    const least_ = Math.max(bar + 24 * z, (narrow ? 78 : 70) * z), spare = Math.max(0, last * high - (last - 1) * least_ - down - px(room) - 50 * z), lone = least_ + (narrow || last < 2 ? 0 : spare / 2 / (last - 1)), // half of what is left over is below each of the rows after it
      tallOf = (k) => (!waits || k < rows.length - last ? high : k === rows.length - last ? last * high - (last - 1) * lone : lone);
    for (const [k, { l, pace }] of rows.entries()) {
      const laid = row(l, values), end = px(extent(laid));
      renew(l.svg, { height: tallOf(k) });
      for (const group of [l.marks, l.named]) renew(group, { transform: lower, display: waits && l !== handled ? "none" : "inline" });
      laid.forEach((at, i) => place(l, l.trips[i], at));
      const named = name(l, laid, end);
      tell(l, laid);
      const set = !waits && pace.limit === "arithmetic", takes = waits ? pace.traffic : pace[pace.limit]; // a row takes what sets its pace
      l.timed((add) => {
        if (waits) return launches(add, l, pace);
        if (set && lineAt > end) { // the rest of its time, beside the letters of the strips
          add("takes", "rect", { class: "fac-clock-other fac-launch fac-wait", x: end, y: 0, width: lineAt - end, height: corner });
          if (waitsIn(named)) WAITS.forEach((text, k) => add(`takes ${k}`, "text", { class: "fac-launch-says fac-wait-says", x: (named + lineAt) / 2, y: corner / 2 + (1.1 * k - 0.1) * line, "text-anchor": "middle" }, text));
        }
        add("arithmetic", "path", { class: "fac-clock-arithmetic", d: `M${lineAt} -4V${high + 8}` });
      });
      write(l.time, `${waits ? "bytes: " : ""}${told(takes)}`);
      l.time.className = `fac-time${waits && pace.limit === "overhead" ? " fac-thin" : ""}`;
      write(l.says, `${set ? `bytes: ${told(pace.traffic)}; ${waitsIn(named) ? "" : `pale: ${WAITS.join(" ")}; `}` : ""}${l.note}`);
      beyond(l, pace, waits ? (l === handled ? named : boxed(l, pace) ? pace.traffic * whole_ : Math.max(pace.overhead, pace.traffic) * whole_) : Math.max(named, lineAt < named + 60 * z || set ? lineAt : 0));
    }
    renew(hand, { transform: lower });
    function waitsIn(named) {
      return lineAt - named > 0.9 * wide(WAITS[1], 13 * z) + 4 && corner > 2.6 * line;
    }
    /** The words behind a row, where it has room for them. */
    function beyond(l, pace, from) {
      const left = (l === handled ? Math.max(from, corner) : from) + 9, free = column - left;
      renew(l.end, { style: `top:${waits && l.model && l !== handled ? (boxed(l, pace) ? Math.min(bar / 2 + 2 * z, bar - 39 * z) : bar / 2 + 2 * z) : down && down + Math.min(0, corner / 2 - 10 * z)}px;left:${beside + left}px;max-width:${Math.min(free, 420 * z)}px` });
      l.end.classList.toggle("fac-tight", free < 84 * z);
    }
    function launches(add, l, pace) {
      const count = get("layers") * l.model.launches, segments = count < 64 ? count : 1, w = pace.overhead * whole_, part = pace.traffic * whole_, end = pace.traffic * second;
      for (let k = 0; k < segments; k += 1) add(`launch ${k}`, "rect", { class: "fac-clock-other fac-launch", x: (k * w) / segments, y: 0, width: w / segments, height: bar });
      const one = told(data.launch_s), says = segments === count && bar > 22 * z ? [`launch, ${one}`, one].find((text) => wide(text, 13 * z) < w / segments - part - 4 * z) : "";
      for (let k = 0; says && k < segments; k += 1) add(`launch says ${k}`, "text", { class: "fac-launch-says fac-launch-in", x: (k * w) / segments + (k ? 0 : part) + 8 * z, y: Math.min(bar / 2, 19 * z) }, says);
      add("bytes", "rect", { class: "fac-in-launch", x: 0, y: 0, width: part, height: bar });
      add("says", "text", { class: `fac-launch-says${pace.limit === "overhead" ? " fac-clock-longest" : ""}`, x: Math.max(w, part) + 8, y: bar / 2 - (l === handled ? -5 : 4) * z }, `${count} launch${count > 1 ? "es" : ""}`);
      if (l !== handled) return;
      const factor = zoomed > 1.05 ? `${narrow ? "zoom" : "the filled part, zoomed in"} ${short(zoomed, 3)} ×` : "the filled part", held = 6 * z + 6.3 * z * factor.length < part + 0.35 * (end - part);
      add("zoom", "path", { class: "fac-zoom", d: `M0 ${bar}V${down}H${end}L${part} ${bar}z` });
      add("factor", "text", { class: "fac-launch-says fac-zoom-says", x: held ? 6 * z : end + 8, y: down - 5 * z }, factor);
    }
    /** How many strips of Q are as much as one square, in words on the second: 4 × 64 and 4 are 65 × 4. */
    function tell(l, trips) {
      const second = trips.filter((at) => at.kind === "square")[1], q = trips.find((at) => at.tensor === "q"), ratio = second && q ? second.wide / q.wide : 0, text = `= ${short(ratio, 3)} × Q`, shows = ratio >= 2 && inside(second) && letter_ * text.length < px(second.wide) - 3;
      write(l.counted, shows ? text : "");
      if (shows) renew(l.counted, { x: aside(second, text.length, 13 * z).mid, y: corner / 2 + 5 + 1.1 * line });
    }
    /** The middle of the wider part that the line of the arithmetic leaves of a tile, and how large words so long may be in it. */
    function aside(at, letters, most) {
      const [from, to] = [px(at.x), px(at.x + at.wide)], cut = !waits && lineAt > from && lineAt < to;
      const [a, b] = !cut ? [from, to] : lineAt - from > to - lineAt ? [from, lineAt - 3] : [lineAt + 3, to];
      return { mid: (a + b) / 2, size: Math.min(most, (b - a) / ((cut ? 0.69 : 0.6) * letters)) };
    }
    /** Letters of strips: under each that is wide enough, else a list beside the last. Where the row ends, with them. */
    function name(l, trips, end) {
      const step = Math.max(10, Math.min(line, corner / trips.filter((at) => at.kind === "strip").length));
      let listed = 0;
      trips.forEach((at, i) => {
        const w = px(at.wide), letter = l.trips[i].letter, under = w >= LETTER, shows = letter && !inside(at) && !twice(at);
        if (!letter) return;
        const place = under ? { x: px(at.x) + w / 2, y: corner + line - 1 } : { x: end + 5, y: 0.75 * step + step * listed };
        if (shows && !under) listed += 1;
        renew(letter, { ...place, style: `text-anchor:${under ? "middle" : "start"}${!under && step < line ? `;font-size:${Math.min(13 * z, step + 1)}px;stroke-width:2px` : ""}`, visibility: shows ? "visible" : "hidden" });
      });
      return end + (listed ? 1.1 * line : 0);
    }
    /** Whether a tile's name stands in it, in two lines. */
    function twice(at) {
      return !inside(at) && px(at.wide) > 43 * z && corner > 40 * z;
    }
    function inside(at) {
      return px(at.wide) > 12 * letter_ && corner > 20;
    }
    /** A trip: its name in it, or its letter on it or on the two of its tensor; else one list of letters below them. */
    function place(l, { rect, score, says }, at) {
      const w = px(at.wide), named = inside(at), two = twice(at), turn = Math.round(at.x / at.wide), letters = 7.5 * z * (score ?? "").length;
      const again = at.kind === "pile" && values.K_rows > shape.n ? ` ×${short(values.K_rows / shape.n, 3)}` : "", how = [at.direction === "read" ? "read" : "write", `${score ?? at.tensor.toUpperCase()}${again}`];
      const many = named || two ? 1 : score && corner > 17 ? [1, 2].find((tiles) => tiles * w > letters) ?? 0 : 0, shows = score ? !many ? !turn : many === 1 || turn % 2 : named || two; // of a pair the second has the letter
      const key = [at.x, w, corner, many, how, lineAt].join();
      if (rect.facDrawn === key) return; // a change of scale often leaves it
      rect.facDrawn = key;
      renew(rect, { x: px(at.x), y: 0, width: w, height: corner, "stroke-width": w < 4 || many === 2 ? 0 : 0.5 }); // no seam through a name
      const long = named ? how.join(" ") : how.reduce((a, text) => (text.length > a.length ? text : a)), { mid, size: fits } = named || two ? aside(at, long.length, (two ? 12 : 13) * z) : { mid: px(at.x) + w / 2 };
      if (two) says.replaceChildren(...how.map((text, k) => s("tspan", { x: mid, dy: k ? "1.1em" : "-0.45em" }, text)));
      else write(says, named ? how.join(" ") : !score ? "" : many ? score : [...new Set(l.trips.map((trip) => trip.score))].filter(Boolean).join(", "));
      const size = !shows ? "" : `font-size:${fits ?? (many ? Math.min(13 * z, (many * w) / (0.7 * score.length)) : 11 * z)}px;`, below = !many && shows;
      renew(says, { visibility: shows ? "visible" : "hidden", style: `${size}stroke-width:${named ? 9 : 5}px${below ? ";fill:var(--fac-ink);stroke:none;text-anchor:start" : ""}`, x: below ? (l === handled ? corner + 3 : 0) : many < 2 ? mid : px(at.x), y: below ? corner + 0.8 * line : corner / 2 + 5 });
    }
    // The handle is on S's corner, or below it where it would hide S; its words are beside it, below the row.
    const held = { cx: corner, cy: hangs };
    renew(around, { width: corner, height: corner });
    renew(lead, { d: hung ? `M${corner} ${corner}V${hangs}` : "" });
    renew(drag, { x: corner + 14, y: hangs + (hung ? 5 : line), class: "fac-t-hand fac-trip fac-left" });
    write(drag, handleSays(handled.svg, "n", 1e3, `N = ${thousands(shape.n)}`));
    renew(reach, held);
    renew(knob, { ...held, r: 8 });
    renew(arrows, way({ ...held, class: "corner" }));
    for (const l of shown.extras) {
      const long = px(l.entry.bytes / values.H / values.b / get("layers") / shape.n), torn = long > column;
      renew(l.svg, { height: high });
      renew(l.marks, { transform: lower });
      renew(l.rect, { width: long, height: corner });
      renew(l.torn, { y: Math.min(16 * z, corner / 2 + 5), visibility: torn ? "visible" : "hidden" });
      write(l.says, l.entry.kind === "ledger" ? "counted in code that ran" : "measured by hardware counters");
      beyond(l, null, torn ? column : long);
    }
    drawClock();
    const square = handled.model.terms.find((term) => "N_q" in term.powers && "N_k" in term.powers);
    write(legend, `${values.H > 1 ? `All ${values.H} heads` : "One head"}${get("layers") > 1 ? ` of ${get("layers")} layers` : ""}. ${square ? `A square: S or P, N × N numbers${values.H > 1 ? " of each head" : ""}, ${bytesText(termBytes(square, values) * get("layers"))}. ` : ""}${strips()} All times are the least by formula; none is measured.`);
    if (shown.scale && shown.scale !== scale && shown.width === whole) zoom(shown.scale / scale, shown.n * scale);
    shown = { ...shown, scale, down, n: shape.n, width: whole };

    /** What a strip is: with fewer K/V heads those of K and V are less. */
    function strips() {
      const of = (tensor) => handled.model.terms.filter((term) => term.tensor === tensor && !("K_rows" in term.powers)).map((term) => bytesText(termBytes(term, values) * get("layers")))[0], [q, k] = ["q", "k"].map(of);
      return `A strip, N × d: ${k === q ? `Q, K, V or O, ${q}` : `Q or O, ${q}${k ? `; K or V, ${k}` : ""}`}.`;
    }

    /** The axis of time below the rows, or what the boxes of launches are. */
    function drawClock() {
      const size = 13 * z, least = paces[0].arithmetic, gpu_ = get("gpu"), an = /^[AEFHILMNORSX]/.test(gpu_) ? "an" : "a";
      renew(clock, { height: Math.round((narrow ? 5.2 : 3.6) * size), "font-size": `${size}px`, "aria-label": `Least time on ${an} ${gpu_}. ${rows.map(({ l, pace }) => `${l.label.textContent}: ${told(pace[pace.limit])}, set by ${pace.limit === "overhead" ? "launches" : pace.limit}`).join("; ")}.` });
      clocked((add) => {
        const facts = [`A box: a launch, ${told(data.launch_s)}. Filled: all bytes of the row, at ${chip.hbm_gb_per_s} GB/s.`, `The arithmetic takes ${told(least)}, at ${chip.tflops_half} TFLOP/s (${gpu_}).`];
        if (waits) return facts.flatMap((text) => wrapped(text, Math.floor(whole / (0.52 * size)))).forEach((text, i) => add(`wait ${i}`, "text", { class: "fac-clock-says", x: 0, y: (1 + 1.35 * i) * size }, text));
        const far = Math.max(lineAt, ...rows.map(({ l }) => px(extent(row(l, values))))), lasts = far / second;
        const step = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500].find((n) => lasts / unit[0] / n <= 5), ticks = Math.ceil(lasts / unit[0] / step), to = Math.min(column - 2, ticks * step * unit[0] * second);
        add("axis", "path", { class: "fac-axis-line", d: `M${beside} 2H${beside + to}` });
        for (let k = 0; k <= ticks && k * step * unit[0] * second <= to + 1; k += 1) {
          const x = beside + k * step * unit[0] * second;
          add(`tick ${k}`, "path", { class: "fac-axis-line", d: `M${x} 2v5` });
          add(`tick says ${k}`, "text", { class: "fac-clock-says", "text-anchor": "middle", x, y: 7 + size }, `${short(k * step, 3)}${k ? "" : ` ${unit[1]}`}`);
        }
        const titled = `bytes at ${chip.hbm_gb_per_s} GB/s (${gpu_})`, behind = !narrow && to + 20 + wide(titled, size) < column;
        add("title", "text", { class: "fac-clock-says", x: behind ? beside + to + 14 : 0, y: behind ? 7 + size : (narrow ? 4.8 : 3.3) * size }, titled);
        const says = `▲ arithmetic: ${told(least)} at ${chip.tflops_half} TFLOP/s${narrow ? "" : ", the same for all; past this line memory sets the pace"}`;
        add("arithmetic says", "text", { class: "fac-clock-longest", x: Math.max(0, Math.min(beside + lineAt - 0.45 * size, whole - 0.95 * wide(says, size))), y: 7 + 2.3 * size }, says);
      });
    }
  }

  const extent = (trips) => Math.max(...trips.map((t) => t.x + t.wide));

  /** From the old scale to the new one, the ruler with all areas; what S was stays as an outline. */
  function zoom(from, before) {
    renew(ghost, { width: before, height: before, visibility: before > 6 ? "visible" : "hidden" });
    if (reducedMotion()) return;
    const frames = [{ transform: `scale(${from})` }, { transform: "scale(1)" }], how = { duration: 500, easing: "ease-in-out" };
    for (const node of [...lanes, ...shown.extras].map((l) => l.svg)) node.animate(frames, how);
  }

  function dragged(pixels) {
    grabbed ??= get("n") / pixels;
    const n = nearest(LENGTHS, grabbed * pixels);
    if (n !== get("n")) put(model, { n });
  }

  // Trips laid one after the other, all lanes at once; where nothing may move, one a press ------------
  const most = Math.max(...data.models.map((m) => m.terms.length));
  let laid = most, timer = 0;

  function layNext() {
    if (timer) return laidAll();
    laid = laid >= most ? 0 : laid;
    layOne();
    if (!reducedMotion()) timer = setInterval(() => (laid >= most || !el.isConnected ? laidAll() : layOne()), 450);
  }
  function layOne() {
    laid += 1;
    showLaid();
    lay.textContent = reducedMotion() ? `Trip ${laid} of ${most}: next ▶` : `❚❚ Trip ${laid} of ${most}`;
  }
  function laidAll() {
    clearInterval(timer);
    timer = 0;
    laid = most;
    showLaid();
    lay.textContent = "▶ One trip at a time";
  }
  function showLaid() {
    const values = symbols(shapeAt(get("n"))), layers = get("layers");
    for (const l of lanes) {
      let sum = 0;
      l.turns.forEach((term, turn) => {
        for (const node of Object.values(l.trips[term])) if (node?.style) node.style.display = turn < laid ? "" : "none";
        if (turn < laid) sum += termBytes(l.model.terms[term], values) * layers;
        if (turn === laid - 1 && timer) l.trips[term].rect.animate([{ opacity: 0, transform: "translateY(-24px)" }, { opacity: 1, transform: "none" }], 300);
      });
      l.counts(sum);
      l.ratio.style.visibility = laid < most ? "hidden" : "";
    }
  }

  /** What is to be seen, in one sentence: how much more than it must, and what sets the pace. */
  function inWords(totals, paces, chip) {
    const bound = data.models.findIndex((m) => m.kind === "lower bound"), base = bound < 0 ? totals.indexOf(Math.min(...totals)) : bound;
    const scores = data.models.findIndex((m) => m.terms.some((t) => data.scores[t.tensor])), told = scores < 0 ? totals.indexOf(Math.max(...totals)) : scores;
    const label = capital(plainly(data.models[told].label)), { limit } = paces[told];
    const flash = data.models.flatMap((m, i) => (m.means === "flash" && i !== told ? [i] : []));
    if (limit === "overhead") return `At N = ${get("n")} launches set the pace: ${label === "Naive" ? "naive" : label} takes ${milliseconds(1000 * paces[told].overhead)}${flash.length ? `, FlashAttention ${milliseconds(1000 * paces[flash[0]].overhead)}` : ""}.`.replaceAll(/(?<=\d) (?=.?s\b)/g, "\u00a0");
    if (told === base) return `${label} moves ${bytesText(totals[told])}; on ${chip.name} ${LIMITS[limit]} the pace.`;
    const of = bound < 0 ? `what ${data.models[base].label} moves` : "the least (each of Q, K, V, O once)", ratio = totals[told] / totals[base];
    const often_ = [...new Set(flash.map((i) => times(totals[i] / totals[base])))].map((text) => `${text} ×`).join(" to ");
    const took = paces.map((one) => one[one.limit]);
    return `${label} moves ${times(ratio)} × ${of}${often_ && bound >= 0 ? `, FlashAttention ${often_}` : ""}; in time ${short(took[told] / took[base], 2)} ×.`;
  }

  // The plot over N: its nodes stay, only what a setting changes is written again ----------------
  const HIGH = 330, LEFT = 66, BOTTOM = 40, TOP = 22;
  let WIDE = 560; // of the drawing; follows a narrow page, so that its text stays large
  const grid = s("g", {}), diamonds = s("g", {});
  const here = upright("fac-here"), cross = upright("fac-cross"), crossText = s("text", { y: TOP - 6 });
  const curves = data.models.map((m) => s("polyline", { class: `fac-line-${m.means} fac-${m.name}` }));
  const picture = s("svg", { role: "img" }, grid, curves, here, cross, crossText, diamonds);
  const counted = h("span", {}, "◇ hardware counters");
  plot.append(picture, h("div", { class: "fac-legend" }, data.models.map(legendOf), counted));
  let drawn = { lines: "", grid: "", counters: "" }; // what the nodes show now

  function upright(name) {
    return s("line", { class: name, y1: TOP, y2: HIGH - BOTTOM });
  }

  function legendOf(m) {
    return h("span", {}, s("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" }, s("line", { class: `fac-line-${m.means} fac-${m.name}`, x1: 0, x2: 34, y1: 5, y2: 5 })), m.label);
  }

  /** Where N lies; the lengths drawn are 2^6 to 2^18, or so far that N is among them. */
  const last = () => Math.max(18, 3 * Math.ceil(Math.log2(get("n")) / 3));
  const x = (n) => LEFT + ((WIDE - LEFT - 14) * (Math.log2(n) - 6)) / (last() - 6);

  /** Put an upright line at N, or hide it. */
  function place(line, n) {
    const inside = n >= 64 && n <= 2 ** last();
    line.style.display = inside ? "" : "none";
    if (inside) for (const end of ["x1", "x2"]) line.setAttribute(end, x(n));
    return inside;
  }

  function drawPlot(shape, extra) {
    const key = JSON.stringify([TRAITS.filter((t) => t !== "n" && t !== "gpu").map(get), WIDE, last(), extra]);
    if (drawn.lines !== key) drawLines(shape, extra);
    drawn.lines = key;
    place(here, shape.n);
  }

  function drawLines(shape, extra) {
    const lengths = Array.from({ length: last() - 5 }, (_, i) => symbols(shapeAt(2 ** (6 + i))));
    const lines = data.models.map((m) => lengths.map((at) => [at.N_q, get("layers") * modelBytes(m, at)]));
    const records = [...data.recorded, ...extra.filter((e) => e.kind === "measurement" && e.n)];
    const points = records.filter((r) => get("layers") === 1 && shape.kvHeads === shape.heads && shape.b === 2
      && (r.d ?? shape.d) === shape.d && (r.heads ?? shape.heads) === shape.heads && (r.causal ?? shape.causal) === shape.causal);
    const bytes = lines.flat().map((p) => p[1]).concat(points.map((p) => p.bytes));
    const yLow = Math.floor(Math.log10(Math.min(...bytes))), yHigh = Math.ceil(Math.log10(Math.max(...bytes)));
    const y = (b) => HIGH - BOTTOM - ((HIGH - BOTTOM - TOP) * (Math.log10(b) - yLow)) / (yHigh - yLow);
    const axes = `${WIDE} ${last()} ${yLow} ${yHigh}`;
    if (drawn.grid !== axes) drawGrid(yLow, yHigh, y);
    drawn.grid = axes;
    lines.forEach((line, i) => curves[i].setAttribute("points", line.map(([n, b]) => `${x(n).toFixed(1)},${y(b).toFixed(1)}`).join(" ")));

    const quadratic = data.models.find((m) => crossover(m, shape) != null);
    const from = quadratic ? crossover(quadratic, shape) : 0;
    const shown = place(cross, from);
    crossText.textContent = shown ? `N² takes over: ${short(from, 4)}` : "";
    if (shown) crossText.setAttribute("x", x(from) + 4);

    diamonds.replaceChildren(...points.map((p) => s("path", { class: "fac-point", d: `M${x(p.n)} ${y(p.bytes) - 7}l7 7l-7 7l-7 -7z` }, s("title", {}, `${p.label}, N = ${p.n}: ${bytesText(p.bytes)}`))));
    counted.style.display = points.length ? "" : "none";
    const measured = JSON.stringify([points, extra]);
    if (drawn.counters !== measured) counters.replaceChildren(...countersText(points, records));
    drawn.counters = measured;
  }

  function drawGrid(yLow, yHigh, y) {
    const every = Math.ceil((yHigh - yLow) / 6);
    const nodes = [s("text", { x: (LEFT + WIDE) / 2, y: HIGH - 4, "text-anchor": "middle" }, "N")];
    for (let p = yLow; p <= yHigh; p += every) {
      nodes.push(s("line", { class: "fac-grid", x1: LEFT, x2: WIDE - 14, y1: y(10 ** p), y2: y(10 ** p) }),
        s("text", { x: LEFT - 6, y: y(10 ** p) + 5, "text-anchor": "end" }, bytesText(10 ** p)));
    }
    for (let e = 6; e <= last(); e += 3) {
      const text = e < 10 ? String(2 ** e) : e < 20 ? `${2 ** (e - 10)}k` : `${2 ** (e - 20)}M`;
      nodes.push(s("line", { class: "fac-grid", x1: x(2 ** e), x2: x(2 ** e), y1: TOP, y2: HIGH - BOTTOM }),
        s("text", { x: x(2 ** e), y: HIGH - BOTTOM + 18, "text-anchor": e === last() ? "end" : "middle", dx: e === last() ? 12 : 0 }, text));
    }
    picture.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
    grid.replaceChildren(...nodes);
  }

  function countersText(points, records) {
    if (points.length) {
      const by = new Map();
      for (const p of points) by.set(p.label, [...(by.get(p.label) ?? []), `${bytesText(p.bytes)} at N = ${p.n}`]);
      return [...by].map(([label, at]) => `Measured DRAM traffic (${label}): ${at.join(", ")}. `);
    }
    const cases = new Map(records.filter((r) => r.heads && r.d).map((r) => [`H = ${r.heads}, d = ${r.d}, ${r.causal ? "causal" : "no mask"}`, r]));
    const show = (r) => put(model, { n: r.n, d: r.d, heads: r.heads, kv_heads: r.heads, layers: 1, batch: 1, causal: r.causal, dtype: "bf16" });
    return ["Counters were recorded for other settings: ", h("span", { class: "fac-row" }, [...cases].map(([text, r]) => h("button", { type: "button", onclick: () => show(r) }, text)))];
  }

  const later = onChanges(model, [...TRAITS, "extra", "presenter"], () => (timer || laid < most ? (laidAll(), draw()) : draw()));
  const size = new ResizeObserver(() => {
    WIDE = Math.max(300, Math.min(560, plot.clientWidth || 560));
    if (stage.clientWidth && stage.clientWidth !== across_) {
      across_ = stage.clientWidth;
      later();
    }
  });
  size.observe(stage);
  size.observe(plot);
  if (!tiled) for (const f of fields.slice(6)) f.node.append(h("small", { class: "fac-soft" }, "no area here depends on it"));
  draw();
  return () => (laidAll(), size.disconnect());
}

export default { render };
