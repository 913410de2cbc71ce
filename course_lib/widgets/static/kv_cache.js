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

const GIB = 1024, ROWS = 12, MOST_EDGES = 3000;
const LENGTHS = powersOfTwo(256, 2 ** 24);

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
  const layers = [s("g"), part("kv-variants", s("g"))], [box, lines] = layers.map(scene);
  const picture = stage(model, "kv-box", drawPicture, ...layers);
  const words = h("p", { class: "fac-stage-words" }), voice = announcer();
  root(model, el, picture.node, words, h("div", { class: "fac-fields" }, fields.n.node, preset.row, gpu.row),
    more("dtype, layers, heads", h("div", { class: "fac-row" }, dtype.row), h("div", { class: "fac-fields" }, Object.keys(LABELS).slice(1).map((name) => fields[name].node))), voice.node);

  function draw() {
    for (const f of Object.values(fields)) f.follow();
    const now = settings();
    preset.node.value = names.find((name) => Object.entries(data.presets[name]).every(([k, v]) => now[k] === v)) ?? "";
    dtype.node.value = now.dtype;
    gpu.node.value = now.gpu;
    picture.draw();
    voice.say(words.textContent);
  }

  const settings = () => Object.fromEntries(NAMES.map((name) => [name, get(name)]));

  function drawPicture(width, fs) {
    const now = settings(), values = cacheValues(now, data.dtypes), own = cacheBytes(data.variants["as is"], values), brick = own / now.batch, perToken = brick / now.n;
    const weights = now.weights_m * 2e6, room = now.gpus * data.capacity[now.gpu], free = room - weights;
    const fit = requestsThatFit(data.variants["as is"], now, data), fits = `${fit} ${fit === 1 ? "request fits" : "requests fit"}`, where = `${now.gpus} × ${now.gpu}`;
    words.textContent = free < 0
      ? `The weights alone, ${bytesText(weights, GIB)}, do not fit on ${where}, ${bytesText(room, GIB)}.`
      : `${bytesText(perToken, GIB)} a token, ${bytesText(own, GIB)} for ${now.batch} × ${now.n} tokens${now.batch > fit ? ": too much" : ""}. Beside the weights ${fits} on ${where}.`;
    picture.svg.setAttribute("aria-label", `Memory as one box of ${bytesText(room, GIB)}, ${bytesText(weights, GIB)} of it weights. ${words.textContent}`);
    const top = 3 * fs, row = 1.25 * fs, tall = ROWS * row, slab = Math.min(1, weights / room) * (width - 2);
    const place = { x: 1 + slab, w: width - 2 - slab, y: top, row };
    box((add) => {
      add("head", "text", { class: "fac-t-big", x: 1, y: 1.15 * fs }, `${where}, ${bytesText(room, GIB)}: ${free < 0 ? "too small" : fits}`);
      add("slab", "rect", { class: free < 0 ? "fac-kv-over" : "fac-kv-weights", x: 1, y: top, width: slab, height: tall }, `weights, ${bytesText(weights, GIB)}`);
      if (free > 0) {
        bricks(add, place, free, brick, fit);
        ribbon(add, "asked", "fac-kv-asked", place, 0, Math.min(now.batch, fit) * brick, free);
        const top1 = Math.min(brick / free, 1) * ROWS, x = place.x + (top1 % 1 || 1) * place.w, y = top + (Math.ceil(top1) - 0.5) * row;
        const says = `one request: N = ${now.n}, ${bytesText(brick, GIB)}`, at = Math.min(place.x, width - wide(says, fs));
        add("request", "text", { class: "fac-t-name", x: at, y: top - 0.45 * fs }, says);
        if (!fit) ribbon(add, "too long", "fac-kv-over", place, 0, free, free);
        add("knob", "circle", { class: "fac-knob fac-across fac-knob-n", cx: x, cy: y, r: 0.5 * fs }, "drag: N, tokens of a request", (px, py) => {
          const line = Math.max(0, Math.min(ROWS - 1, Math.floor((py - top) / row))), share = (line + Math.max(0.0001, Math.min(1, (px - place.x) / place.w))) / ROWS;
          put(model, { n: nearest(LENGTHS, (share * free) / perToken) });
        });
      }
      add("edge", "rect", { class: "fac-kv-wall", x: 1, y: top, width: width - 2, height: tall });
      const name = `weights ${bytesText(weights, GIB)}`, inside = free >= 0 && slab > wide(name, fs);
      add("weights", "text", { class: free < 0 ? "fac-t-bad" : "fac-t-name", x: inside ? 0.6 * fs : 1, y: inside ? top + 1.4 * fs : top + tall + 1.2 * fs }, free < 0 ? `${name}, ${bytesText(-free, GIB)} too much` : name);
      const rest = free - fit * brick;
      if (free > 0) add("rest", "text", { class: "fac-t-soft", x: width - 1, y: top + tall + 1.2 * fs, "text-anchor": "end" }, now.batch > fit ? `${now.batch - fit} of ${now.batch} requests find no room` : `${bytesText(rest, GIB)} left over`);
    });
    return variants(values, now, top + tall + 2.9 * fs, width, fs);
  }

  /** The free memory is one ribbon, row under row; each brick a piece of it, upper half K, lower half V. */
  function ribbon(add, key, cls, { x, w, y, row }, from, to, free, share = [0, 1]) {
    const [a, b] = [from, to].map((bytes) => (bytes / free) * ROWS);
    for (let i = Math.floor(a); i < b; i += 1) {
      const left = Math.max(a, i) - i, right = Math.min(b, i + 1) - i;
      add(`${key} ${i}`, "rect", { class: cls, x: x + left * w, y: y + (i + share[0]) * row, width: Math.max(0, right - left) * w, height: (share[1] - share[0]) * row });
    }
  }

  function bricks(add, place, free, brick, fit) {
    ribbon(add, "k", "fac-fill-k", place, 0, fit * brick, free, [0, 0.5]);
    ribbon(add, "v", "fac-fill-v", place, 0, fit * brick, free, [0.5, 1]);
    let edges = "";
    const step = (brick / free) * ROWS;
    if (fit <= MOST_EDGES && step * place.w > 2.5) {
      for (let i = 1; i <= fit; i += 1) {
        const at = i * step, line = Math.ceil(at) - 1;
        edges += `M${(place.x + (at - line) * place.w).toFixed(1)} ${place.y + line * place.row}v${place.row}`;
      }
    }
    for (let i = 1; i < ROWS; i += 1) edges += `M${place.x} ${place.y + i * place.row}h${place.w}`;
    add("edges", "path", { class: "fac-kv-edges", d: edges });
  }

  /** What would shrink a request's cache: bars of one scale, with what then fits. */
  function variants(values, now, y, width, fs) {
    const sizes = Object.values(data.variants).map((variant) => cacheBytes(variant, { ...values, batch: 1 })), most = Math.max(...sizes);
    const left = 4.6 * fs, end = width >= 700 ? 25 * fs : 10 * fs, line = 1.75 * fs;
    lines((add) => {
      add("title", "text", { class: "fac-t-name", x: 1, y }, "One request's cache, if the model kept");
      Object.entries(data.variants).forEach(([name, variant], i) => {
        const at = y + 0.5 * fs + i * line, w = Math.max(1.5, ((width - left - end) * sizes[i]) / most), own = name === "as is";
        add(`name ${name}`, "text", { class: own ? "fac-t-name" : "", x: 1, y: at + 1.1 * fs }, name);
        add(`bar ${name}`, "rect", { class: own ? "fac-kv-bar fac-fill-flash" : "fac-kv-bar fac-fill-other", x: left, y: at + 0.15 * fs, width: w, height: 1.15 * fs }, variant.says);
        add(`says ${name}`, "text", { class: own ? "fac-t-name" : "fac-t-small", "data-variant": name, x: left + w + 0.5 * fs, y: at + 1.1 * fs }, `${bytesText(sizes[i], GIB)}, ${requestsThatFit(variant, now, data)} fit${width >= 700 ? `: ${variant.says}` : ""}`);
      });
    });
    return y + 0.9 * fs + sizes.length * line;
  }

  onChanges(model, NAMES, draw);
  draw();
}

export default { render };
