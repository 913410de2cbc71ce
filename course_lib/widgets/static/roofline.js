// Intensity against attainable FLOP/s. The traffic models are data.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** FLOPs per byte of a point; decoding has one query row. Without a mask K_rows is T_q N_k. */
export function intensity(point, shape) {
  const nQ = point.decode ? 1 : shape.n, nK = shape.n;
  const H = shape.heads * shape.batch;
  const values = { H, H_kv: shape.kv_heads * shape.batch, N_q: nQ, N_k: nK, d: shape.d, b: 2, K_rows: Math.ceil(nQ / shape.block_q) * nK };
  return (4 * H * nQ * nK * shape.d) / point.terms.reduce((sum, term) => sum + termBytes(term, values), 0);
}

/** TFLOP/s under the roof. */
export const attainable = (x, chip) => Math.min((x * chip.hbm_gb_per_s) / 1e3, chip.tflops_half);

const SHAPES = ["M-7 0a7 7 0 1 0 14 0a7 7 0 1 0 -14 0", "M-6 -6h12v12h-12z", "M0 -8l8 14h-16z", "M0 -9l8 9l-8 9l-8 -9z", "M0 8l-8 -14h16z"];

function render({ model, el }) {
  const data = model.get("data");
  const get = (name) => model.get(name);
  const LABELS = { n: ["N", 64], d: ["d, head dimension", 16], heads: ["H, query heads", 1], kv_heads: ["K/V heads", 1], batch: ["batch", 1], block_q: ["B_q, rows of a Q tile", 16] };
  const fields = Object.entries(LABELS).map(([trait, [label, least]]) => field(label, powersOfTwo(least, 2 ** Math.floor(Math.log2(data.limits[trait]))), () => get(trait), (value) => {
    const most = data.limits[trait];
    if (!Number.isInteger(value) || value < 1 || value > most) return `A whole number from 1 to ${most}, please.`;
    if (trait === "kv_heads" && get("heads") % value) return `A number that divides the ${get("heads")} query heads, please.`;
    const group = get("heads") / get("kv_heads");
    put(model, trait === "heads" ? { heads: value, kv_heads: value % group ? value : value / group } : { [trait]: value });
  }));
  const gpu = select("GPU", Object.keys(data.gpus).map((name) => [name, name]), (value) => put(model, { gpu: value }));
  const words = h("p", {});
  const plot = h("div", { class: "fac-plot" });
  const table = h("div", {});
  const voice = announcer();
  root(model, el, h("div", { class: "fac-row" }, gpu.row), h("div", { class: "fac-fields" }, fields.map((f) => f.node)), words,
    h("div", { class: "fac-halves" }, part("roofline-plot", plot), part("roofline-table", table)), voice.node);

  let WIDE = 600;
  const HIGH = 340, LEFT = 56, BOTTOM = 44, TOP = 14;

  function draw() {
    for (const f of fields) f.follow();
    gpu.node.value = get("gpu");
    const chip = data.gpus[get("gpu")];
    const ridge = (chip.tflops_half * 1e3) / chip.hbm_gb_per_s;
    const shape = Object.fromEntries(Object.keys(LABELS).map((name) => [name, get(name)]));
    const points = data.points.map((p) => {
      const x = intensity(p, shape);
      return { ...p, x, y: attainable(x, chip), bound: x < ridge ? "memory-bound" : "compute-bound" };
    });
    const free = points.filter((p) => p.x >= ridge).map((p) => p.label);
    words.textContent = `${get("gpu")} needs ${short(ridge, 3)} FLOP/byte to be busy with arithmetic. ${free.length ? `Past the ridge: ${free.join("; ")}.` : "No point is past the ridge."}`;
    const [loads, least] = points.slice(2, 4);
    if (loads.x < ridge && least.x > ridge) words.textContent += " Flash lies between its two bounds, on both sides of the ridge: what L2 serves decides.";
    voice.say(words.textContent);
    drawPlot(points, chip, ridge);
    const row = (icon, label, x, y, bound) => h("tr", {}, h("th", { scope: "row" }, icon, `${label} `, h("small", {}, bound)), h("td", {}, short(x, 3)), h("td", {}, short(y, 3)));
    table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ["", "FLOP per byte", "TFLOP/s, at most"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, points.map((p, i) => row(key(p, i), p.label, p.x, p.y, p.bound)), get("marks").map((m) => row("✕ ", m.label, m.intensity, m.tflops, "measured")))));
  }

  const key = (p, i) => s("svg", { class: "fac-key", viewBox: "-10 -10 20 20", "aria-hidden": "true" }, s("path", { class: `fac-dot fac-f-${p.colour}`, d: SHAPES[i % SHAPES.length] }));

  function drawPlot(points, chip, ridge) {
    const marks = get("marks");
    const xs = [...points, ...marks.map((m) => ({ x: m.intensity }))].map((p) => Math.log2(p.x));
    const ys = [...points.map((p) => p.y), ...marks.map((m) => m.tflops)].map(Math.log10);
    const left = Math.floor(Math.min(-1, ...xs)), right = Math.ceil(Math.max(14, ...xs));
    const low = Math.floor(Math.min(-1, ...ys)), high = Math.ceil(Math.max(Math.log10(chip.tflops_half), ...ys));
    const x = (v) => LEFT + ((WIDE - LEFT - 14) * (Math.log2(v) - left)) / (right - left);
    const y = (v) => HIGH - BOTTOM - ((HIGH - BOTTOM - TOP) * (Math.log10(v) - low)) / (high - low);
    const grid = [];
    for (let p = low; p <= high; p += 1) {
      grid.push(s("line", { class: "fac-grid", x1: LEFT, x2: WIDE - 14, y1: y(10 ** p), y2: y(10 ** p) }), s("text", { x: LEFT - 6, y: y(10 ** p) + 5, "text-anchor": "end" }, String(10 ** p)));
    }
    const every = Math.ceil((right - left) / 6);
    for (let p = left; p <= right; p += every) {
      grid.push(s("line", { class: "fac-grid", x1: x(2 ** p), x2: x(2 ** p), y1: TOP, y2: HIGH - BOTTOM }), s("text", { x: x(2 ** p), y: HIGH - BOTTOM + 18, "text-anchor": p + every > right ? "end" : "middle", dx: p + every > right ? 14 : 0 }, String(2 ** p)));
    }
    grid.push(s("text", { x: (LEFT + WIDE) / 2, y: HIGH - 4, "text-anchor": "middle" }, "FLOP/byte"), s("text", { x: LEFT + 4, y: TOP - 2 }, "TFLOP/s"));
    const roof = [2 ** left, ridge, 2 ** right].map((v) => `${x(v)},${y(Math.max(10 ** low, attainable(v, chip)))}`).join(" ");
    const dots = points.map((p, i) => s("path", { class: `fac-dot fac-f-${p.colour}`, transform: `translate(${x(p.x)} ${y(p.y)})`, d: SHAPES[i % SHAPES.length] }, s("title", {}, p.label)));
    const crosses = marks.map((m) => s("path", { class: "fac-mark", transform: `translate(${x(m.intensity)} ${y(m.tflops)})`, d: "M-6 -6l12 12M-6 6l12 -12" }, s("title", {}, m.label)));
    const label = `Roofline of ${chip.name}, both axes logarithmic. ${points.map((p) => `${p.label}: ${short(p.x, 3)} FLOP/byte, at most ${short(p.y, 3)} TFLOP/s`).join(". ")}.`;
    plot.replaceChildren(s("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label }, grid,
      s("line", { class: "fac-ridge", x1: x(ridge), x2: x(ridge), y1: TOP, y2: HIGH - BOTTOM }), s("polyline", { class: "fac-roof", points: roof }), dots, crosses));
  }

  const later = onChanges(model, [...Object.keys(LABELS), "gpu", "marks"], draw);
  new ResizeObserver(() => {
    const wide = Math.max(300, Math.min(600, plot.clientWidth));
    if (wide !== WIDE) { WIDE = wide; later(); }
  }).observe(plot);
  draw();
}

export default { render };
