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

/** FLOPs per byte, whole from 10 on: 4096 stands on the tick 4k. */
const count = (x) => (x >= 10 ? String(Math.round(x)) : short(x, 3));

/** The largest 1, 2 or 5 times a power of ten that is no more. */
const round125 = (x) => [5, 2, 1].map((m) => m * 10 ** Math.floor(Math.log10(x))).find((y) => y <= x);

/** The middle of the widest gap between places. */
const widest = (places) => places.sort((a, b) => a - b).slice(1).map((b, i) => [b - places[i], (b + places[i]) / 2]).reduce((a, b) => (b[0] > a[0] ? b : a))[1];

const LENGTHS = powersOfTwo(64, 2 ** 20), BLOCKS = powersOfTwo(16, 1024);
// What each view drags and where its points stand in the list: of the kernels, flash's two bounds and
// one query row; of the dial, prefill, the point that is dragged, and one query row.
const LOADS = 2, LEAST = 3, ROOMY = 900, ROOFS = 700, LINE = 1.3; // widths from which words and names are whole; of a line, in letters' sizes
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
  const words = h("p", { class: "fac-finding" }), counts = h("p", { class: "fac-soft" }), note = h("p", { class: "fac-stage-words" }), voice = announcer();
  let axes = null, whole_ = null; // what is seen, and all of it
  root(model, el, words, picture.node, note, h("div", { class: "fac-fields" }, view.fields.map((name) => fields[name].node), gpu.row),
    more("the other sizes", counts, h("div", { class: "fac-fields" }, ["n", "heads", "kv_heads", "batch", "d"].filter((name) => !view.fields.includes(name)).map((name) => fields[name].node))), voice.node);

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
    const here = (m) => m.n === now.n && m.gpu === get("gpu"), marks = get("marks").filter(here);
    tell(points, marks, ridge, chip);

    const xs = points.map((p) => Math.log2(p.x)), ys = points.map((p) => Math.log10(p.y));
    const bound = (m) => attainable(m.loads, chip); // One window for all, so that the roof keeps its shape; only for what was measured is it too large. Then a map shows what part is seen.
    const zoomed = marks.length > 0, whole = { left: Math.floor(Math.min(-1, ...xs)), right: Math.ceil(Math.max(14, ...xs)), low: Math.floor(Math.min(0, ...ys)), high: Math.log10(chip.tflops_half) + (width < ROOFS ? 0.22 : 0.12) }; // on a phone names need its room
    if (zoomed) axes = { left: Math.floor(Math.min(...marks.map((m) => (m.loads ? Math.log2(m.loads) - 0.4 : Math.log2(m.intensity) - (width < ROOFS ? 1.2 : 2))))), right: Math.ceil(Math.max(Math.log2(ridge) + 1, ...marks.map((m) => Math.log2(m.intensity) + (!m.loads ? 1 : width < ROOFS ? 2.6 : 2)))), low: Math.log10(round125(Math.min(...marks.map((m) => Math.min(m.tflops, m.loads ? bound(m) : Infinity))) / 2)), high: Math.log10(chip.tflops_half) + 0.12 };
    else if (!axes || !picture.svg.facHeld) axes = whole;
    whole_ = whole;
    const { left, right, low, high } = axes, from = 2.7 * fs, bars = rows(marks, width), strip = marks.length ? (2.1 + bars.pitch * marks.length) * fs : view === VIEWS.dial && 3.85 * fs, top = strip + 2.3 * fs, floor = top + Math.max((width < ROOFS ? (zoomed ? 23 : 20) : zoomed ? 18 : 17) * fs, Math.min((zoomed ? 18 : 24) * fs, 0.36 * width)), end = width - 0.6 * fs;
    const X = (v) => from + ((end - from) * (Math.log2(v) - left)) / (right - left);
    const Y = (v) => floor - ((floor - top) * (Math.log10(v) - low)) / (high - low);
    const roof = (a, b) => [a, ...(a < ridge && ridge < b ? [ridge] : []), b].map((v) => `${X(v)},${Y(Math.max(10 ** low, attainable(v, chip)))}`).join(" ");

    const dial = view === VIEWS.dial, long = width >= ROOFS, knobs = marks.length ? [] : view.knobs, held = knobs.map(([, i]) => points[i]), peak = Y(chip.tflops_half), flat = `${long ? "arithmetic's roof" : "roof"}: ${chip.tflops_half} TFLOP/s`;
    const free = marks.length ? [] : points.filter((p) => held.includes(p) || held.every((h) => h.x !== p.x)); // no tick under a handle
    fields.block_q.node.hidden = marks.length > 0; // it would move nothing
    const mid = 2 ** (marks.length ? widest([left, ...marks.map((m) => Math.min(Math.log2(m.loads ?? m.intensity), Math.log2(ridge))), Math.log2(ridge)]) : left + (!dial ? (long ? 0.39 : 0.33) : Math.log2(held[0].x) - left > 0.4 * (Math.log2(ridge) - left) ? 0.25 : 0.62) * (Math.log2(ridge) - left)); // between the stems
    const slope = { x: X(mid), y: Y(attainable(mid, chip)) + (dial ? 1.6 : -0.8) * fs, angle: Math.atan2(Y(8) - Y(4), X(8) - X(4)), text: `${long ? "memory's roof: " : marks.length ? "HBM: " : right > 14 ? "" : "memory: "}${chip.hbm_gb_per_s} GB/s` };
    under((add) => {
      add("memory side", "rect", { class: "fac-roof-side", x: from, y: top, width: Math.max(0, X(ridge) - from), height: floor - top });
      grid(add, { left, right, low, high }, { X, Y, from, top, floor, end, fs, strip }, marks);
      add("ridge", "path", { class: "fac-roof-ridge", d: `M${X(ridge)} ${peak}V${floor}` });
      add("roof", "polyline", { class: `fac-roof-line${marks.length ? " fac-roof-quiet" : ""}`, points: roof(Math.max(2 ** left, (10 ** low * 1e3) / chip.hbm_gb_per_s), 2 ** right) });
      add("flat", "text", { class: "fac-t-small", x: end, y: peak - (dial ? 2.2 : 1) * fs, "text-anchor": "end" }, flat); // over the numbers of the dots, over a name
      add("slope", "text", { class: "fac-t-small", "text-anchor": "middle", transform: `translate(${slope.x} ${slope.y}) rotate(${(slope.angle * 180) / Math.PI})` }, slope.text);
      if (dial) distance(add, held[0], { X, Y, fs, ridge, width, floor, end });
      const foot = !dial || width >= ROOMY, sides = [[`← memory sets the pace`, foot ? X(ridge) - 6 : from + 0.6 * fs, foot ? -1 : 1, (dial ? 0.6 : 1) * (X(ridge) - from)], ["arithmetic sets the pace →", X(ridge) + 6, 1, end - X(ridge)]];
      const level = foot ? floor - (dial ? 1.6 : 0.5) * fs : top + (dial ? 0.5 : 0.6) * (floor - top), pace = sides.map(([text, , , room]) => (wide(text, fs) < room ? [text] : [text.split(" sets")[0], `sets${text.split(" sets")[1]}`]));
      sides.forEach(([, x, way], i) => pace[i].forEach((text, j) => add(`side ${i} ${j}`, "text", { class: "fac-roof-where", x, y: (i || foot ? level : top + 1.4 * fs) + (foot ? j + 1 - pace[i].length : j) * LINE * fs, "text-anchor": way < 0 ? "end" : "start" }, text)));
      if (!dial) {
        const balance = [`ridge, the balance point: ${short(ridge, 3)} FLOP for each byte`, `ridge: ${short(ridge, 3)} FLOP/byte`].find((text) => 7 * text.length < end - X(ridge));
        if (balance) add("ridge name", "text", { class: "fac-t-small", x: X(ridge) + 6, y: level - (LINE * pace[1].length + 0.1) * fs }, balance);
      }
    });
    over((add) => {
      const [least, most] = view.bar.map((i) => points[i].x);
      if (dial) stops(add, points, { X, Y, fs, ridge, chip });
      else if (!marks.length) add("bar", "polyline", { class: "fac-roof-bar", points: roof(least, most) }, "flash lies between its two bounds");
      free.forEach((p) => held.includes(p) || add(`point ${p.label}`, "path", { class: `fac-roof-tick fac-roof-${p.colour}`, d: `M${X(p.x)} ${Y(p.y) - 0.55 * fs}v${1.1 * fs}` }));
      if (zoomed) overview(add, { ...whole, right: Math.max(whole.right, right) }, axes, { chip, ridge, width, from, top, floor, end, fs });
      if (dial && !marks.length) reached(add, held[0], { width, fs, chip });
      if (marks.length) compared(add, marks, { width, fs, long, chip });
      if (marks.length) measured(add, marks, { X, Y, fs, long, chip, ridge, from, end });
      name(add, free, { X, Y, fs, ridge, width, from, end, slope });
      knobs.forEach(([trait, i]) => hold(add, trait, points[i], { X, Y, fs }, (x) => nearestBy(places(trait), (value) => X(intensity(listed[i], shape({ [trait]: value }))), x)));
    });
    return floor + (marks.length ? 4.2 : 2.9) * fs;
  }

  /** The whole window, small, and what part of it the picture shows. */
  function overview(add, { left, right, low, high }, seen, { chip, ridge, width, from, top, floor, end, fs }) {
    const w = Math.min(11 * fs, 0.19 * width), tall = 0.42 * w, [x0, y0] = width < ROOFS ? [from + 0.4 * fs, top + 1.4 * fs] : [end - w - 0.4 * fs, floor - tall - 0.5 * fs]; // where nothing else stands
    const X = (p) => x0 + (w * (p - left)) / (right - left), Y = (p) => y0 + (tall * (high - p)) / (high - low), roof = [left, Math.log2(ridge), right].map((p) => `${X(p)},${Y(Math.max(low, Math.log10(attainable(2 ** p, chip))))}`);
    add("map", "rect", { class: "fac-roof-map", x: x0, y: y0, width: w, height: tall });
    add("map roof", "polyline", { class: "fac-roof-map-line", points: roof.join(" ") });
    add("map seen", "rect", { class: "fac-roof-seen", x: X(seen.left), y: Y(seen.high), width: X(seen.right) - X(seen.left), height: Y(seen.low) - Y(seen.high) }, `seen: ${short(2 ** seen.left, 3)} to ${count(2 ** seen.right)} FLOP/byte`);
    add("map says", "text", { class: "fac-t-soft", x: x0, y: y0 - 0.4 * fs }, width < ROOMY ? "zoomed in" : "zoomed in: the part seen");
  }

  /** Above the field of the dial, where a length is a number: its speed in the frame of the flat roof. */
  function reached(add, { y: tflops }, { width, fs, chip }) {
    const says = `${short(tflops, 3)} TFLOP/s, ${short((100 * tflops) / chip.tflops_half, 2)} %`, room = width - wide(says, 0.9 * fs) - 1.2 * fs, at = { x: 0, y: 1.6 * fs, height: 1.25 * fs }, part = (room * tflops) / chip.tflops_half, little = part < 0.4 * room;
    add("head reached", "text", { class: "fac-t-soft", x: 0, y: fs }, "speed at most, framed by arithmetic's roof");
    add("reached all", "rect", { class: "fac-roof-share", ...at, width: room });
    add("reached", "rect", { class: "fac-roof-part fac-roof-of-other", ...at, width: part }, says);
    add("reached end", "path", { class: "fac-roof-end", d: `M${Math.max(2, part).toFixed(1)} ${at.y - 0.3 * fs}v${at.height + 0.6 * fs}` }); // 0.34 % are a pixel, under the frame's own line
    add("reached says", "text", { class: "fac-t-small", x: (little ? Math.max(2, part) : room) + 0.6 * fs, y: 2.55 * fs }, `${little ? "← " : ""}${says}`);
  }

  /** The rows of the bars: where names have no room beside them they stand above. */
  function rows(marks, width) {
    const above = width < 1000 && marks.every((m) => m.loads);
    return { above, pitch: above ? 3.1 : 2.1, first: above ? 2.6 : 1.6 };
  }

  /** Above the field, where a length is a number: how fast each kernel is, in a frame as long as its roof is high; and, where that is known, what HBM moves for it and what it loads on the chip. */
  function compared(add, marks, { width, fs, long, chip }) {
    const ranked = [...marks].sort((a, b) => b.tflops - a.tflops), { above, pitch, first: begin } = rows(marks, width), tall = 1.4 * fs, names = marks.every((m) => m.loads) ? (m) => m.label : called, unit = long ? " GB" : "", of = (m) => `${Math.round((100 * m.tflops) / attainable(m.intensity, chip))} %`;
    const speed = [long ? "measured speed in its roof" : "TFLOP/s, roof", (m) => m.tflops, (m) => (long ? `${short(m.tflops, 3)} TFLOP/s, ${of(m)}` : short(m.tflops, 3)), "part"];
    const columns = marks.every((m) => m.loads) ? [
      [long ? "moved by HBM" : "HBM, GB", (m) => gb(m.intensity), (m) => `${short(gb(m.intensity), 3)}${unit}`, "crossed"],
      [long ? "loaded on the chip" : "on chip, GB", (m) => gb(m.loads), (m) => `${short(gb(m.loads), 3)}${unit}`, "loaded"],
      speed,
    ] : [[`measured ${long ? "speed" : "TFLOP/s"}, framed by the roof over it`, speed[1], (m) => `${short(m.tflops, 3)}${long ? " TFLOP/s" : ""}, ${of(m)}${long ? ` of ${short(attainable(m.intensity, chip), 3)}` : ""}`, "part"]];
    const side = above ? 0 : Math.max(...ranked.map((m) => wide(names(m), (long ? 1.08 : 0.95) * fs))) + fs, each = (width - side) / columns.length, said = (columns.length > 1 ? (long ? 8 : 3.4) : long ? 13 : 5.2) * fs, room = each - said - 0.8 * fs;
    columns.forEach(([head, of, says, name], i) => {
      const x = side + i * each, most = name === "part" ? chip.tflops_half : Math.max(...marks.map(of));
      add(`head ${name}`, "text", { class: "fac-t-soft", x, y: fs }, head);
      ranked.forEach((m, j) => {
        const y = (begin + pitch * j) * fs, long_ = (room * of(m)) / most, frame = name === "part" ? (room * attainable(m.intensity, chip)) / most : long_;
        if (!i) add(`row ${m.label}`, "text", { class: `fac-t-name${long ? "" : " fac-t-small"}`, x: 0, y: above ? y - 0.4 * fs : y + 0.5 * tall + 0.33 * fs }, names(m));
        if (name === "part") add(`share ${m.label} all`, "rect", { class: "fac-roof-share", x, y, width: frame, height: tall });
        add(`${name} ${m.label}`, "rect", { class: `fac-roof-${name} fac-roof-of-${meant(m)}${valued(m)}`, x, y, width: long_, height: tall }, says(m));
        add(`${name} ${m.label} says`, "text", { class: "fac-t-small", x: x + frame + 0.4 * fs, y: y + 0.5 * tall + 0.3 * fs }, says(m));
      });
    });
  }

  /** What was measured, and what is missing to its roof; or from where it would be if every load went to HBM, across by the bytes that were not to be loaded, then up by the speed. */
  function measured(add, marks, { X, Y, fs, long, chip, ridge, from, end }) {
    const diamond = (x, y, r) => `M${x} ${y - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`, bold = `fac-t-name${long ? "" : " fac-t-small"}`, small = "fac-t-small", edges = {}, best = intensity(listed[LEAST], shape());
    for (const m of [...marks].sort((a, b) => b.tflops - a.tflops)) {
      const [x, y] = [X(m.intensity), Y(m.tflops)], flat = m.intensity >= ridge, key = m.label, colour = `fac-roof-${meant(m)}${valued(m)}`;
      const write = (id, lines, at, anchor, row) => lines.forEach(([text, cls], j) => add(`${id} ${key} ${j}`, "text", { class: cls, x: at, y: row + (0.3 + LINE * j) * fs, "text-anchor": anchor }, text));
      const clear = (side, row, lines) => { // names of one side stand one below another
        const free = Math.max(row, edges[side] ?? 0);
        edges[side] = free + LINE * lines.length * fs;
        return free;
      };
      if (m.loads) {
        const [left, low] = [X(m.loads), Y(attainable(m.loads, chip))], factor = Math.round(m.intensity / m.loads), fewer = `${factor} × fewer bytes from HBM`, most = `ceiling ${short(attainable(m.loads, chip), 3)}`;
        add(`saved ${key}`, "path", { class: `fac-roof-saved ${colour}`, d: `M${left} ${low}H${x}V${y}` }, fewer);
        add(`counted ${key}`, "path", { class: "fac-roof-counted", d: diamond(left, low, 0.5 * fs) }, m.label);
        const mid = (X(ridge) + x) / 2, says = long ? fewer : `bytes ÷ ${factor}`, faster = `${short(m.tflops / attainable(m.loads, chip), 2)} × ${long ? "that " : ""}ceiling`; // across: bytes; up: speed
        add(`fewer ${key}`, "text", { class: `fac-t-name ${small}`, "text-anchor": "middle", x: mid, y: low - 0.45 * fs }, says);
        add(`faster ${key}`, "text", { class: `fac-t-name ${small}`, ...(low - y > 4 * fs ? { "text-anchor": "end", x: x - 0.4 * fs, y: (low + y) / 2 + 0.3 * fs } : { "text-anchor": "middle", x: Math.min(x, end - wide(faster, 0.46 * fs)), y: low + 1.2 * fs }) }, faster); // below a short way
        const start = "if every load went to HBM:", room = left - from - fs, begins = !edges.start && long && wide(start, 0.85 * fs) < room ? [start] : []; // said once
        if (begins.length) edges.start = 1;
        const free = X(ridge) - left - 0.2 * fs, fits = [`${most} TFLOP/s`, most].map((text) => wide(text, 0.9 * fs) < free), left_ = room > wide("ceiling", 0.8 * fs) - 0.2 * fs, split = ["ceiling", most.slice(8)]; // below the slope where it does not cross the ridge's line, else above it
        const above = begins.length || (long ? !fits[0] : left_), rows = [...begins, ...(long || (!above && fits[0]) ? [`${most} TFLOP/s`] : (above ? room > wide(most, fs) - fs : fits[1]) ? [most, "TFLOP/s"] : split)]; // the axis has the unit
        write("most", rows.map((text) => [text, small]), left + (above ? -0.8 : 0.2) * fs, above ? "end" : "start", low + (above ? (long ? -0.7 - LINE * (rows.length - 1) : 1.2 - LINE * rows.length) : long ? 1.3 : rows.length === 2 && rows[0] === "ceiling" ? 1.7 : 2.3) * fs);
        write("name", [[called(m), bold]], x + 1.1 * fs, "start", clear("right", y, [0]));
      } else {
        const lines = [[`${called(m)}: ${short(m.tflops, 3)} TFLOP/s`, bold], [`at ${short(m.intensity, 3)} FLOP/byte`, small]];
        if (m.intensity > best) lines.push([`HBM moved ${short(100 * (1 - best / m.intensity), 1)} % less`, small], [`than at best: ${count(best)}`, small]); // one pass over Q, K, V and O is what the models call best
        const at = flat ? Math.min(x + 0.6 * fs, end) : Math.min(x - 0.6 * fs, X(ridge) - 0.6 * fs - Math.max(...lines.map(([text]) => wide(text, (long ? 1 : 0.92) * fs))));
        add(`gap ${key}`, "path", { class: `fac-roof-gap ${colour}`, d: `M${x} ${y}V${Y(attainable(m.intensity, chip))}` }, "what is missing to its roof");
        write("name", lines, at, flat ? "end" : "start", clear(flat, y + 1.5 * fs, lines));
      }
      add(`mark ${key}`, "path", { class: `fac-measured fac-roof-of-${meant(m)}${valued(m)}`, d: diamond(x, y, 0.62 * fs) }, m.label);
    }
  }

  const places = (trait) => ({ n: LENGTHS, block_q: BLOCKS })[trait] ?? powersOfTwo(1, get("n"));
  const nearestBy = (places, at, x) => places.reduce((a, c) => (Math.abs(at(c) - x) < Math.abs(at(a) - x) ? c : a));
  const hold = (add, trait, p, { X, Y, fs }, choose) =>
    add(`knob ${trait}`, "circle", { class: `fac-knob fac-across fac-knob-${trait}`, cx: X(p.x), cy: Y(p.y), r: 0.52 * fs, "data-handle": trait }, `drag: ${LABELS[trait][0]}`, (x) => put(model, { [trait]: choose(x) }));

  function grid(add, { left, right, low, high }, { X, Y, from, top, floor, end, fs, strip }, marks) {
    const first = Math.floor(low), decades = Array.from({ length: Math.floor(high) - first + 1 }, (_, i) => 10 ** (first + i)), fine = high - low < 2 ? [1, 2, 5] : [1];
    for (const y of decades.flatMap((decade) => fine.map((m) => m * decade)).filter((y) => y >= 0.99 * 10 ** low && y <= 10 ** high)) {
      add(`y ${y}`, "path", { class: "fac-axis", d: `M${from} ${Y(y)}H${end}` });
      add(`y tick ${y}`, "text", { class: "fac-t-soft", x: from - 6, y: Y(y) + 0.3 * fs, "text-anchor": "end" }, String(y));
    }
    const every = Math.ceil((right - left) / ((end - from) / (4 * fs)));
    for (let p = left; p <= right; p += every) {
      add(`x ${p}`, "path", { class: "fac-axis", d: `M${X(2 ** p)} ${top}V${floor}` });
      add(`x tick ${p}`, "text", { class: "fac-t-soft", x: X(2 ** p), y: floor + 1.2 * fs, "text-anchor": p === right ? "end" : "middle" }, p >= 10 ? `${2 ** (p - 10)}k` : String(2 ** p));
    }
    add("x name", "text", { class: "fac-t-soft", x: (from + end) / 2, y: floor + 2.5 * fs, "text-anchor": "middle" }, `FLOP per byte (log${view === VIEWS.dial ? `, ${get("n")} keys` : ""}): more reuse of each byte →`);
    if (marks.length) add("flops", "text", { class: "fac-t-soft", x: (from + end) / 2, y: floor + 3.8 * fs, "text-anchor": "middle" }, `${marks.length > 1 ? "each does" : "it does"} 4 × ${get("heads") * get("batch")} heads × ${get("n")}² × ${get("d")} = ${short(flops() / 1e12, 3)} TFLOP`);
    add("y name", "text", { class: "fac-t-soft", x: 0, y: strip + 0.95 * fs }, `TFLOP/s (log${marks.length ? `${axes === whole_ ? "" : ", zoomed in"}); ◆ measured${marks.some((m) => m.loads) ? (end < ROOFS ? ", ◇ if every load went to HBM" : "") : ` at N = ${get("n")}`}` : view === VIEWS.dial ? "); each ●: twice the queries" : "), at most"}`);
  }

  /** How far the handle is from the ridge, along the axis. */
  function distance(add, { x, y }, { X, Y, fs, ridge, width, floor, end }) {
    const times = ridge / x, far = times > 1.5, level = floor - 0.75 * fs;
    if (far) add("drop", "path", { class: "fac-roof-ridge", d: `M${X(x)} ${Y(y)}V${floor}` });
    if (far) add("far", "path", { class: "fac-roof-way", d: `M${X(x)} ${level}H${X(ridge)}m-7 -4l7 4l-7 4` });
    add("ridge name", "text", { class: `fac-t-name${far ? "" : " fac-t-small"}`, x: X(ridge) + 6, y: level + 0.3 * fs }, !far ? `ridge: ${short(ridge, 3)} FLOP/byte` : width >= 440 ? `${short(times, 3)} × to the ridge` : `${short(times, 3)} ×`);
  }

  /** A dot for each number of queries that the handle can stand at, and the numbers that have room. */
  function stops(add, points, { X, Y, fs, ridge, chip }) {
    const at = places("queries").map((queries) => ({ queries, x: intensity(listed[1], shape({ queries })) })).filter(({ x }) => [0, 2].every((i) => Math.abs(X(x) - X(points[i].x)) > fs)); // those have names
    add("stops", "path", { class: "fac-roof-stops", d: at.map(({ x }) => `M${X(x)} ${Y(attainable(x, chip))}h0`).join("") }, "each dot: twice the queries");
    const named = at.filter(({ queries, x }) => (x < ridge ? Math.log2(queries) % 2 === 0 : true) && Math.abs(X(x) - X(points[1].x)) > fs);
    let edge = Infinity;
    for (const { queries, x } of named.reverse()) { // from the last: it is where prefill begins
      const flat = x > ridge, text = manyQueries(queries), room = wide(text, 0.8 * fs);
      if (flat && X(x) + room / 2 > edge) continue; // there the dots are closer
      edge = X(x) - room / 2 - 0.5 * fs;
      add(`stop ${queries}`, "text", { class: "fac-t-soft", x: X(x) - (flat ? 0 : 0.6 * fs), y: Y(attainable(x, chip)) - (flat ? 0.85 : 0.1) * fs, "text-anchor": flat ? "middle" : "end" }, text);
    }
  }

  /** Names beside what they name, in lines; what has no room on its own side stands beyond the line of the balance, at the end of a thin line. */
  function name(add, points, at) {
    const { fs } = at;
    for (const l of laid(points, at)) {
      if (l.lead) add(`lead ${l.key}`, "path", { class: `fac-roof-lead fac-roof-${l.colour}`, d: l.lead });
      l.lines.forEach(([text, cls, names], i) => add(`name ${l.key} ${i}`, "text", { class: cls, ...(names && { "data-names": names }), ...(!i && l.point >= 0 && { "data-point": l.point }), ...(l.ends ? { x: l.left + l.size, "text-anchor": "end" } : { x: l.left }), y: l.row + (0.3 + LINE * i) * fs }, text));
    }
  }

  /** Where names stand: left of a point above the slope, right of it below; on the flat roof, under it. */
  function laid(points, { X, Y, fs, ridge, width, from, end, slope }) {
    const chip = data.gpus[get("gpu")], peak = Y(chip.tflops_half), long = width >= ROOFS, beyond = X(ridge) + 0.8 * fs, balance = X(ridge) - 8;
    const falls = Math.tan(slope.angle), half = wide(slope.text, 0.4 * fs), tall = (l) => LINE * (l.lines.length - 1) * fs;
    const sized = (l) => ({ ...l, size: Math.max(...l.lines.map(([text, cls]) => wide(text, (!/name/.test(cls) ? 0.82 : /small/.test(cls) ? 0.88 : /says/.test(cls) ? 0.96 : 1.04) * fs))) });
    const all = points.map((p) => sized(told(p, { long, X, Y, ridge })));
    const led = (l) => ({ side: "beyond", led: true, ends: false, left: Math.min(beyond, end - l.size), y: Math.max(l.y, peak + 1.5 * fs) });
    for (const l of all) {
      const onLeft = l.x - 1.1 * fs - l.size, base = l.y - 0.35 * fs, met = onLeft < slope.x + half * Math.cos(slope.angle) && base + 0.6 * fs > slope.y - half * Math.abs(Math.sin(slope.angle)) - 0.6 * fs;
      if (l.flat) Object.assign(l, { side: "beyond", left: !long ? beyond : Math.max(beyond, Math.min(l.x - l.size / 2, end - l.size)), y: (long ? Math.max(l.y, peak) : peak) + 1.6 * fs });
      else {
        const sides = { left: onLeft > from && !met, below: l.x + 1.1 * fs + l.size < balance };
        const side = (view === VIEWS.kernels && (long || l.handle) ? ["left", "below"] : ["below", "left"]).find((name) => sides[name]);
        Object.assign(l, side === "left" ? { side, left: onLeft, ends: true, y: base } : side ? { side, left: l.x + 1.1 * fs, y: l.y + 0.45 * fs } : led(l));
      }
    }
    const on = (side) => all.filter((l) => l.side === side).sort((a, b) => b.flat - a.flat || a.y - b.y);
    let foot = Infinity;
    for (const l of on("left").reverse()) { // upwards; its last line stands at the point
      const y = Math.min(l.y, foot) - tall(l);
      if (y < 1.8 * fs) Object.assign(l, led(l)); // out of the picture
      else foot = (l.y = y) - 1.25 * fs;
    }
    for (const side of ["beyond", "below"]) {
      let edge = 0;
      for (const l of on(side)) { // downwards, away from the roof
        l.y = Math.max(l.y, edge);
        edge = l.y + tall(l) + 1.3 * fs;
      }
    }
    for (const l of all) {
      l.row = l.y;
      if (l.led) l.lead = `M${l.x + (l.handle ? 0.55 : 0.2) * fs} ${l.from}L${l.left - 0.3 * fs} ${l.row}`;
    }
    return all;
  }

  /** The lines beside a point of a model: its name, its FLOPs per byte, what its handle drags. */
  function told(p, { long, X, Y, ridge }) {
    const point = listed.findIndex((l) => l.label === p.label), [handle] = view.knobs.find(([, i]) => i === point) ?? [], flat = p.x >= ridge, said = says(p, long);
    const at = { key: p.label, handle, point, colour: p.colour, x: X(p.x), y: Y(p.y), from: Y(p.y), flat };
    if (handle === "queries") return { ...at, colour: "other", lines: [[held(handle, p, long), "fac-t-name fac-roof-says-here", handle]] };
    const cls = `fac-t-name fac-roof-says-${p.colour}${long ? "" : " fac-t-small"}`;
    return { ...at, lines: [...(long || !handle ? [said.join(": ")] : said).map((text) => [text, cls]), ...(handle ? [[held(handle), "fac-t-hand", handle]] : [])] };
  }

  /** What stands beside a point: its name, and its FLOPs per byte or, of the dial, its queries. */
  function says(p, long) {
    if (view === VIEWS.dial) return [p.label.split(",")[0], manyQueries(p.rows === "all" ? get("n") : 1)];
    const name = { "flash prefill, tile loads": "flash at worst", "flash prefill, compulsory": "flash at best" }[p.label] ?? (long ? p.label : p.label.split(",")[0]);
    return [name, `${count(p.x)} FLOP/byte`];
  }

  /** How many queries, in few letters. */
  const manyQueries = (n) => `${n >= 1024 && n % 1024 === 0 ? `${n / 1024}k` : n} quer${n === 1 ? "y" : "ies"}`;

  /** What a handle drags and where it stands. */
  function held(handle, p, long) {
    const group = get("heads") / get("kv_heads"), queries = Math.min(get("queries"), get("n"));
    const what = handle === "queries" ? `${group > 1 ? `${group} heads × ` : ""}${queries} quer${queries === 1 ? "y" : "ies"}${long ? `, ${count(p.x)} FLOP/byte` : ""}` : `${handle === "n" ? "N" : "B_q"} = ${get(handle)}`;
    return handleSays(picture.svg, handle, Infinity, what);
  }

  /** FLOPs of attention without a mask, and the GB that are moved with so many of them for each byte. */
  const flops = () => 4 * get("heads") * get("batch") * get("n") ** 2 * get("d"), gb = (intensity) => flops() / intensity / 1e9;

  /** A mark in few words. */
  const first = (m) => m.label.split(",")[0];

  /** The same where it tells marks apart, else its whole name. */
  const called = (m) => (get("marks").filter((o) => o.n === m.n && o.gpu === m.gpu && first(o) === first(m)).length > 1 ? m.label : first(m));

  /** Whose colour a mark has: what its name says. */
  const meant = (m) => (m.loads || /flash|fused/.test(m.label) ? "flash" : /naive|eager/.test(m.label) ? "naive" : "other");

  /** Of several marks of one colour the fastest has the strong value, the others the weak one. */
  function valued(m) {
    const alike = get("marks").filter((o) => o.n === m.n && o.gpu === m.gpu && meant(o) === meant(m));
    return alike.length < 2 || meant(m) === "other" ? "" : alike.every((o) => o.tflops <= m.tflops) ? " fac-roof-strong" : " fac-roof-weak";
  }

  function tell(points, marks, ridge, chip) {
    const most = short(100 * Math.min(1, points[1].x / ridge), 2), queries = Math.min(get("queries"), get("n")), many = `${queries} quer${queries === 1 ? "y" : "ies"}`;
    const one = `${/^[AFHLMNRSX]/.test(get("gpu")) ? "an" : "a"} ${get("gpu")}`, elsewhere = get("marks").filter((m) => !marks.includes(m));
    const ranked = [...marks].sort((a, b) => b.tflops - a.tflops), capital = (text) => text[0].toUpperCase() + text.slice(1);
    const fast = ranked[0], slow = ranked.at(-1), crossed = slow?.loads < fast?.loads && slow.intensity > fast.intensity; // loads more, and HBM moves less
    write(words, view === VIEWS.dial
      ? points[1].x >= ridge ? `With ${many} per request ${one} can reach its peak: arithmetic sets the pace.` : `With ${many} per request ${one} reaches at most ${most} % of its peak.`
      : crossed ? `${capital(first(fast))} moves ${short(slow.intensity / fast.intensity, 2)} × the HBM bytes of ${first(slow)}, and yet is ${short(fast.tflops / slow.tflops, 2)} × as fast.`
      : marks.length > 1 ? `${capital(called(fast))} is ${short(fast.tflops / slow.tflops, 2)} × as fast as ${called(slow)}: ${short(fast.tflops, 3)} TFLOP/s against ${short(slow.tflops, 3)}.`
      : marks.length ? `Below ${fast.intensity < ridge ? "memory's" : "arithmetic's"} roof: ${first(fast)} at ${Math.round((100 * fast.tflops) / attainable(fast.intensity, chip))}\u00a0%.`
      : `To stay busy ${one} needs ${short(ridge, 3)} FLOP for each byte: naive has ${count(points[1].x)}, flash ${count(points[LOADS].x)} to ${count(points[LEAST].x)}.`);
    const least = points[LEAST]?.x, under = marks.filter((m) => view === VIEWS.kernels && m.intensity > least).map((m) => `${capital(first(m))}: ${short(gb(m.intensity), 3)} GB were counted, less than one pass over Q, K, V and O (${short(gb(least), 3)} GB), hence over ${count(least)} FLOP/byte. `);
    write(counts, under.join(""));
    write(note, (elsewhere.length ? `◆ Measured at ${[...new Set(elsewhere.map((m) => `N = ${m.n}${m.gpu === get("gpu") ? "" : ` on ${m.gpu}`}`))].join(", ")}${marks.length ? " too" : ""}: move there.` : ""));
    picture.svg.setAttribute("aria-label", `Roofline of ${chip.name}, both axes logarithmic. ${points.map((p) => `${p.label}: ${short(p.x, 3)} FLOP/byte, at most ${short(p.y, 3)} TFLOP/s`).join(". ")}. ${marks.map((m) => `${m.label}: ${short(m.tflops, 3)} TFLOP/s, measured${m.loads ? `, ${Math.round(m.intensity / m.loads)} times fewer bytes from HBM (${short(gb(m.intensity), 3)} GB) than it loads (${short(gb(m.loads), 3)} GB)` : ""}.`).join(" ")}`);
  }

  onChanges(model, [...Object.keys(LABELS), "gpu", "marks"], draw);
  draw();
}

export default { render };
