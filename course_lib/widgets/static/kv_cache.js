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

function render({ model, el }) {
  const data = model.get("data");
  const get = (name) => model.get(name);
  const LABELS = { layers: ["layers", 1], heads: ["H, query heads", 1], kv_heads: ["H_kv, K/V heads", 1], d: ["d, head dimension", 16], weights_m: ["parameters, millions", 64], n: ["N, tokens of a request", 256], batch: ["requests", 1], window: ["window, keys kept", 256], gpus: ["GPUs", 1] };
  const NAMES = [...Object.keys(LABELS), "dtype", "gpu"];
  const fields = Object.entries(LABELS).map(([trait, [label, least]]) => field(label, powersOfTwo(least, 2 ** Math.floor(Math.log2(data.limits[trait] / least)) * least), () => get(trait), (value) => {
    const most = data.limits[trait];
    if (!Number.isInteger(value) || value < 1 || value > most) return `A whole number from 1 to ${most}, please.`;
    if (trait === "kv_heads" && get("heads") % value) return `A number that divides the ${get("heads")} query heads, please.`;
    const group = get("heads") / get("kv_heads");
    put(model, trait === "heads" ? { heads: value, kv_heads: value % group ? value : value / group } : { [trait]: value });
  }));
  const names = Object.keys(data.presets);
  const preset = select("Model", [["", "own settings"], ...names.map((name) => [name, name])], (name) => name && put(model, data.presets[name]));
  const dtype = select("Cache dtype", Object.keys(data.dtypes).map((name) => [name, name]), (value) => put(model, { dtype: value }));
  const gpu = select("GPU", Object.entries(data.capacity).map(([name, bytes]) => [name, `${name}, ${bytesText(bytes)}`]), (value) => put(model, { gpu: value }));
  const words = h("p", { class: "fac-words" });
  const table = h("div", {});
  const voice = announcer();
  root(model, el, h("div", { class: "fac-row" }, preset.row, dtype.row, gpu.row), h("div", { class: "fac-fields" }, fields.map((f) => f.node)), words, part("kv-variants", table), voice.node);

  function draw() {
    for (const f of fields) f.follow();
    const now = Object.fromEntries(NAMES.map((name) => [name, get(name)]));
    preset.node.value = names.find((name) => Object.entries(data.presets[name]).every(([k, v]) => now[k] === v)) ?? "";
    dtype.node.value = now.dtype;
    gpu.node.value = now.gpu;
    const values = cacheValues(now, data.dtypes);
    const own = cacheBytes(data.variants.GQA, values), perToken = own / now.n / now.batch;
    const weights = now.weights_m * 2e6, room = now.gpus * data.capacity[now.gpu];
    const fit = requestsThatFit(data.variants.GQA, now, data);
    words.textContent = weights > room
      ? `The weights alone, ${bytesText(weights)}, do not fit on ${now.gpus} × ${now.gpu}.`
      : `${bytesText(perToken, 1024)} a token, ${bytesText(own, 1024)} for ${now.batch} × ${now.n} tokens. Beside the weights ${fit} ${fit === 1 ? "request fits" : "requests fit"} on ${now.gpus} × ${now.gpu}.`;
    voice.say(words.textContent);
    const sizes = Object.values(data.variants).map((variant) => cacheBytes(variant, values));
    const most = Math.max(...sizes);
    table.replaceChildren(h("table", { class: "fac-variants" },
      h("thead", {}, h("tr", {}, ["", "cache", "", "fit"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, Object.entries(data.variants).map(([name, variant], i) => h("tr", {},
        h("th", { scope: "row" }, name, h("small", {}, variant.says)),
        h("td", {}, bytesText(sizes[i], 1024)),
        h("td", { style: "width:45%" }, h("div", { class: "fac-cache", "aria-hidden": "true" }, h("i", { class: name === "GQA" ? "fac-self" : null, style: `width:${(100 * sizes[i]) / most}%` }))),
        h("td", {}, requestsThatFit(variant, now, data)))))),
      h("p", { class: "fac-soft" }, "Requests that fit: memory less 2 bytes a parameter, divided by one request's cache; activations are left out."));
  }

  onChanges(model, NAMES, draw);
  draw();
}

export default { render };
