// What one tile needs on the chip; the buffers are monomials sent as data.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** Bytes of each buffer. */
export function bufferBytes(terms, values) {
  return Object.fromEntries(Object.entries(terms).map(([name, term]) => [name, termBytes(term, values)]));
}

const sum = (bytes) => Object.values(bytes).reduce((a, b) => a + b, 0);

/** The largest B with B x B tiles in `limit` bytes. */
export function largestTile(terms, values, limit) {
  let low = 0, high = 2 ** 20;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (sum(bufferBytes(terms, { ...values, block_q: middle, block_k: middle })) <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

function render({ model, el }) {
  const data = model.get("data");
  const get = (name) => model.get(name);
  const COUNTS = { block_q: ["B_q, query rows", 16, 256], block_k: ["B_k, key rows", 16, 256], d: ["d, head dimension", 16, 512], stages: ["stages, K/V tiles in flight", 1, 8], warps: ["warps of a program", 1, 16], n: ["N, for the re-reads", 256, 2 ** 18] };
  const fields = Object.fromEntries(Object.entries(COUNTS).map(([trait, [label, least]]) => [trait, countField(model, trait, label, least, data.limits[trait])]));
  const layout = select("Layout", [["paper", "the paper's: all in shared memory"], ["kernel", "a real kernel's: S and O in registers"]], (value) => put(model, { buffers: value }));
  const dtype = select("dtype", Object.keys(data.dtypes).map((name) => [name, name]), (value) => put(model, { dtype: value }));
  const words = h("p", {});
  const chips = h("div", {});
  const table = h("div", {});
  const voice = announcer();
  root(model, el, h("div", { class: "fac-row" }, part("sram-layout", layout.row), dtype.row), h("div", { class: "fac-fields" }, Object.values(fields).map((f) => f.node)),
    words, h("div", { class: "fac-halves" }, part("sram-gpus", chips), part("sram-buffers", table)), voice.node);

  function draw() {
    for (const f of Object.values(fields)) f.follow();
    layout.node.value = get("buffers");
    dtype.node.value = get("dtype");
    const real = get("buffers") === "kernel";
    fields.stages.node.hidden = fields.warps.node.hidden = !real;
    const values = { block_q: get("block_q"), block_k: get("block_k"), d: get("d"), stages: get("stages"), b: data.dtypes[get("dtype")] };
    const { shared: terms, registers: registerTerms } = data.layouts[get("buffers")];
    const shared = bufferBytes(terms, values), registers = bufferBytes(registerTerms, values);
    const total = sum(shared);
    const fits = Object.entries(data.gpus).filter(([, limit]) => total <= limit).map(([name]) => name);
    const tiles = Math.ceil(get("n") / get("block_q"));
    words.textContent = `This tile takes ${bytesText(total, 1024)} of shared memory: it fits on ${fits.length ? fits.join(", ") : "none of these GPUs"}. At N = ${get("n")} K and V are read ${tiles} ${tiles === 1 ? "time" : "times"}.`;
    voice.say(words.textContent);

    chips.replaceChildren(...Object.entries(data.gpus).map(([name, limit]) => {
      const best = largestTile(terms, values, limit);
      const parts = Object.values(shared).map((bytes, i) => h("i", { class: `fac-b${i}`, style: `width:${(100 * bytes) / Math.max(limit, total)}%` }));
      const verdict = total <= limit ? `✓ fits, ${bytesText(limit - total, 1024)} left` : `✗ ${bytesText(total - limit, 1024)} too much`;
      const implied = best ? `largest square tile B = ${best}: K and V read ${Math.ceil(get("n") / best)} times` : "not even one row fits";
      const compiled = get("compiled").filter((c) => c.gpu === name).map((c) => h("small", {}, `◆ ${c.label}: ${bytesText(c.shared, 1024)} shared${c.registers == null ? "" : `, ${c.registers} registers a thread`}${c.spills ? `, ${c.spills} B spilled` : ""}`));
      return h("div", { class: "fac-chip" }, h("div", { class: "fac-chip-head" }, h("b", {}, `${name}, ${bytesText(limit, 1024)} `), h("span", {}, verdict)),
        h("div", { class: `fac-room ${total <= limit ? "" : "fac-full"}`, "aria-hidden": "true" }, parts), h("small", {}, implied), compiled);
    }));
    const perThread = sum(registers) / 4 / (32 * get("warps"));
    const row = (name, bytes, where, i, terms) => h("tr", {}, h("th", { scope: "row" }, i == null ? null : h("span", { class: `fac-swatch fac-b${i}` }), name), h("td", {}, bytesText(bytes, 1024)), h("td", {}, where), h("td", {}, termText(terms[name])));
    table.replaceChildren(
      h("table", {}, h("thead", {}, h("tr", {}, ["buffer", "size", "where", "bytes"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, Object.entries(shared).map(([name, bytes], i) => row(name, bytes, "shared", i, terms)), Object.entries(registers).map(([name, bytes]) => row(name, bytes, "registers", null, registerTerms)))),
      real ? h("p", {}, `${short(perThread, 3)} registers a thread for these buffers alone, of ${data.registers_per_thread}${perThread > data.registers_per_thread ? ": the rest spills to slow memory." : "."}`) : "",
      h("p", { class: "fac-soft" }, get("compiled").length ? "◆ The compiler's own figure: trust it over the formula." : "A formula shows what grows with what; the compiler's own figure can be put beside it."),
    );
  }

  onChanges(model, [...Object.keys(COUNTS), "buffers", "dtype", "compiled"], draw);
  draw();
}

export default { render };
