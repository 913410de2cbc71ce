// A server's memory over time, a lane for each policy. The runs are recorded; this looks them up.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** The run of a lane at a setting. */
export const runAt = (lane, { pages, every, prompt }) => lane[`${pages} ${every} ${prompt}`];

/** What a run comes to, in two parts. */
export function told(run) {
  const out = run.out ? `, ${run.out} thrown out` : "";
  return [`${run.speed} tokens a second`, `first token within ${run.wait} s, wasted ${run.wasted} %, steps up to ${run.step} ms${out}`];
}

function render({ model, el }) {
  const data = model.get("data"), get = (name) => model.get(name), NAMES = ["pages", "every", "prompt"];
  const LABELS = { pages: `pages of ${data.page_size} rows`, every: "a request every … ms", prompt: "longest prompt, tokens" };
  const fields = NAMES.map((name) => field(LABELS[name], data.places[name], () => get(name), (value) => {
    if (!data.places[name].includes(value)) return `One of ${data.places[name].join(", ")}, please.`;
    put(model, { [name]: value });
  }));
  const layer = s("g"), lanes = scene(layer), picture = stage(model, "server-lanes", drawPicture, layer);
  const words = h("p", { class: "fac-stage-words" }), voice = announcer();
  const marks = key(["fac-k-area", "rows that are needed"], ["fac-s-area", "held and wasted"], ["fac-key-dots", "all rows of the pool"]);
  root(model, el, picture.node, marks, words, h("div", { class: "fac-fields" }, fields.map((f) => f.node)), voice.node);

  const settings = () => Object.fromEntries(NAMES.map((name) => [name, get(name)]));
  const runs = () => Object.entries(data.lanes).map(([name, lane]) => [name, runAt(lane, settings())]);

  function draw() {
    for (const f of fields) f.follow();
    const speeds = runs().map(([name, run]) => `${name} ${run.speed}`);
    words.textContent = `Tokens a second: ${speeds.join(", ")}. Simulated by a cost model of an H100, not measured.`;
    picture.draw();
    voice.say(words.textContent);
  }

  /** Lanes of one clock; their height is the pool, and the bar at the left shows how much 256 rows of it are. */
  function drawPicture(width, fs) {
    const all = runs(), slowest = Math.max(...all.map(([, run]) => run.seconds)), rows = get("pages") * data.page_size;
    const left = 4.8 * fs, across = width - left - 1, tall = 5.5 * fs, head = (width < 700 ? 3.6 : 2.5) * fs, each = head + tall + 0.9 * fs;
    const bottom = all.length * each;
    picture.svg.setAttribute("aria-label", `The memory of a server over ${slowest} seconds, ${rows} rows, a lane for each policy. ${all.map(([name, run]) => `${name}: ${told(run).join("; ")}`).join(". ")}.`);
    lanes((add) => {
      all.forEach(([name, run], i) => drawLane(add, name, run, { x: left, y: i * each + head, across: (across * run.seconds) / slowest, full: across, tall, fs, narrow: width < 700 }));
      drawScale(add, rows, { y: head, tall, left, fs });
      add("time", "path", { class: "fac-axis-strong", d: `M${left} ${bottom}h${across}` });
      const every = [0.1, 0.2, 0.5, 1, 2, 5].find((step) => slowest / step <= 7) ?? 10;
      for (let t = 0; t <= slowest; t += every) {
        const x = left + (across * t) / slowest, last = t + every > slowest;
        add(`tick ${t.toFixed(1)}`, "path", { class: "fac-axis-strong", d: `M${x.toFixed(1)} ${bottom}v5` });
        add(`time ${t.toFixed(1)}`, "text", { class: "fac-t-small", x: Math.min(x, width - (last ? 2.2 : 0) * fs), y: bottom + 1.4 * fs, "text-anchor": "middle" }, `${short(t, 2)}${last ? " s" : ""}`);
      }
    });
    return bottom + 1.9 * fs;
  }

  /** What is needed is full, what is held for nothing is striped, up to the dotted line of the pool. */
  function drawLane(add, name, run, { x, y, across, full, tall, fs, narrow }) {
    const wide = across / run.needed.length, high = (percent) => y + tall * (1 - percent / 100);
    const line = (values) => values.map((v, i) => `${i ? "V" : "L"}${i ? high(v).toFixed(1) : `${x} ${high(v).toFixed(1)}`}H${(x + (i + 1) * wide).toFixed(1)}`).join("");
    const [speed, rest] = told(run), cut = rest.indexOf("steps"), lines = narrow ? [rest.slice(0, cut - 2), rest.slice(cut)] : [rest];
    add(`name ${name}`, "text", { class: "fac-t-name", x, y: y - (narrow ? 2.5 : 1.45) * fs }, `${name}: ${speed}`);
    lines.forEach((text, i) => add(`says ${name} ${i}`, "text", { class: "fac-t-small", x, y: y - (lines.length - i - 0.6) * 1.05 * fs }, text));
    add(`held ${name}`, "path", { fill: picture.hatch, d: `M${x} ${y + tall}${line(run.held)}V${y + tall}Z` }, "held, striped: wasted");
    add(`gap ${name}`, "path", { class: "fac-server-ground", d: `M${x} ${y + tall}${line(run.needed)}V${y + tall}Z` });
    add(`needed ${name}`, "path", { class: "fac-fill-k", d: `M${x} ${y + tall}${line(run.needed)}V${y + tall}Z` }, "rows that are needed");
    add(`floor ${name}`, "path", { class: "fac-axis-strong", d: `M${x} ${y + tall}h${full}` });
    add(`pool ${name}`, "path", { class: "fac-server-pool", d: `M${x} ${y}h${full}` });
  }

  /** A bar of 256 rows at the first lane: its end is dragged, and the pool is as many of them as fit. */
  function drawScale(add, rows, { y, tall, left, fs }) {
    const x = left - 0.9 * fs, bar = (tall * 256) / rows, end = y + tall - Math.min(bar, tall);
    add("scale", "path", { class: "fac-server-scale", d: `M${x} ${y + tall}V${end}` });
    add("scale says", "text", { class: "fac-t-small", x: x - 0.8 * fs, y: y + tall - 1.2 * fs, "text-anchor": "end" }, "256");
    add("scale rows", "text", { class: "fac-t-small", x: x - 0.8 * fs, y: y + tall - 0.1 * fs, "text-anchor": "end" }, "rows");
    add("knob", "circle", { class: "fac-knob fac-down", cx: x, cy: end, r: 0.45 * fs }, "drag: pages of the pool", (px, py) => {
      const now = (tall * 256) / Math.max(1, y + tall - py) / data.page_size;
      put(model, { pages: nearest(data.places.pages, now) });
    });
  }

  onChanges(model, NAMES, draw);
  draw();
}

export default { render };
