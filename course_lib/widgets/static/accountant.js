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

/** What one query head moves, a trip at a time, as areas: the twin of `HBMAccountant.areas`. */
export function areas(model, values) {
  const n = values.N_q, side = Math.max(n, values.d);
  return model.terms.map((term) => {
    const area = termBytes(term, values) / values.H / values.b;
    const kind = "K_rows" in term.powers && values.K_rows > values.N_k ? "pile" : "N_q" in term.powers && "N_k" in term.powers ? "square" : "strip";
    const wide = kind === "pile" ? Math.min(area / n, side) : area / n;
    return { tensor: term.tensor, direction: term.direction, kind, wide, tall: area / wide };
  });
}

/** The trips and where they lie: two columns, and the strips beside them. */
export function placed(trips) {
  const columns = [0, 0], depths = [0, 0], high = trips.filter((trip) => trip.kind !== "strip");
  high.forEach((trip, i) => (columns[i % 2] = Math.max(columns[i % 2], trip.wide)));
  const lying = trips.some((trip) => trip.kind === "strip" && trip.wide > trip.tall); // N < d: one column, drawn larger
  let x = columns[0] + columns[1], y = 0, column = 0;
  return trips.map((trip) => {
    if (trip.kind === "strip" && lying) return { ...trip, x, y: (y += trip.tall) - trip.tall };
    if (trip.kind === "strip") return { ...trip, x: (x += trip.wide) - trip.wide, y: 0 };
    const at = { ...trip, x: column * columns[0], y: depths[column] };
    depths[column] += trip.tall;
    column = 1 - column;
    return at;
  });
}

