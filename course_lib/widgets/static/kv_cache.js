// The KV cache by several variants; each is a monomial sent as data.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** The symbols of the monomials. */
export function cacheValues(s, dtypes) {
  return { layers: s.layers, heads: s.heads, kv_heads: s.kv_heads, d: s.d, tokens: s.n, window_tokens: Math.min(s.n, s.window), batch: s.batch, b: dtypes[s.dtype] };
}

export const cacheBytes = (variant, values) => termBytes(variant.term, values);

/** Requests of n tokens beside the weights, at 2 bytes a parameter. */
export function requestsThatFit(variant, s, data) {
  const free = s.gpus * data.capacity[s.gpu] - s.weights_m * 2e6;
  return Math.floor(Math.max(0, free) / cacheBytes(variant, cacheValues({ ...s, batch: 1 }, data.dtypes)));
}

/** What a variant says of itself; the model's own counts stand in braces. */
export const saysOf = (variant, s) => variant.says.replace(/{(\w+)}/g, (_, name) => s[name]);

const GIB = 1024, TALL = 15.2, SCREEN = 13.3, // of the box, in letters; and where a screen has to hold all
   MOST_EDGES = 3000, MOST_NUMBERS = 12, OWN = "this model";
const LENGTHS = powersOfTwo(256, 2 ** 24);
const STORES = { MHA: (s) => ({ kv_heads: s.heads }), MQA: () => ({ kv_heads: 1 }), int8: () => ({ dtype: "int8 / fp8" }) }; // what a press makes of this model
const GROUPS = [["K/V heads", ["MHA", OWN, "MQA"]], ["bytes a number", ["int8"]], ["other models", ["window", "MLA"]]]; // by what changes

