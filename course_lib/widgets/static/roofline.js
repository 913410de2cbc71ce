// Intensity against attainable FLOP/s. The traffic models are data.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** FLOPs per byte of a point; it says how many query rows it has. Without a mask K_rows is T_q N_k. */
export function intensity(point, shape) {
  const nQ = { all: shape.n, one: 1, queries: Math.min(shape.queries, shape.n) }[point.rows], nK = shape.n;
  const H = shape.heads * shape.batch;
  const values = { H, H_kv: shape.kv_heads * shape.batch, N_q: nQ, N_k: nK, d: shape.d, b: 2, K_rows: Math.ceil(nQ / shape.block_q) * nK };
  return (4 * H * nQ * nK * shape.d) / point.terms.reduce((sum, term) => sum + termBytes(term, values), 0);
}

/** TFLOP/s under the roof. */
export const attainable = (x, chip) => Math.min((x * chip.hbm_gb_per_s) / 1e3, chip.tflops_half);

const LENGTHS = powersOfTwo(64, 2 ** 20), BLOCKS = powersOfTwo(16, 1024);
// What each view drags and where its points stand in the list: of the kernels, flash's two bounds and
// one query row; of the dial, prefill, the point that is dragged, and one query row.
const LOADS = 2, LEAST = 3;
const VIEWS = {
  kernels: { bar: [2, 3], decode: 4, knobs: [["n", 3], ["block_q", 2]], fields: ["n", "block_q"] },
  dial: { bar: [2, 0], decode: 2, knobs: [["queries", 1]], fields: ["queries", "kv_heads"] },
};

