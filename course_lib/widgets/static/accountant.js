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

/** "65 times the bytes of", "as many bytes as". */
export function timesWords(ratio) {
  return Math.abs(ratio - 1) < 0.005 ? "as many bytes as" : `${times(ratio)} times the bytes of`;
}

const times = (ratio) => short(ratio, ratio >= 100 ? 3 : 2);

/** A share in whole percent that says 100 only of the whole. */
function percent(share) {
  return share < 1 && share > 0.99 ? "over 99 %" : `${Math.round(100 * share)} %`;
}

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

const milliseconds = (ms) => (ms >= 1000 ? `${short(ms / 1000, 3)} s` : ms >= 0.1 ? `${short(ms, 3)} ms` : `${short(ms * 1000, 3)} µs`);

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

  // The picture ----------------------------------------------------------------------------------
  const words = h("p", { class: "fac-words" });
  const rows = data.models.map(() => bar());
  data.models.forEach((m, i) => part(`accountant-${m.name}`, rows[i].node));
  const bars = h("div", {});
  let barred = { extra: null, rows: [] }; // the bars of ledgers and measurements, as last added
  const ticks = h("div", { class: "fac-ticks", "aria-hidden": "true" });
  const plot = h("div", { class: "fac-plot" });
  const counters = h("p", { class: "fac-soft" });
  root(model, el,
    h("div", { class: "fac-row" }, preset.row, dtype.row, gpu.row, causal.row),
    h("div", { class: "fac-fields" }, fields.map((f) => f.node)),
    part("accountant-words", words),
    h("div", { class: "fac-halves" },
      h("div", {}, h("div", { class: "fac-title" }, "Bytes to and from HBM, one forward pass (log axis)"), bars, ticks),
      part("accountant-over-n", h("div", {}, h("div", { class: "fac-title" }, "The same over N"), plot, counters))),
    voice.node);

  function bar() {
    const name = h("b", {}), value = h("span", {}), fill = h("div", {}), says = h("small", {});
    const formula = h("ul", {}), summary = h("summary", {});
    const fold = h("details", { ontoggle: () => row.spell() }, summary, formula);
    const node = h("div", { class: "fac-bar" },
      h("div", { class: "fac-bar-head" }, name, value), h("div", { class: "fac-track" }, fill), says, fold);
    const row = { node, name, value, fill, says, summary, formula, fold };
    return row;
  }

  const shapeAt = (n) => ({
    n, d: get("d"), heads: get("heads") * get("batch"), kvHeads: get("kv_heads") * get("batch"),
    b: data.dtypes[get("dtype")], blockQ: get("block_q"), blockK: get("block_k"), causal: get("causal"),
  });

  function draw() {
    for (const f of fields) f.follow();
    dtype.node.value = get("dtype");
    gpu.node.value = get("gpu");
    causal.node.checked = get("causal");
    preset.node.value = presetNames.find((name) => Object.entries(data.presets[name]).every(([k, v]) => get(k) === v)) ?? "";

    const shape = shapeAt(get("n"));
    const values = symbols(shape);
    const layers = get("layers");
    const flops = (4 * values.H * values.N_q * values.N_k * values.d * layers) / (shape.causal ? 2 : 1);
    const chip = data.gpus[get("gpu")];
    const totals = data.models.map((m) => layers * modelBytes(m, values));
    const extra = get("extra");
    const all = [...totals, ...extra.map((e) => e.bytes)];
    const low = Math.floor(Math.log10(Math.min(...all)) - 0.3), high = Math.ceil(Math.log10(Math.max(...all)) + 0.05);
    const across = (x) => `${(100 * (Math.log10(x) - low)) / (high - low)}%`;

    const bound = data.models.findIndex((m) => m.kind === "lower bound");
    const least = bound < 0 ? null : { model: data.models[bound], total: totals[bound] };

    data.models.forEach((m, i) => drawBar(rows[i], m, totals[i]));
    if (extra !== barred.extra) bars.replaceChildren(...rows.map((r) => r.node), ...(barred = { extra, rows: extra.map(extraBar) }).rows.map((r) => r.node));
    extra.forEach((entry, i) => (barred.rows[i].fill.style.width = across(entry.bytes)));
    drawTicks(low, high);
    words.textContent = inWords(totals, flops, chip);
    drawPlot(shape, extra, totals);
    voice.say(words.textContent);

    function drawBar(row, m, total) {
      row.name.textContent = `${m.label} `;
      row.value.textContent = bytesText(total);
      row.fill.className = `fac-fill fac-c-${m.colour}`;
      row.fill.style.width = across(total);
      const footprint = termBytes(m.footprint, values);
      const ratio = least && m !== least.model ? `${times(total / least.total)} times the lower bound; ` : "";
      row.says.textContent = `${m.kind}; ${ratio}${short(flops / total, 3)} FLOP/byte; ${milliseconds(total / chip.hbm_gb_per_s / 1e6)} of traffic at ${chip.hbm_gb_per_s} GB/s; memory above the inputs ${bytesText(footprint, 1024)}`;
      const parts = collected(m, values);
      row.summary.textContent = `${percent((parts[0].bytes * layers) / total)} of it is ${parts[0].count} ${parts[0].text}`;
      row.spell = () => {
        if (!row.fold.open) return; // what nobody sees is not drawn
        const each = parts.map((p) => h("li", {}, h("span", { class: "fac-mono" }, `${p.count} ${p.text}`), ` = ${bytesText(p.bytes * layers)}${layers > 1 ? ` (${layers} layers)` : ""}`));
        row.formula.replaceChildren(h("li", {}, m.describes), ...each);
      };
      row.spell();
    }

    function extraBar(entry) {
      const row = bar();
      row.name.textContent = `${entry.kind === "ledger" ? "● " : "◆ "}${entry.label}${entry.n ? `, N = ${entry.n}` : ""} `;
      row.value.textContent = bytesText(entry.bytes);
      row.fill.className = "fac-fill fac-c-grey";
      row.says.textContent = entry.kind === "ledger" ? "counted in code that ran" : "measured by hardware counters";
      row.fold.remove();
      return row;
    }

    function drawTicks(from, to) {
      const span = to - from, every = Math.max(1, Math.ceil(span / 5));
      const places = Array.from({ length: Math.floor(span / every) + 1 }, (_, i) => from + i * every);
      ticks.replaceChildren(...places.map((p) => {
        const left = (100 * (p - from)) / span;
        return h("span", { style: `left:${left}%${left > 90 ? ";transform:translateX(-100%)" : ""}` }, bytesText(10 ** p));
      }));
    }
  }

  function inWords(totals, flops, chip) {
    const least = data.models.findIndex((m) => m.kind === "lower bound");
    const most = totals.indexOf(Math.max(...totals));
    const base = least < 0 ? totals.indexOf(Math.min(...totals)) : least;
    const traffic = totals[most] / chip.hbm_gb_per_s / 1e6, arithmetic = flops / chip.tflops_half / 1e9;
    const limit = traffic > arithmetic ? "memory sets the pace" : "arithmetic sets the pace";
    const first = most === base
      ? `Every model here says ${bytesText(totals[base])}.`
      : `${capital(data.models[most].label)} moves ${timesWords(totals[most] / totals[base])} ${data.models[base].label}: ${bytesText(totals[most])} against ${bytesText(totals[base])}.`;
    return `${first} On ${chip.name} that traffic takes ${milliseconds(traffic)} at least, the arithmetic ${milliseconds(arithmetic)}: ${limit}.${get("causal") ? " (FLOPs are halved for causal, as papers do.)" : ""}`;
  }

  // The plot over N: its nodes stay, only what a setting changes is written again ----------------
  const HIGH = 330, LEFT = 66, BOTTOM = 40, TOP = 22;
  let WIDE = 560; // of the drawing; follows a narrow page, so that its text stays large
  const grid = s("g", {}), diamonds = s("g", {});
  const here = upright("fac-here"), cross = upright("fac-cross"), crossText = s("text", { y: TOP - 6 });
  const curves = data.models.map((m) => s("polyline", { class: `fac-s-${m.colour}` }));
  const picture = s("svg", { role: "img" }, grid, curves, here, cross, crossText, diamonds);
  const counted = h("span", {}, "◇ hardware counters");
  plot.append(picture, h("div", { class: "fac-legend" }, data.models.map(legendOf), counted));
  let drawn = { lines: "", grid: "", counters: "" }; // what the nodes show now

  function upright(name) {
    return s("line", { class: name, y1: TOP, y2: HIGH - BOTTOM });
  }

  function legendOf(m) {
    return h("span", {}, s("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" }, s("line", { class: `fac-s-${m.colour}`, x1: 0, x2: 34, y1: 5, y2: 5 })), m.label);
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

  function drawPlot(shape, extra, totals) {
    const key = JSON.stringify([TRAITS.filter((t) => t !== "n" && t !== "gpu").map(get), WIDE, last(), extra]);
    if (drawn.lines !== key) drawLines(shape, extra);
    drawn.lines = key;
    place(here, shape.n);
    const each = data.models.map((m, i) => `${m.label} ${bytesText(totals[i])}`).join(", ");
    picture.setAttribute("aria-label", `Bytes over N, both axes logarithmic. At N = ${shape.n}: ${each}.`);
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

  const later = onChanges(model, [...TRAITS, "extra"], draw);
  new ResizeObserver(() => {
    const wide = Math.max(300, Math.min(560, plot.clientWidth));
    if (wide !== WIDE) { WIDE = wide; later(); }
  }).observe(plot);
  if (!tiled) for (const f of fields.slice(6)) f.node.append(h("small", { class: "fac-soft" }, "no bar here depends on it"));
  draw();
}

export default { render };