/** The same in one row, every square and pile `n` tall, so that what is longer is more; the strips behind them. */
function inRow(trips, n) {
  let x = 0, y = 0;
  const high = trips.map((trip) => (trip.kind === "strip" ? trip : { ...trip, x: (x += (trip.wide * trip.tall) / n) - (trip.wide * trip.tall) / n, y: 0, wide: (trip.wide * trip.tall) / n, tall: n }));
  const lying = trips.some((trip) => trip.kind === "strip" && trip.wide > trip.tall);
  return high.map((trip) => (trip.kind !== "strip" ? trip : lying ? { ...trip, x, y: (y += trip.tall) - trip.tall } : { ...trip, x: (x += trip.wide) - trip.wide, y: 0 }));
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
const SMALL = 108; // pixels: below a smaller S hangs its handle, with its words
const LETTER = 14; // pixels: from this width on a strip has its letter under it
const RING = 26; // pixels: on a smaller S the handle would hide it
const LIST = 5; // lines: so tall are strips with their letters beside them
const NARROW = 110; // pixels: a lane is not narrower
const ROWS = [400, 600], BESIDE = 116; // widths at which a lane is a row, and the pixels of its name beside it
const ZOOMS = [5, 10, 20, 50, 100, 200, 500, 1000]; // of what is too small to be seen on the axis of time
const thousands = (n) => (n >= 65536 && n % 1024 === 0 ? `${n / 1024}k` : `${n}`); // as the plot over N has them
const plainly = (label) => label.replace(/ \(.*/, "");
const LIMITS = { overhead: "launches set", traffic: "traffic sets", arithmetic: "arithmetic sets" };
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
  const lead = s("path", { class: "fac-lead" }); // from a small S to the words of its handle
  const tag = s("rect", { class: "fac-tag", rx: 4 }); // under the words of the handle where they lie on S
  const drag = s("text", { class: "fac-trip fac-t-hand", "data-names": "n" });
  const [reach, knob] = ["fac-grab", "fac-knob"].map((name) => grip(handled.svg, s("circle", { class: `${name} fac-corner`, r: 18, "data-handle": "n" }, s("title", {}, "drag: N")), (x, y) => dragged(Math.max(x, y, 1)), () => ([grabbed, held_] = [null, true]), () => ((held_ = false), later())));
  const arrows = s("path");
  handled.svg.append(ghost, around, lead, tag, drag, reach, knob, arrows);
  let grabbed = null, held_ = false; // where a drag began: N for each pixel from the corner of the picture
  const stage = part("accountant-picture", h("div", { class: "fac-lanes" }));
  const clock = s("svg", { class: "fac-clock", role: "img" }), clocked = scene(clock);
  const bar = s("path", { class: "fac-ruler" }), barText = s("text", { y: 12 }), ruler = s("g", { class: "fac-bar-of-scale" }, bar, barText);
  lanes[0].svg.append(ruler);
  const legend = h("p", { class: "fac-soft fac-scale" });
  const lay = h("button", { type: "button", onclick: () => layNext() }, "▶ One trip at a time");
  const plot = h("div", { class: "fac-plot" });
  const counters = h("p", { class: "fac-soft" });
  const overN = h("details", { class: "fac-more", ontoggle: () => draw(true) }, h("summary", {}, "the same over N, and what hardware counters saw"),
    part("accountant-over-n", h("div", {}, plot, counters)));
  const more = h("details", { class: "fac-more" }, h("summary", {}, "more: heads, dtype, GPU, tiles"),
    h("div", { class: "fac-row" }, preset.row, dtype.row, gpu.row, causal.row), h("div", { class: "fac-fields" }, fields.slice(2).map((f) => f.node)));
  const sums = h("div", { class: "fac-sums" }), addsUp = h("details", { class: "fac-more", ontoggle: () => draw(true) }, h("summary", {}, "how it adds up"), sums);
  root(model, el, part("accountant-words", words), stage, legend, part("accountant-time", clock),
    h("div", { class: "fac-controls" }, lay, fields[0].node, fields[1].node), h("div", { class: "fac-folds" }, addsUp, more, overN), voice.node);

  function lane(name, color) {
    const label = h("b", {}, name), ratio = h("em", {}), value = h("span", { class: "fac-bytes" }), says = h("small", {}), marks = s("g", {});
    const svg = s("svg", { class: "fac-lane", "aria-hidden": "true" }, marks);
    const node = h("div", { class: "fac-bar" }, h("div", { class: `fac-bar-head fac-text-${color}` }, label, ratio, value), says, h("div", { class: "fac-clip" }, svg));
    return { node, label, value, ratio, says, svg, marks };
  }

  function modelLane(m) {
    const made = lane(plainly(m.label), m.means);
    const trips = m.terms.map((term) => {
      const name = data.scores[term.tensor];
      const rect = s("rect", { class: `fac-area fac-fill-${name ? "s" : term.tensor}` });
      const says = s("text", { class: `fac-trip fac-on-${name ? "s" : term.tensor}` }, `${term.direction === "read" ? "read" : "write"} ${name ?? term.tensor.toUpperCase()}`);
      const letter = name ? "" : s("text", { class: `fac-trip fac-letter fac-name-${term.tensor}` }, term.tensor.toUpperCase());
      made.marks.append(rect, says, letter);
      return { rect, score: name, says, letter };
    });
    const whole = m.kind === "lower bound" ? s("text", { class: "fac-trip fac-whole" }) : null, counted = s("text", { class: "fac-trip fac-on-s fac-t-hand" });
    made.marks.append(counted, ...(whole ? [whole] : []));
    const never = m.kind === "lower bound" ? s("rect", { class: "fac-never" }) : null;
    const neverText = never && s("g", {}, [0, 1].map((i) => s("text", { class: "fac-trip fac-soft-text", y: `${1.15 * i}em` })));
    if (never) made.marks.prepend(never), made.marks.append(neverText); // its dashes lie under the strips
    const turns = m.terms.map((_, i) => i).sort((a, b) => TURN.indexOf(m.terms[a].tensor) - TURN.indexOf(m.terms[b].tensor));
    part(`accountant-${m.name}`, made.node);
    return Object.assign(made, { model: m, trips, turns, never, neverText, whole, counted });
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
  let shown = { extra: null, extras: [], scale: 0, n: 0, alike: false };

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
    const same = bound === 0 && data.models[1]?.kind === "upper bound" && totals[0] === totals[1] && width() >= 2 * NARROW, alike = held_ ? shown.alike : same;
    lanes.forEach((l, i) => {
      write(l.value, bytesText(totals[i]));
      write(l.ratio, bound >= 0 && lanes.length > 1 ? `${times(totals[i] / totals[bound])} ×` : "");
      const scores = l.model.terms.map((term) => data.scores[term.tensor]).filter(Boolean);
      write(l.says, scores.length ? `${[...new Set(scores)].join(", ")}: ${scores.length} trips` : l.never ? (same ? "K and V read once" : "a cache keeps K and V: read once") : `each Q tile reads K and V again: ${short(values.K_rows / values.N_k, 4)} ×`);
    });
    if (alike !== shown.alike) lanes[1].node.hidden = shown.alike = alike;
    write(lanes[0].label, plainly(data.models[0].label).replace(same && alike ? / .*/ : "", ""));
    const paces = totals.map((total, i) => pace(flops, total, layers * data.models[i].launches, chip, data.launch_s));
    for (const l of shown.extras) write(l.says, l.entry.kind === "ledger" ? "counted in code that ran" : "measured by hardware counters");
    drawClock(paces, values, alike, drawAreas(shape, values, alike));
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

  /**
   * The least times on one axis, `tall` pixels high: of each lane its bytes, trip by trip in the colours and the order of
   * its areas. All lanes do the same arithmetic: a line through all of them. Where launches take longer they lie above the bytes.
   */
  function drawClock(paces, values, alike, tall) {
    const rows = lanes.map((l, i) => ({ l, ...paces[i], launched: paces[i].overhead > paces[i].arithmetic })).filter((_, i) => !alike || i !== 1), roomy = tall / rows.length > 70 && width() > 700;
    const size = get("presenter") ? 19 : (roomy ? 15 : 13) * grown(), narrow = width() < 700, waits = rows.filter((row) => row.launched).length, lined = waits < rows.length; // else launches stand in for arithmetic, whose time is said once
    const most = Math.max(...rows.map((row) => row[row.limit])), chip = get("gpu"), layers = get("layers"), { arithmetic } = rows[0];
    const left = Math.max(...lanes.map((l) => wide(plainly(l.model.label), size))) + 10, scale = (width() - left - wide("3 launches: 15 µs", size)) / most, line = left + arithmetic * scale;
    const head = ((narrow ? 3.1 : 1.8) + (lined ? 1.4 : 0)) * size, each = (tall - head) / rows.length, tiny = rows.map((row) => row.traffic * scale).filter((long) => long < 1.6 * size), largest = Math.max(0, ...tiny), zoom = tiny.length ? ZOOMS.find((times) => times * Math.min(...tiny) >= 4.4 * size) : 0, high = Math.min(each / 2 - 3, 0.38 * each, 2.2 * size);
    renew(clock, { height: tall, "font-size": `${size}px`, "aria-label": `Least time on ${chip}. ${rows.map((row) => `${row.l.label.textContent}: ${milliseconds(1000 * row[row.limit])}, set by ${row.limit === "overhead" ? "launches" : row.limit}`).join("; ")}.` });
    clocked((add) => {
      const told = (s_) => (most >= 1e-3 && s_ < 1e-4 && s_ >= 1e-5 ? `${short(1000 * s_, 3)} ms` : milliseconds(1000 * s_)), each_ = milliseconds(1000 * data.launch_s); // beside milliseconds in their unit
      const titled = `Least time on ${/^[AEFHILMNORSX]/.test(chip) ? "an" : "a"} ${chip}: bytes or ${lined ? "arithmetic" : "launches"}`, { hbm_gb_per_s, tflops_half } = data.gpus[chip];
      const rates = `${hbm_gb_per_s} GB/s, ${tflops_half} TFLOP/s${waits ? `, ${each_} a launch${lined ? "" : `; arithmetic: ${milliseconds(1000 * arithmetic)}`}` : ""}`;
      add("head", "text", { class: "fac-clock-head", x: 0, y: size + 1 }, titled);
      add("rates", "text", { class: "fac-clock-says", x: narrow ? 0 : wide(titled, 1.14 * size) + size, y: (narrow ? 2.35 : 1) * size + 1 }, rates);
      rows.forEach((row, i) => {
        const { l } = row, name = l.model.name, y = head + i * each, count = layers * l.model.launches, segments = count < 64 ? count : 1, w = (row.overhead * scale) / segments;
        const top = row.launched ? y + high + 1 : y + 0.14 * each, thick = row.launched ? high : Math.min(0.66 * each, 2.2 * size);
        add(`${name} name`, "text", { class: "fac-clock-name", x: 0, y: y + (row.launched ? high : 0.14 * each + thick / 2) + 0.35 * size }, l.label.textContent);
        if (row.launched) for (let k = 0; k < segments; k += 1) add(`${name} other ${k}`, "rect", { class: "fac-clock-other fac-launch", x: left + 1 + k * w, y, width: Math.max(0.5, w - (k < segments - 1 ? Math.min(3, w / 4) : 0)), height: high });
        if (lined && row.limit === "arithmetic") add(`${name} box`, "path", { class: "fac-clock-other fac-launch", d: `M${left + 1} ${top - 1}H${line}v${thick + 2}H${left + 1}` }); // the least that it takes
        let x = left + 1;
        const inBytes = spent(l.model, values, row.traffic);
        for (const { tensor, seconds } of inBytes) {
          const wide_ = seconds * scale, letter = data.scores[tensor] ?? tensor.toUpperCase(), key = `${name} bytes ${l.model.name} ${x}`;
          add(key, "rect", { class: `fac-clock-bytes fac-fill-${data.scores[tensor] ? "s" : tensor}`, x, y: top, width: wide_, height: thick });
          if (wide_ > wide(letter, size) + 2 && thick > size) add(`${key} says`, "text", { class: "fac-clock-letter", x: x + wide_ / 2, y: top + thick / 2 + 0.35 * size }, letter);
          x += wide_;
        }
        if (row.launched) add(`${name} says other`, "text", { class: row.limit === "overhead" ? "fac-clock-longest" : "fac-clock-says", x: left + row.overhead * scale + 6, y: y + high / 2 + 0.35 * size }, `${count} launch${count > 1 ? "es" : ""}: ${told(row.overhead)}`);
        const text = `bytes: ${told(row.traffic)}${row.limit === "arithmetic" && !narrow && line + wide("bytes: 0.0801 ms; arithmetic takes longer", size) < width() ? "; arithmetic takes longer" : ""}`, ends = left + row.traffic * scale + 6, crossed = lined && ends < line + 6 && ends + wide(text, size) > line;
        add(`${name} says bytes`, "text", { class: row.limit === "traffic" ? "fac-clock-longest" : "fac-clock-says", x: crossed ? line + 6 : ends, y: top + thick / 2 + 0.35 * size }, text);
        // What is too small to be seen, once more: enlarged alike in all rows
        const told_ = (crossed ? line + 6 : ends) + 0.92 * wide(text, size) + 0.8 * size, much = [`enlarged ${zoom} ×`, `${zoom} ×`].find((words_) => told_ + wide(words_, 0.92 * size) + largest * zoom < width() - 4);
        if (!zoom || row.traffic * scale > 1.6 * size || !much) return;
        let at = told_ + 0.92 * wide(much, size) + 0.4 * size;
        add(`${name} enlarged says`, "text", { class: "fac-clock-says", x: told_, y: top + thick / 2 + 0.35 * size }, much);
        for (const { tensor, seconds } of inBytes) {
          const long = seconds * scale * zoom, letter = data.scores[tensor] ?? tensor.toUpperCase(), high_ = Math.max(thick, 1.1 * size), y_ = top + (thick - high_) / 2;
          add(`${name} enlarged ${at}`, "path", { class: `fac-clock-bytes fac-fill-${data.scores[tensor] ? "s" : tensor}`, d: `M${at} ${y_}h${long}v${high_}h${-long}z` });
          if (long > wide(letter, size) + 2) add(`${name} enlarged ${at} says`, "text", { class: "fac-clock-letter", x: at + long / 2, y: y_ + high_ / 2 + 0.35 * size }, letter);
          at += long;
        }
      });
      add("zero", "path", { class: "fac-axis-line", d: `M${left} ${head - 3}V${tall - 2}` });
      if (!lined) return;
      const says = `arithmetic: ${told(arithmetic)}; past this line memory sets the pace`;
      add("arithmetic", "path", { class: "fac-clock-arithmetic", d: `M${line} ${head - 6}V${tall - 2}` });
      add("arithmetic says", "text", { class: rows.some((row) => row.limit === "arithmetic") ? "fac-clock-longest" : "fac-clock-says", x: Math.max(0, Math.min(line - 4, width() - 1.04 * wide(says, size))), y: head - 0.65 * size }, says);
    });
  }

  /** The seconds of each trip, in the order of the areas: squares and piles, then strips. */
  function spent(model, values, traffic) {
    const high = areas(model, values).map(({ kind }) => kind !== "strip"), all = modelBytes(model, values);
    return model.terms.map((term, i) => ({ tensor: term.tensor, seconds: (traffic * termBytes(term, values)) / all, last: high[i] ? 0 : 1 })).sort((a, b) => a.last - b.last);
  }

  // Areas: in numbers of one query head, so that S is N wide whatever d and dtype are
  const extent = (trips, way) => Math.max(...trips.map((t) => (way === "x" ? t.x + t.wide : t.y + t.tall)));

  /** How much larger than at a desk all is. */
  const grown = () => (get("presenter") ? 1 : typeSize(model) / 15);

  function drawAreas(shape, values, alike) {
    const seen = lanes.filter((_, i) => !alike || i !== 1), extras = shown.extras.length, big = get("presenter"), z = grown(), line = big ? 23 : 16 * z, letter_ = big ? 10 : 7 * z, whole = width(), flat = whole >= ROWS[0] && whole < ROWS[1], smaller = SMALL * (big ? 1.4 : z);
    const most = Math.max(2, Math.floor(whole / (big ? 260 : NARROW))), gap = whole < 600 ? 12 : 18, rowsOf = flat ? lanes.length + extras : Math.ceil((lanes.length + extras) / most);
    const [all, across] = [lanes, seen].map((some) => (flat ? 1 : Math.ceil((some.length + extras) / rowsOf))); // in rows of equal length, as many with a lane less
    const [usual, column] = [all, across].map((many) => (flat ? whole - BESIDE : (whole - (many - 1) * gap) / many)), narrow = flat || usual < 200;
    stage.style.gridTemplateColumns = `repeat(${across}, minmax(0, 1fr))`;
    stage.style.columnGap = `${gap}px`;
    stage.classList.toggle("fac-narrow", narrow);
    stage.classList.toggle("fac-rows", flat);
    words.style.minHeight = whole < 1000 ? "2.5em" : ""; // two lines, whatever is said
    // The scale holds from one power of two to the next: between them S itself grows.
    const room = symbols(shapeAt(2 ** Math.ceil(Math.log2(shape.n))));
    const rooms = seen.map((l) => trips(l, room)), longest = lanes.map((l) => trips(l, symbols(shapeAt(data.limits.n))));
    const tallest = (found) => Math.max(...found.map((trips) => extent(trips, "y")));
    const fitted = (found, column) => Math.min((column - (narrow ? 1.3 : 1.5) * line) / Math.max(...found.map((t) => extent(t, "x"))), (big ? 354 : 330 * z) / tallest(found));
    const least = fitted(longest, usual), scale = Math.min(fitted(rooms, column), alike ? (least * tallest(longest)) / tallest(rooms) : Infinity); // as tall for every N: what is below stays where it is
    const px = (x) => x * scale;
    const below = (l, at) => (l === handled && px(at.N_q) < 2 * smaller && !(narrow && px(at.N_q) >= RING) ? (narrow ? 3.4 : 2.2) : lying(at) ? 0.4 : !flat ? 1.4 : l === handled || px(at.d) >= LETTER ? 1.2 : 0.2) * line + (l === lanes[0] ? 1.5 * line : 0); // words below a small S, the ruler below the first
    const kept = longest.map((found, i) => least * extent(found, "y") + (flat ? (lanes[i] === handled || !i ? 1.2 : 0.2) : lanes[i] === handled && narrow ? 3.4 : 1.4) * line + (i ? 0 : 1.5 * line));
    const talls = rooms.map((found, i) => Math.max(px(extent(found, "y")) + below(seen[i], room), flat ? kept[lanes.indexOf(seen[i])] : 0)); // no row moves under the hand
    if (flat) shown.extras.forEach(() => [kept, talls].forEach((found) => found.push(kept[0])));
    const rowOf = (found, i, many) => Math.ceil(Math.max(64, ...found.slice(i - (i % many), i - (i % many) + many))); // of its row
    const sum = (found, many) => found.reduce((all, _, i) => all + (i % many ? 0 : rowOf(found, i, many)), 0), free = sum(kept, all) - sum(talls, across) + (flat ? 16 * (lanes.length - seen.length) : 0); // the clock's; a row has a gap and margins
    const tallOf = (i) => rowOf(talls, i, across);
    const bound = lanes.find((l) => l.never);
    seen.forEach((l, number) => {
      renew(l.svg, { height: tallOf(number) });
      const laid = trips(l, values), side = px(shape.n);
      laid.forEach((at, i) => place(l.trips[i], at));
      name(l, laid);
      if (l.never) renew(l.never, { width: side, height: side, visibility: laid[0].x ? "visible" : "hidden" });
      tell(l, laid);
      if (!l.never) return;
      ["S is", "never here"].forEach((text, i) => write(l.neverText.children[i], side > 5.5 * line ? text : side > 2.4 * line && !i ? "no S" : ""));
      renew(l.neverText, { transform: `translate(${side / 2} ${side / 2 + (side > 5.5 * line ? 0 : 5)})`, visibility: laid[0].x ? "visible" : "hidden" });
    });
    /** How much the least is, in words at its strips, and how often it lies in one square: 4 × 16 and 1 are 65. */
    function tell(l, trips) {
      const end = px(extent(trips, "x")), strips = bound && trips.every((at) => px(at.wide) < LETTER), room = column - end - 1.4 * line, list = px(trips[0].tall) > LIST * line, close = lettersOf(trips) < line, times = bound ? (shape.n * shape.n) / areas(bound.model, values).reduce((sum, at) => sum + at.wide * at.tall, 0) : 0;
      if (l.whole) write(l.whole, strips && (flat || !close) ? (room > 8.5 * line ? "← all of it: 1 ×" : "← 1 ×") : "");
      if (l.whole) renew(l.whole, { x: end + (flat ? 1.3 * line : 5), y: list ? 4.9 * line : px(trips[0].tall) / 2 + 5 });
      const second = trips.filter((at) => at.kind === "square")[1], fits = second && times >= 2 && second.tall === second.wide; // on the first lies the handle
      const says = fits ? [`${short(times, 3)} × the strips`, `${short(times, 3)} × strips`, `${short(times, 3)} ×`].find((text) => letter_ * text.length < px(second.wide) - 3) ?? "" : "";
      if (flat) aside(l, column - end - 1.4 * line - (l.whole?.textContent ? 7.6 * line : 0));
      const pair = narrow && !flat && second && !inside(second) && px(second.wide) > 2 * line; // the columns have their names below them
      write(l.counted, pair ? "write | read" : second && inside(second) ? says : "");
      if (second) renew(l.counted, pair ? { style: "font-size:12px;fill:var(--fac-ink);stroke:none", x: px(second.x) + 2, y: px(extent(trips.filter((at) => at.kind === "square"), "y")) + 0.85 * line } : { style: "", x: px(second.x + second.wide / 2), y: px(second.y + second.tall / 2) + 5 + 1.1 * line });
    }
    /** What decides of a row, behind it where it has room. */
    function aside({ says }, room) {
      renew(says, { style: room < 84 ? "display:none" : `width:${Math.round(room)}px` });
    }
    /** A lane's trips; the lower bound leaves the place where the others have S, unless S is small beside them. */
    function trips(l, at) {
      const found = flat ? inRow(areas(l.model, at), at.N_q) : placed(areas(l.model, at));
      return l.never && extent(found, "x") <= 2 * at.N_q ? found.map((trip) => ({ ...trip, x: trip.x + at.N_q })) : found;
    }
    /** From one letter to the next in the list beside the strips, in pixels. */
    function lettersOf(trips) {
      return Math.max(10, Math.min(line, px(Math.min(...trips.map((at) => at.tall))) / trips.filter((at) => at.kind === "strip").length));
    }
    /** Letters of strips: under each that is wide enough, beside each that lies, else a list beside the last. */
    function name(l, trips) {
      const end = px(extent(trips, "x")), step = lettersOf(trips);
      let listed = 0;
      trips.forEach((at, i) => {
        const w = px(at.wide), letter = l.trips[i].letter, lies = lying(values), high = lies ? px(at.tall) : step, under = w >= LETTER && !lies;
        if (!letter) return;
        const place = under ? { x: px(at.x) + w / 2, y: px(at.tall) + line - 1 } : { x: end + 5, y: lies ? px(at.y + at.tall / 2) + 0.36 * Math.min(13, high + 1) : 0.75 * high + high * listed++ };
        const shows = !inside(at) && !twice(at) && (under ? px(at.tall) >= 0.8 * line : high > 8);
        renew(letter, { ...place, style: `text-anchor:${under ? "middle" : "start"}${!under && high < line ? `;font-size:${Math.min(13, high + 1)}px;stroke-width:2px` : ""}`, visibility: shows ? "visible" : "hidden" });
      });
    }
    function lying(at) {
      return at.N_q < at.d;
    }
    /** How many small tiles a letter needs: its own, or the pair that is written and read; 0 where neither has room. */
    function fitting(at, score) {
      if (!score || px(at.tall) <= 17) return 0;
      return [1, 2].find((many) => many * px(at.wide) > 7.5 * score.length) ?? 0;
    }
    /** Whether a tile's name stands in it, in two lines. */
    function twice(at) {
      return flat && !inside(at) && px(at.wide) > 43 && px(at.tall) > 40;
    }
    function inside(at) {
      return px(at.wide) > 12 * letter_ && px(at.tall) > 20;
    }
    function place({ rect, score, says }, at) {
      const w = px(at.wide), t = px(at.tall), named = inside(at), again = at.kind === "pile" && values.K_rows > shape.n;
      const key = [at.x, at.y, at.wide, at.tall].map((x) => px(x).toFixed(3)).join();
      const how = at.direction === "read" ? "read" : "write", full = `${how} ${score ?? at.tensor.toUpperCase()}${again && (flat || px(at.wide) > 14 * letter_) ? ` ×${short(values.K_rows / shape.n, 3)}` : ""}`;
      const two = twice(at), lines = [how, full.slice(how.length + 1)]; // in two lines
      const tiles = named || two ? 1 : fitting(at, score), alone = tiles < 2 || at.x > 0; // of a pair the second, which lies on the first, has the letter for both
      if (!two) write(says, named ? full : (score ?? ""));
      else if (says.textContent !== lines.join("")) says.replaceChildren(...lines.map((text, i) => s("tspan", { dy: i ? "1.1em" : "-0.45em" }, text)));
      if (rect.facDrawn === key) return; // a change of scale often leaves it
      rect.facDrawn = key;
      renew(rect, { x: px(at.x), y: px(at.y), width: w, height: t, "stroke-width": w < 4 || tiles > 1 ? 0 : 0.5 }); // no seam through a name
      says.setAttribute("visibility", tiles && alone ? "visible" : "hidden");
      // a plate behind the words is for what runs through a tile: a low one has no room for it
      const plate = tiles > 1 ? 5 : named && t > 30 ? 9 : 0, size = named || !tiles ? "" : `font-size:${Math.min(big ? 19 : 13 * z, two ? 12 : (tiles * w) / (0.7 * says.textContent.length))}px;`;
      if (two) for (const row of says.children) renew(row, { x: px(at.x) + w / 2 });
      if (tiles) renew(says, { style: `${size}stroke-width:${plate}px`, x: px(at.x) + (tiles < 2 ? w / 2 : 0), y: px(at.y) + t / 2 + 5 });
    }
    // The handle is on S's corner, or below what lies there where it would hide S; its words lie on a large S, above it on a phone, else below.
    const laid = trips(handled, values), corner = px(shape.n), small = corner < smaller, hung = corner < RING, above = small && narrow && !flat && !hung && wide(handled.says.textContent, 0.88 * line) < column + gap;
    const squares = px(extent(laid.filter((at) => at.kind !== "strip"), "y")), pocket = small && !hung && !narrow && px(extent(laid, "y")) > squares + 1.5 * line; // between the squares and the strips that lie
    const hangs = (pocket ? squares : px(extent(laid, "y"))) + 0.9 * line, held = { cx: corner, cy: hung ? hangs : corner };
    renew(around, { width: corner, height: corner });
    renew(lead, { d: small && !above && (hung || !flat) ? `M${corner} ${hung ? corner : corner + 8}V${hangs - (hung ? 0 : 0.5 * line)}` : "" });
    const said = handleSays(handled.svg, "n", pocket ? px(Math.min(...laid.filter((at) => at.kind === "strip").map((at) => at.x))) : small ? 1e3 : ((corner - 24) * 7) / letter_, `N = ${thousands(shape.n)}`, `N ${thousands(shape.n)}`), long_ = 0.9 * wide(said, big ? 19 : 13 * z) + 10;
    const beside = hung && corner + 13 + long_ < column + gap; // else under the handle
    renew(drag, small ? { x: above ? 0 : beside || (flat && !hung) ? corner + 14 : Math.max(0, Math.min(corner - long_ / 2, column - long_)), y: above ? -7 : hangs + (beside ? 5 : flat && !hung ? 0.15 * line : (hung ? 1.5 : 0.4) * line), class: "fac-t-hand fac-trip fac-left" } : { x: corner - 16, y: corner - 12, class: "fac-t-hand fac-trip fac-on-tag fac-t-end" });
    renew(tag, { x: corner - 11 - long_, y: corner - 11 - 1.1 * line, width: long_, height: 1.3 * line, visibility: small || !said ? "hidden" : "visible" });
    write(drag, said);
    renew(reach, held);
    renew(knob, { ...held, r: 8 });
    renew(arrows, way({ ...held, class: "corner" }));
    shown.extras.forEach(({ entry, rect, torn, svg }, i) => {
      const tall = tallOf(seen.length + i), side = flat ? entry.bytes / values.H / values.b / get("layers") / shape.n : 2 * shape.n, high = entry.bytes / values.H / values.b / get("layers") / side;
      renew(svg, { height: tall });
      renew(rect, { width: px(side), height: Math.min(px(high), tall) });
      renew(torn, { y: flat ? 16 : tall - 12, visibility: flat ? (px(side) > column ? "visible" : "hidden") : px(high) > tall ? "visible" : "hidden" });
      write(torn, flat ? "goes on →" : "goes on below ↓");
    });
    const rows = 2 ** Math.floor(Math.log2(Math.min((113 * z) / scale, 2 ** Math.ceil(Math.log2(shape.n))))), long = rows * scale;
    const [first] = lanes, under = trips(first, values).some((at) => px(at.wide) >= LETTER && !inside(at)) ? 1.6 : 0.7; // lines below the areas
    ruler.setAttribute("transform", `translate(0 ${px(Math.max(extent(rooms[0], "y"), extent(trips(first, values), "y"))) + under * line})`);
    bar.setAttribute("d", `M1 0v8h${long}v-8`);
    write(barText, `${rows >= 1 ? thousands(rows) : `1/${1 / rows}`}${narrow ? "" : ` number${rows > 1 ? "s" : ""}`}`);
    barText.setAttribute("x", long + 8);
    const heads = values.H > 1 ? `all ${values.H} heads` : "one head", strips = lanes.some((l) => l.trips.some(({ score }) => score));
    const square = handled.model.terms.find((term) => "N_q" in term.powers && "N_k" in term.powers), of = values.H > 1 ? "of each head N" : "N";
    write(legend, `Bytes and areas: ${heads}${get("layers") > 1 ? ` of ${get("layers")} layers` : ""}. ${strips && square ? `A square is S or P, ${of} × N numbers, ${bytesText(termBytes(square, values) * get("layers"))}${flat ? "" : ": left written, right read"}. Strips: ` : ""}Q, K, V and O, N × d.`);
    if (shown.scale && shown.scale !== scale && shown.width === whole) zoom(shown.scale / scale, shown.n * scale);
    shown = { ...shown, scale, n: shape.n, width: whole };
    return Math.round(((narrow ? 4.5 : 3.2) + (narrow ? 2.6 : 2.1) * lanes.length) * (big ? 16 : 13 * z)) + free;
  }

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
      l.value.textContent = bytesText(sum);
      l.ratio.style.visibility = laid < most ? "hidden" : "";
    }
  }

  /** What is to be seen, in one sentence: how much more than it must, and what sets the pace. */
  function inWords(totals, paces, chip) {
    const bound = data.models.findIndex((m) => m.kind === "lower bound"), base = bound < 0 ? totals.indexOf(Math.min(...totals)) : bound;
    const scores = data.models.findIndex((m) => m.terms.some((t) => data.scores[t.tensor])), told = scores < 0 ? totals.indexOf(Math.max(...totals)) : scores;
    const label = capital(plainly(data.models[told].label)), { limit } = paces[told];
    if (limit === "overhead") return `At N = ${get("n")} launches set ${label === "Naive" ? "naive's" : "the"} pace: they take ${milliseconds(1000 * paces[told].overhead)}, all its bytes ${milliseconds(1000 * paces[told].traffic)}.`.replaceAll(/(?<=\d) (?=.?s\b)/g, "\u00a0");
    if (told === base) return `${label} moves ${bytesText(totals[told])}; on ${chip.name} ${LIMITS[limit]} the pace.`;
    const of = bound < 0 ? `what ${data.models[base].label} moves` : "the least (each of Q, K, V, O once)", ratio = totals[told] / totals[base];
    const flash = data.models.findIndex((m) => m.kind === "upper bound"), worst = totals[flash] / totals[base];
    return `${label} moves ${times(ratio)} × ${of}${bound >= 0 && flash >= 0 ? `, flash ${worst > 1.005 ? `1 × with a cache, ${times(worst)} × without` : "1 ×"}` : ""}.`;
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