function render({ model, el }) {
  const data = model.get("data"), view = VIEWS[model.get("view")], listed = data.views[model.get("view")];
  const get = (name) => model.get(name);
  const LABELS = { n: ["N", 64], block_q: ["B_q, rows of a Q tile", 16], queries: ["queries of a request", 1], d: ["d, head dimension", 16], heads: ["H, query heads", 1], kv_heads: ["K/V heads", 1], batch: ["batch", 1] };
  const fields = Object.fromEntries(Object.entries(LABELS).map(([trait, [label, least]]) => [trait, field(label, powersOfTwo(least, 2 ** Math.floor(Math.log2(data.limits[trait]))), () => get(trait), (value) => {
    const most = data.limits[trait];
    if (!Number.isInteger(value) || value < 1 || value > most) return `A whole number from 1 to ${most}, please.`;
    if (trait === "kv_heads" && get("heads") % value) return `A number that divides the ${get("heads")} query heads, please.`;
    const group = get("heads") / get("kv_heads");
    put(model, trait === "heads" ? { heads: value, kv_heads: value % group ? value : value / group } : { [trait]: trait === "queries" ? Math.min(value, get("n")) : value });
  })]));
  const gpu = select("GPU", Object.keys(data.gpus).map((name) => [name, name]), (value) => put(model, { gpu: value }));
  const layers = [s("g"), s("g")], [under, over] = layers.map(scene);
  const picture = stage(model, "roofline-plot", drawPlot, ...layers);
  const words = h("p", { class: "fac-stage-words" }), voice = announcer();
  let axes = null;
  root(model, el, picture.node, words, h("div", { class: "fac-fields" }, view.fields.map((name) => fields[name].node), gpu.row),
    more("the other sizes", h("div", { class: "fac-fields" }, ["n", "heads", "kv_heads", "batch", "d"].filter((name) => !view.fields.includes(name)).map((name) => fields[name].node))), voice.node);

  function draw() {
    for (const f of Object.values(fields)) f.follow();
    gpu.node.value = get("gpu");
    picture.draw();
    voice.say(words.textContent);
  }

  const shape = (changed = {}) => ({ ...Object.fromEntries(Object.keys(LABELS).map((name) => [name, get(name)])), ...changed });

  function drawPlot(width, fs) {
    const chip = data.gpus[get("gpu")], ridge = (chip.tflops_half * 1e3) / chip.hbm_gb_per_s, now = shape();
    const points = listed.map((p) => {
      const x = intensity(p, now);
      return { ...p, x, y: attainable(x, chip) };
    });
    const marks = get("marks").filter((m) => m.n === now.n), elsewhere = [...new Set(get("marks").map((m) => m.n))].filter((n) => n !== now.n);
    write(points, marks, elsewhere, ridge, chip);

    const xs = [...points.map((p) => p.x), ...marks.map((m) => m.intensity)].map(Math.log2), ys = [...points.map((p) => p.y), ...marks.map((m) => m.tflops)].map(Math.log10);
    if (!axes || !picture.svg.facHeld) axes = { left: Math.floor(Math.min(-1, ...xs)), right: Math.ceil(Math.max(14, ...xs)), low: Math.floor(Math.min(0, ...ys)), high: Math.log10(chip.tflops_half) + 0.12 };
    const { left, right, low, high } = axes, from = 2.7 * fs, top = 1.9 * fs, floor = top + Math.max(17 * fs, Math.min(24 * fs, 0.36 * width)), end = width - 0.6 * fs;
    const X = (v) => from + ((end - from) * (Math.log2(v) - left)) / (right - left);
    const Y = (v) => floor - ((floor - top) * (Math.log10(v) - low)) / (high - low);
    const roof = (a, b) => [a, ...(a < ridge && ridge < b ? [ridge] : []), b].map((v) => `${X(v)},${Y(Math.max(10 ** low, attainable(v, chip)))}`).join(" ");

    const dial = view === VIEWS.dial; // its bar is thick, and prefill's tick crosses the roof
    under((add) => {
      grid(add, { left, right, low, high }, { X, Y, from, top, floor, end, fs, width });
      add("ridge", "path", { class: "fac-roof-ridge", d: `M${X(ridge)} ${Y(chip.tflops_half)}V${floor}` });
      add("roof", "polyline", { class: "fac-roof-line", points: roof(Math.max(2 ** left, (10 ** low * 1e3) / chip.hbm_gb_per_s), 2 ** right) });
      add("ridge name", "text", { class: "fac-t-soft", x: X(ridge) + 6, y: floor - 0.5 * fs }, `ridge ${short(ridge, 3)}`);
      const peak = `${get("gpu")}: ${chip.tflops_half} TFLOP/s`, last = X(points[view.knobs[0][1]].x); // left of the handle that would stand in it
      add("flat", "text", { class: "fac-t-small", x: dial ? Math.max(X(points[0].x) - 0.6 * fs, from + 11 * fs) : last > end - wide(peak, fs) - fs ? last - 0.9 * fs : end, y: Y(chip.tflops_half) - (dial ? 0.7 : 0.5) * fs, "text-anchor": "end" }, peak);
      const angle = (Math.atan2(Y(8) - Y(4), X(8) - X(4)) * 180) / Math.PI, mid = 2 ** ((left + Math.log2(ridge)) / 2 - 1);
      add("slope", "text", { class: "fac-t-small", "text-anchor": "middle", transform: `translate(${X(mid)} ${Y(attainable(mid, chip)) - (dial ? 1.2 : 0.7) * fs}) rotate(${angle})` }, `${chip.hbm_gb_per_s} GB/s`);
    });
    over((add) => {
      const [low, high] = view.bar.map((i) => points[i].x), dragged = view.knobs.map(([, i]) => i);
      add("bar", "polyline", { class: "fac-roof-bar", points: roof(low, high) }, dial ? "the dial, from one query to all" : "flash lies between its two bounds");
      points.forEach((p, i) => dragged.includes(i) || add(`point ${i}`, "path", { class: `fac-roof-tick fac-roof-${p.colour}`, d: `M${X(p.x)} ${Y(p.y) - 0.7 * fs}v${1.4 * fs}` }));
      const sit = marks.map((m) => ({ x: X(m.intensity), y: Y(m.tflops), r: 0.6 * fs, m }));
      name(add, points, sit, { X, Y, fs, ridge, width, from, floor }); // leaders pass behind what was measured
      sit.forEach(({ x, y, r, m }, i) => {
        const gap = Y(attainable(m.intensity, chip));
        add(`gap ${i}`, "path", { class: "fac-roof-gap", d: `M${x} ${y}V${gap}` });
        add(`mark ${i}`, "path", { class: "fac-measured", d: `M${x} ${y - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z` }, m.label);
      });
      for (const [trait, i] of view.knobs) hold(add, trait, points[i], { X, Y, fs }, (x) => nearestBy(places(trait), (value) => X(intensity(listed[i], shape({ [trait]: value }))), x));
    });
    return floor + 2.9 * fs;
  }

  const places = (trait) => ({ n: LENGTHS, block_q: BLOCKS })[trait] ?? powersOfTwo(1, get("n"));
  const nearestBy = (places, at, x) => places.reduce((a, c) => (Math.abs(at(c) - x) < Math.abs(at(a) - x) ? c : a));
  const hold = (add, trait, p, { X, Y, fs }, choose) => add(`knob ${trait}`, "circle", { class: `fac-knob fac-across fac-knob-${trait}`, cx: X(p.x), cy: Y(p.y), r: 0.52 * fs }, `drag: ${LABELS[trait][0]}`, (x) => put(model, { [trait]: choose(x) }));

  function grid(add, { left, right, low, high }, { X, Y, from, top, floor, end, fs, width }) {
    for (let p = low; p <= high; p += 1) {
      add(`y ${p}`, "path", { class: "fac-axis", d: `M${from} ${Y(10 ** p)}H${end}` });
      add(`y tick ${p}`, "text", { class: "fac-t-soft", x: from - 6, y: Y(10 ** p) + 0.3 * fs, "text-anchor": "end" }, String(10 ** p));
    }
    const every = Math.ceil((right - left) / ((end - from) / (4 * fs)));
    for (let p = left; p <= right; p += every) {
      add(`x ${p}`, "path", { class: "fac-axis", d: `M${X(2 ** p)} ${top}V${floor}` });
      add(`x tick ${p}`, "text", { class: "fac-t-soft", x: X(2 ** p), y: floor + 1.2 * fs, "text-anchor": p === right ? "end" : "middle" }, p >= 10 ? `${2 ** (p - 10)}k` : String(2 ** p));
    }
    add("x name", "text", { class: "fac-t-soft", x: (from + end) / 2, y: floor + 2.5 * fs, "text-anchor": "middle" }, `FLOP per byte${width >= 700 ? "" : ", as beside the marks"}; both axes logarithmic`);
    add("y name", "text", { class: "fac-t-soft", x: 0, y: 0.95 * fs }, "TFLOP/s, at most");
  }

  /** Names beside what they name: left of the slope, under the flat roof, right of what was measured. */
  function name(add, points, sit, { X, Y, fs, ridge, width, from, floor }) {
    const long = width >= 700;
    const says = (p, i) => {
      if (view === VIEWS.dial) return dialled(p, long);
      if (i === LEAST) return `${long ? "you are here: " : ""}N = ${get("n")}, ${short(p.x, 3)}${long ? " FLOP/byte" : ""}`;
      return `${i === LOADS ? `B_q = ${get("block_q")}${long ? ", every tile load" : ""}` : long ? p.label : p.label.replace("naive, ", "")}: ${short(p.x, 3)}${long ? ` FLOP/byte, ${short(p.y, 3)} TFLOP/s` : ""}`;
    };
    const below = view === VIEWS.dial ? [1, 2] : [view.decode]; // named at the right of the slope
    const all = points.map((p, i) => ({ key: i, text: says(p, i), x: X(p.x), y: Y(p.y), cls: `fac-t-name fac-roof-says-${p.colour}`, slope: p.x < ridge })).filter((l) => l.text);
    const seen = sit.map((p, i) => ({ key: `m${i}`, text: `${p.m.label}: ${short(p.m.tflops, 3)}${long ? " TFLOP/s" : ""}`, x: p.x, y: p.y, cls: "fac-t-small", above: p.m.intensity < ridge && p.m.tflops > attainable(p.m.intensity, data.gpus[get("gpu")]) }));
    const steep = [...all.filter((l) => l.slope && !below.includes(l.key)), ...seen.filter((l) => l.above)], flat = all.filter((l) => !l.slope);
    const heights = spread(steep.map((l) => l.y - 0.2 * fs), steep.map(() => 1.35 * fs), 0, floor);
    steep.forEach((l, i) => {
      const size = wide(l.text, fs), at = l.above ? l.x - 1.1 * fs : l.x - 1.5 * fs; // a measured mark in its way: left of that
      const free = Math.min(at, ...seen.filter((m) => m !== l && Math.abs(m.y - heights[i]) < 1.1 * fs && m.x < at + fs && m.x > at - size).map((m) => m.x - 1.1 * fs));
      const x = Math.max(free, size), bend = x < l.x - fs;
      if (bend && (free < at || Math.abs(heights[i] - l.y) > 0.5 * fs)) add(`lead ${l.key}`, "path", { class: "fac-roof-lead", d: `M${x + 3} ${heights[i]}L${l.x - 0.4 * fs} ${l.y}` });
      add(`name ${l.key}`, "text", { class: l.cls, ...(!l.above && { "data-point": l.key }), x, y: heights[i] + 0.3 * fs, "text-anchor": "end" }, l.text);
    });
    const right = [...all.filter((l) => l.slope && below.includes(l.key)), ...seen.filter((l) => !l.above)];
    const under = Y(data.gpus[get("gpu")].tflops_half) + 1.4 * fs; // not on the roof
    const rows = spread(right.map((l) => (view === VIEWS.dial ? Math.max(l.y, under) : l.y) + 0.1 * fs), right.map(() => 1.35 * fs), 0, floor);
    right.forEach((l, i) => {
      const size = wide(l.text, fs), fits = l.x + 1.2 * fs + size < width;
      add(`name ${l.key}`, "text", { class: l.cls, ...(below.includes(l.key) && { "data-point": l.key }), x: fits ? l.x + 1.1 * fs : Math.min(l.x, width - size / 2), y: fits ? rows[i] + 0.3 * fs : l.y + 1.6 * fs, "text-anchor": fits ? "start" : "middle" }, l.text);
    });
    const places = spread(flat.map((l) => l.x), flat.map((l) => wide(l.text, fs)), X(ridge), width);
    flat.forEach((l, i) => add(`name ${l.key}`, "text", { class: l.cls, "data-point": l.key, x: places[i], y: l.y + 1.7 * fs, "text-anchor": "middle" }, l.text));
  }

  /** The name of a point of the dial, as short as the room asks for; "" where two would stand on one place. */
  function dialled(p, long) {
    const chip = data.gpus[get("gpu")], group = get("heads") / get("kv_heads"), queries = Math.min(get("queries"), get("n"));
    const along = (intensity(listed[1], shape()) * chip.hbm_gb_per_s) / (chip.tflops_half * 1e3); // 1 at the ridge
    if (p.rows === "all") return (along > 0.2 && !long) || queries === get("n") ? "" : `prefill: ${short(p.x, 3)}`;
    if (p.rows === "one") return queries === 1 ? "" : `${p.label}: ${short(p.x, 3)}${long ? " FLOP/byte" : ""}`;
    return `${long ? "group " : ""}${group} × ${queries}${long ? ` quer${queries === 1 ? "y" : "ies"}` : ""}: ${short(p.x, 3)}${long && along < 0.2 ? " FLOP/byte" : ""}`;
  }

  function write(points, marks, elsewhere, ridge, chip) {
    const free = points.filter((p) => p.x >= ridge).map((p) => p.label);
    words.textContent = `${get("gpu")} needs ${short(ridge, 3)} FLOP/byte to be busy with arithmetic. ${free.length ? `Past the ridge: ${free.join("; ")}.` : "No point is past the ridge."}`;
    if (view === VIEWS.kernels && points[LOADS].x < ridge && points[LEAST].x > ridge) words.textContent += " Flash lies between its two bounds, on both sides of the ridge: what L2 serves decides.";
    if (marks.length) words.textContent += ` ◆ TFLOP/s as timed, at the FLOP per byte that were counted.${marks.some((m) => m.tflops > attainable(m.intensity, chip)) ? " One above the line broke no roof: caches served bytes that were counted, so HBM sent fewer." : ""}`;
    if (elsewhere.length) words.textContent += ` ◆ Measured at N = ${elsewhere.join(", ")}${marks.length ? " too" : ""}: move there.`;
    picture.svg.setAttribute("aria-label", `Roofline of ${chip.name}, both axes logarithmic. ${points.map((p) => `${p.label}: ${short(p.x, 3)} FLOP/byte, at most ${short(p.y, 3)} TFLOP/s`).join(". ")}. ${marks.map((m) => `${m.label}: ${short(m.tflops, 3)} TFLOP/s, measured.`).join(" ")}`);
  }

  onChanges(model, [...Object.keys(LABELS), "gpu", "marks"], draw);
  draw();
}

export default { render };