function render({ model, el }) {
  const data = model.get("data");
  const get = (name) => model.get(name);
  const LABELS = { n: ["N, tokens of a request", 256], batch: ["requests", 1], gpus: ["GPUs", 1], layers: ["layers", 1], heads: ["H, query heads", 1], kv_heads: ["H_kv, K/V heads", 1], d: ["d, head dimension", 16], weights_m: ["parameters, millions", 64], window: ["window, keys kept", 256] };
  const NAMES = [...Object.keys(LABELS), "dtype", "gpu"];
  const fields = Object.fromEntries(Object.entries(LABELS).map(([trait, [label, least]]) => [trait, field(label, powersOfTwo(least, 2 ** Math.floor(Math.log2(data.limits[trait] / least)) * least), () => get(trait), (value) => {
    const most = data.limits[trait];
    if (!Number.isInteger(value) || value < 1 || value > most) return `A whole number from 1 to ${most}, please.`;
    if (trait === "kv_heads" && get("heads") % value) return `A number that divides the ${get("heads")} query heads, please.`;
    const group = get("heads") / get("kv_heads");
    put(model, trait === "heads" ? { heads: value, kv_heads: value % group ? value : value / group } : { [trait]: value });
  })]));
  const names = Object.keys(data.presets);
  const preset = select("Model", [["", "own settings"], ...names.map((name) => [name, name])], (name) => name && put(model, data.presets[name]));
  const dtype = select("Cache dtype", Object.keys(data.dtypes).map((name) => [name, name]), (value) => put(model, { dtype: value }));
  const gpu = select("GPU", Object.entries(data.capacity).map(([name, bytes]) => [name, `${name}, ${bytesText(bytes, GIB)}`]), (value) => put(model, { gpu: value }));
  const layers = [s("g"), s("g"), s("g")], [box, lines, other] = layers.map(scene);
  const picture = stage(model, "kv-box", drawBox, layers[0], layers[2]), others = stage(model, "kv-variants", drawVariants, layers[1]);
  let outline = () => {}; // of so many bytes in the box: what is pointed at below
  el.onpointermove = ({ target }) => layers[1].contains(target) || outline(0);
  const marks = key();
  const words = h("p", { class: "fac-stage-words" }), voice = announcer();
  root(model, el, picture.node, marks, words, others.node, h("div", { class: "fac-fields fac-kv-fields" }, fields.n.node, preset.row, gpu.row),
    more("dtype, layers, heads", h("div", { class: "fac-row" }, dtype.row), h("div", { class: "fac-fields" }, Object.keys(LABELS).slice(1).map((name) => fields[name].node))), voice.node);

  let dragged = false, rows = 8, scale = 0; // of the box: rows, and square pixels for each byte

  function draw() {
    for (const f of Object.values(fields)) f.follow();
    const now = settings();
    preset.node.value = names.find((name) => Object.entries(data.presets[name]).every(([k, v]) => now[k] === v)) ?? "";
    dtype.node.value = now.dtype;
    gpu.node.value = now.gpu;
    picture.draw();
    others.draw();
    voice.say(words.textContent);
  }

  const settings = () => Object.fromEntries(NAMES.map((name) => [name, get(name)]));

  function drawBox(width, fs) {
    const now = settings(), values = cacheValues(now, data.dtypes), own = cacheBytes(data.variants[OWN], values), brick = own / now.batch, perToken = brick / now.n;
    const weights = now.weights_m * 2e6, room = now.gpus * data.capacity[now.gpu], free = room - weights;
    const fit = requestsThatFit(data.variants[OWN], now, data), fits = `${fit} ${fit === 1 ? "request fits" : "requests fit"}`, where = `${now.gpus} × ${now.gpu}`, box_ = `${now.gpus === 1 ? "One" : now.gpus} ${now.gpu}${now.gpus === 1 ? "" : "s"} (${bytesText(room, GIB)})`, holds = now.gpus === 1 ? "holds" : "hold";
    const finding = free < 0 ? `${box_} cannot hold the weights alone` : `${box_} ${holds} ${fit ? `${fit} request${fit === 1 ? "" : "s"}` : "no request"} of ${now.n} tokens`;
    const why = fit ? `${finding}: ${bytesText(brick, GIB)} each, beside ${bytesText(weights, GIB)} of weights` : finding, title = [why, finding].find((says) => wide(says, 1.25 * fs) < width) ?? finding;
    words.textContent = free < 0
      ? `The weights alone, ${bytesText(weights, GIB)}, do not fit on ${where}, ${bytesText(room, GIB)}.`
      : `${bytesText(perToken, GIB)} a token, ${bytesText(brick, GIB)} a request of ${now.n} tokens${now.batch > 1 ? `, ${bytesText(own, GIB)} for ${now.batch} of them` : ""}${now.batch > fit ? `: ${now.batch - fit} of ${now.batch} ${now.batch === 1 ? "finds" : "find"} no room` : ""}. Beside the weights ${fits} on ${where}.`;
    words.classList.toggle("fac-hear", free >= 0 && now.batch <= fit); // then the picture says it all
    picture.svg.setAttribute("aria-label", `Memory as one box of ${bytesText(room, GIB)}, ${bytesText(weights, GIB)} of it weights. ${words.textContent}`);
    const top = 3.6 * fs, tall = (get("presenter") ? SCREEN : TALL) * fs, all = (width - 2) / Math.max(room, weights), wall = all * room, slab = all * Math.min(room, weights);
    // As many rows as leave no request in two of them; what is left over lies at their ends.
    if (!picture.svg.facHeld) rows = !fit ? 8 : fit < 5 ? fit : [8, 7, 9, 6, 10, 5].find((many) => fit % many === 0) ?? 8;
    const full = fit * brick || free, row = tall / rows, place = { x: 1 + slab, w: (wall - slab) * (full / free), y: top, row, rows };
    scale = free > 0 ? (place.w * tall) / full : 0;
    outline = (bytes) => other((add) => free > 0 && bytes && ribbon(add, "other", "fac-kv-other", place, 0, Math.min(bytes, full), full));
    outline(0);
    box((add) => {
      add("head", "text", { class: wide(title, 1.25 * fs) > width ? "fac-t-name" : "fac-t-big", x: 1, y: 1.3 * fs }, title);
      add("slab", "rect", { class: "fac-kv-weights", x: 1, y: top, width: slab, height: tall }, `weights, ${bytesText(weights, GIB)}`);
      if (free < 0) {
        add("beyond", "rect", { class: "fac-kv-over", x: 1 + wall, y: top, width: -free * all, height: tall }, `too much, ${bytesText(-free, GIB)}`);
        add("ends", "text", { class: "fac-t-name", x: Math.max(1 + wall, wide("memory ends", fs)), y: top - 0.45 * fs, "text-anchor": "end" }, "memory ends");
      }
      if (free <= 0) add("edge", "rect", { class: "fac-kv-wall", x: 1, y: top, width: wall, height: tall });
      if (free > 0) {
        bricks(add, place, full, brick, fit, fs);
        add("edge", "rect", { class: "fac-kv-wall", x: 1, y: top, width: wall, height: tall });
        ribbon(add, "asked", "fac-kv-asked", place, 0, Math.min(now.batch, fit) * brick, full);
        const top1 = Math.min(brick / full, 1) * rows, x = place.x + (top1 % 1 || 1) * place.w, y = top + (Math.ceil(top1) - 0.5) * row;
        const hint = dragged ? "" : " (drag its end)", few = `request 1: N = ${now.n}, ${bytesText(brick, GIB)}`, long = `request 1: N = ${now.n} tokens × ${bytesText(perToken, GIB)} = ${bytesText(brick, GIB)}`;
        const says = [long + hint, few + hint].find((text) => wide(text, fs) < width) ?? few, at = Math.min(place.x, width - wide(says, fs));
        add("request", "text", { class: "fac-t-name", x: at, y: top - 0.45 * fs }, says);
        if (!fit) ribbon(add, "too long", "fac-kv-over", place, 0, free, free);
        add("knob", "circle", { class: "fac-knob fac-across fac-knob-n", cx: Math.max(0.6 * fs, Math.min(width - 0.6 * fs, x)), cy: y, r: 0.6 * fs }, "drag: N, tokens of a request", (px, py) => {
          const line = Math.max(0, Math.min(rows - 1, Math.floor((py - top) / row))), share = (line + Math.max(0.0001, Math.min(1, (px - place.x) / (wall - slab)))) / rows;
          dragged = true;
          put(model, { n: nearest(LENGTHS, (share * free) / perToken) });
        });
      }
      if (slab > wide("weights", fs)) ["weights", bytesText(weights, GIB)].forEach((says, i) => slab > wide(says, fs) + 0.2 * fs && add(`weights ${i}`, "text", { class: "fac-t-name fac-kv-on", x: Math.min(0.6 * fs, (slab - wide(says, fs)) / 2), y: top + (1.4 + 1.3 * i) * fs }, says));
    });
    const rest = free - fit * brick, over = free < 0 ? -free : brick - free;
    marks.replaceChildren(...key(
      ...(slab > wide(bytesText(weights, GIB), fs) + 0.2 * fs ? [] : [["fac-kv-slab", `weights ${bytesText(weights, GIB)}`]]), // where the box has no room for it
      ...(fit ? [...(lettered((brick / full) * rows, place.w, fs) ? [] : [["fac-k-area", "K"], ["fac-v-area", "V"]]), ...((rest / free) * (wall - slab) > 0.6 * fs ? [["fac-key-free", `left over ${bytesText(rest, GIB)}`]] : [])]
        : [["fac-naive-area", `${free < 0 ? "" : "request 1: "}${bytesText(over, GIB)} too much`]]),
    ).childNodes);
    return top + tall + 2;
  }

  /** The free memory is one ribbon, row under row; each brick a piece of it, upper half K, lower half V. */
  function ribbon(add, key, cls, { x, w, y, row, rows }, from, to, free, share = [0, 1]) {
    const [a, b] = [from, to].map((bytes) => (bytes / free) * rows);
    for (let i = Math.floor(a); i < b - 1e-9; i += 1) {
      const left = Math.max(a, i) - i, right = Math.min(b, i + 1) - i;
      add(`${key} ${i}`, "rect", { class: cls, x: x + left * w, y: y + (i + share[0]) * row, width: Math.max(0, right - left) * w, height: (share[1] - share[0]) * row });
    }
  }

  function bricks(add, place, free, brick, fit, fs) {
    ribbon(add, "k", "fac-fill-k fac-kv-quiet", place, 0, fit * brick, free, [0, 0.5]);
    ribbon(add, "v", "fac-fill-v fac-kv-quiet", place, 0, fit * brick, free, [0.5, 1]);
    if (fit) ["k", "v"].forEach((name, i) => ribbon(add, `first ${name}`, `fac-kv-first-${name}`, place, 0, brick, free, [i / 2, (i + 1) / 2])); // one of them in its colours
    let edges = "";
    const step = (brick / free) * place.rows;
    if (fit <= MOST_EDGES && step * place.w > 2.5) {
      for (let i = 1; i <= fit; i += 1) {
        const at = i * step, line = Math.ceil(at - 1e-9) - 1;
        edges += `M${(place.x + (at - line) * place.w).toFixed(1)} ${place.y + line * place.row}v${place.row}`;
      }
    }
    for (let i = 1; i < place.rows; i += 1) edges += `M${place.x} ${place.y + i * place.row}h${place.w}`;
    add("edges", "path", { class: "fac-kv-edges", "stroke-width": short(Math.max(1, Math.min(4, (step * place.w) / 5)), 2), d: edges });
    numbers(add, place, step, fit, fs);
  }

  /** Whether a brick has room for the letters of its halves. */
  const lettered = (step, w, fs) => step * w >= 2.8 * fs;

  /** A few requests by number: the last of each row where all rows are alike; the first brick says which half is K. */
  function numbers(add, { x, w, y, row, rows: many }, step, fit, fs) {
    const room = wide(String(fit), 0.87 * fs) + 0.5 * fs;
    const alike = fit > many && fit % many === 0 && (fit / many) * step * w >= room, every = alike ? fit / many : [1, 2, 5, 10, 20, 50, 100, 200, 500].find((k) => k * step * w >= room && fit / k <= MOST_NUMBERS) ?? 1000;
    for (let n = every; n <= fit; n += every) {
      const from = (n - 1) * step + 1e-9, to = n * step, cut = Math.min(to, Math.floor(from) + 1), turns = to - cut > cut - from; // over the end of its row
      const [a, b] = turns ? [cut, Math.min(to, cut + 1)] : [from, cut], line = Math.floor(a);
      const middle = Math.max(room / 2, Math.min(w - room / 2, ((a + b) / 2 - line) * w));
      chip(add, `number ${n}`, String(n), x + middle, y + (line + 0.5) * row, fs, "fac-kv-number");
    }
    if (fit && lettered(step, w, fs)) ["K", "V"].forEach((name, i) => add(`letter ${name}`, "text", { class: "fac-kv-brick fac-kv-letter", x: x + 0.5 * fs, y: y + (i ? 0.75 : 0.25) * row + 0.31 * fs }, name));
  }

  /** What would shrink a request's cache: bars of how many fit in the same memory, grouped by what changes. */
  function drawVariants(width, fs) {
    const now = settings(), values = cacheValues({ ...now, batch: 1 }, data.dtypes), size = (name) => cacheBytes(data.variants[name], values), fit = (name) => requestsThatFit(data.variants[name], now, data);
    const all = GROUPS.flatMap(([group, some]) => [...some].sort((a, b) => size(b) - size(a)).map((name, i) => ({ name, group: i ? "" : group }))), most = Math.max(1, ...all.map(({ name }) => fit(name)));
    const narrow = width < 700, cell = ((get("presenter") ? SCREEN : TALL) / 8) * fs, line = cell + 0.4 * fs, high = 1.15 * fs, names_ = narrow ? 1 : 7.6 * fs, left = (narrow ? 8.6 : 19.6) * fs;
    // One request of each, as large as in the box, or by a power of two less where that has no room.
    const cap = 0.42 * width, whole = (name) => (size(name) * scale) / cell, widest = Math.max(0, ...all.filter(({ name }) => fit(name)).map(({ name }) => whole(name))), less = 2 ** Math.max(0, Math.ceil(Math.log2(widest / cap))), cells = (name) => Math.min(cap, whole(name) / less);
    const small = narrow ? 0.87 * fs : fs, sized = (name) => `× ${bytesText(size(name), GIB)}`, behind = (name) => 1.6 * fs + wide(String(fit(name)), 1.2 * fs);
    const room = Math.max(fs, Math.min(0.38 * width, ...all.map(({ name }) => ((width - left - behind(name) - wide(sized(name), small) - cells(name)) * most) / Math.max(1, fit(name)))));
    others.svg.setAttribute("aria-label", `Requests that fit by other ways to keep the cache. ${all.map(({ name }) => `${name}, ${saysOf(data.variants[name], now)}: ${fit(name)} of ${bytesText(size(name), GIB)}`).join(". ")}.`);
    let y = 3.5 * fs;
    lines((add) => {
      add("title", "text", { class: "fac-t-name", x: 1, y: 1.3 * fs }, "How many fit, stored another way (press to try)");
      add("scale", "text", { class: "fac-t-soft", x: 1, y: 2.6 * fs }, scale ? `bar: how many; cell: one request, ${less > 1 ? `at 1/${less} of the box's scale` : "as large as in the box"}` : "bar: how many");
      for (const { name, group } of all) {
        if (group) {
          if (y > 4 * fs || narrow) y += (narrow ? 1.3 : 0.7) * fs;
          if (group === "other models") { // not to be pressed: below a line, in soft ink
            y += 0.5 * fs;
            add("apart", "path", { class: "fac-kv-apart", d: `M1 ${y - (narrow ? 1.6 : 0.45) * fs}H${width - 1}` });
          }
          add(`group ${group}`, "text", { class: "fac-t-soft fac-kv-group", x: 1, y: narrow ? y - 0.35 * fs : y + line / 2 + 0.2 * fs }, group);
        }
        const own = name === OWN, many = fit(name), w = Math.max(many && 1.5, (room * many) / most), change = STORES[name]?.(now), top = y + line / 2 - 0.67 * fs;
        const what = saysOf(data.variants[name], now), grouped = own && now.kv_heads > 1 && now.kv_heads < now.heads, shown = grouped ? `${narrow ? "this" : name} (GQA)` : name, text = y + line / 2 + 0.23 * fs;
        if (change || own) add(`store ${name}`, "rect", { class: own ? "fac-kv-is" : "fac-kv-store", x: names_, y, width: width - names_ - 1, height: line - 0.2 * fs, rx: 5 }, own ? "" : `store it so: ${name}`, own ? null : () => put(model, change)).onpointermove = () => outline(own ? 0 : size(name));
        if (change || own) add(`choice ${name}`, "circle", { class: own ? "fac-kv-chosen" : "fac-kv-choice", cx: names_ + 0.95 * fs, cy: text - 0.33 * fs, r: 0.36 * fs });
        add(`name ${name}`, "text", { class: own ? "fac-t-name" : change ? "" : "fac-t-soft", x: names_ + (change || own || narrow ? 1.8 : 0.5) * fs, y: text }, shown);
        add(`bar ${name}`, "rect", { class: "fac-kv-bar fac-fill-other", x: left, y: top, width: w, height: high }, what);
        add(`fit ${name}`, "text", { class: "fac-t-name fac-kv-fit", x: left + w + 0.4 * fs, y: text }, String(many));
        const at = left + w + behind(name) - 0.8 * fs, long = cells(name), right = width - 1 - 0.4 * fs, words = `${sized(name)}, ${what}`;
        add(`says ${name}`, "text", { class: narrow ? "fac-t-small" : "", "data-variant": name, x: at, y: text }, !narrow && at + 0.93 * wide(words, fs) < right - long ? words : sized(name));
        if (scale) for (const [i, kind] of (name === "MLA" ? ["both"] : ["k", "v"]).entries()) add(`cell ${kind} ${name}`, "rect", { class: `fac-kv-cell fac-kv-cell-${kind}${many ? "" : " fac-kv-cell-cut"}`, "data-cell": name, x: right - long, y: y + 0.1 * fs + (i * cell) / 2, width: Math.max(1, long), height: kind === "both" ? cell : cell / 2 }, `one request: ${bytesText(size(name), GIB)}`);
        y += line;
      }
    });
    return y + 0.3 * fs;
  }

  onChanges(model, NAMES, draw);
  draw();
}

export default { render };
