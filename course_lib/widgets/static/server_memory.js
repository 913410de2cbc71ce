// A server's memory over time, a lane for each policy. The runs are recorded; this looks them up.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** The run of a lane at a setting. */
export const runAt = (lane, { pages, every, prompt }) => lane[`${pages} ${every} ${prompt}`];

function render({ model, el }) {
  const data = model.get("data"), get = (name) => model.get(name), NAMES = ["pages", "every", "prompt"];
  const LABELS = { pages: `pool: pages of ${data.page_size} rows`, every: "a request every … ms", prompt: "longest prompt, tokens" };
  const fields = NAMES.map((name) => field(LABELS[name], data.places[name], () => get(name), (value) => {
    if (!data.places[name].includes(value)) return `One of ${data.places[name].join(", ")}, please.`;
    put(model, { [name]: value });
  }));
  const layer = s("g"), lanes = scene(layer), picture = stage(model, "server-lanes", drawPicture, layer);
  const words = h("p", { class: "fac-stage-words" }), voice = announcer();
  const marks = key(["fac-server-full", "rows that are needed"], ["fac-key-empty", "held and wasted"], ["fac-key-dots", "all rows of the pool"], ["fac-server-key", "256 rows: drag to change the pool"]);
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

  /** What a run comes to: pairs of a value and what it is. */
  const facts = (run) => data.facts.map(([name, unit, what]) => [`${run[name]}${unit}`, what]);

  /** Lanes of one clock; their height is the pool, and the bar at the left shows how much 256 rows of it are. */
  function drawPicture(width, fs) {
    const all = runs(), slowest = Math.max(...all.map(([, run]) => run.seconds)), rows = get("pages") * data.page_size, narrow = width < 700;
    const left = 4.8 * fs, across = width - left - (narrow ? 1 : 19 * fs), tall = 5.5 * fs, head = (narrow ? 3.9 : 2.8) * fs;
    const columns = width < 470 ? 1 : 2, each = head + tall + (narrow ? 1.9 + 1.2 * Math.ceil(data.facts.length / columns) : 1.65) * fs;
    const speeds = all.map(([, run]) => run.speed), gain = short(Math.max(...speeds) / Math.min(...speeds), 2); // of the fastest over the slowest
    const asked = [`${data.requests} requests, one every ${get("every")} ms`, `a pool of ${rows} rows, each a token's K and V`];
    const above = (narrow ? 4 : 2.8) * fs, bottom = above + all.length * each;
    picture.svg.setAttribute("aria-label", `The memory of a server over ${slowest} seconds, ${rows} rows, a lane for each policy. ${all.map(([name, run]) => `${name}: ${facts(run).map((fact) => fact.join(" ")).join(", ")}`).join(". ")}.`);
    lanes((add) => {
      add("title", "text", { class: columns > 1 ? "fac-t-big" : "fac-t-name", x: 1, y: 1.15 * fs }, gain === "1" ? "Same memory, same speed" : `Same memory, ${gain} times the speed`);
      lines(add, "asked", narrow ? asked : [asked.join("; ")], 1, 2.5 * fs, fs);
      all.forEach(([name, run], i) => {
        const y = above + i * each + head, what = data.policies[name];
        add(`name ${name}`, "text", { class: "fac-t-name", x: narrow ? 1 : left, y: y - head + 1.1 * fs }, name);
        lines(add, `what ${name}`, narrow ? what : [what.join("; ")], narrow ? 1 : left, y - head + 2.25 * fs, fs);
        drawLane(add, name, run, { x: left, y, across: (across * run.seconds) / slowest, full: across, tall });
        lines(add, `rows ${name}`, [String(rows), "rows"], left - 0.5 * fs, y + 0.4 * fs, fs, "end");
        const says = `all ${data.requests} answered after ${short(run.seconds, 3)} s`, end = left + (across * run.seconds) / slowest, long = wide(says, 0.87 * fs), fits = end - left > long;
        add(`end ${name}`, "path", { class: "fac-axis-strong", d: `M${end.toFixed(1)} ${y + tall}v${1.3 * fs}` });
        add(`ended ${name}`, "text", { class: "fac-t-small fac-t-name", x: fits ? end - 0.4 * fs : Math.min(end + 0.4 * fs, width - long), y: y + tall + 1.15 * fs, "text-anchor": fits ? "end" : "start" }, says);
        if (narrow) drawFacts(add, name, run, columns, 1, y + tall + 2.4 * fs, width / columns, fs);
        else drawFacts(add, name, run, 1, left + across + 1.5 * fs, y + 0.4 * fs, 0, fs);
      });
      drawScale(add, rows, { y: above + head, tall, left, fs });
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

  /** Small lines of text, one under the other. */
  const lines = (add, key, texts, x, y, fs, anchor = "start") => texts.forEach((text, i) => add(`${key} ${i}`, "text", { class: "fac-t-small", x, y: y + i * 1.1 * fs, "text-anchor": anchor }, text));

  /** The facts of a run in columns; each value ends where what it is begins. */
  function drawFacts(add, name, run, columns, x, y, apart, fs) {
    facts(run).forEach(([value, what], i) => {
      const at = x + (i % columns) * apart + 3.9 * fs, under = y + Math.floor(i / columns) * 1.2 * fs;
      add(`value ${name} ${i}`, "text", { class: `fac-server-fact ${i || columns > 1 ? "fac-t-name" : "fac-t-big"}`, x: at, y: under, "text-anchor": "end" }, value);
      add(`fact ${name} ${i}`, "text", { class: `fac-server-fact ${i ? "fac-t-small" : "fac-t-name"}`, x: at + 0.45 * fs, y: under }, what);
    });
  }

  /** What is needed is full, what is held for nothing is striped, up to the dotted line of the pool. */
  function drawLane(add, name, run, { x, y, across, full, tall }) {
    const wide = across / run.needed.length, high = (percent) => y + tall * (1 - percent / 100);
    const line = (values) => values.map((v, i) => `${i ? "V" : "L"}${i ? high(v).toFixed(1) : `${x} ${high(v).toFixed(1)}`}H${(x + (i + 1) * wide).toFixed(1)}`).join("");
    add(`held ${name}`, "path", { fill: picture.hatch, d: `M${x} ${y + tall}${line(run.held)}V${y + tall}Z` }, "held, striped: wasted");
    add(`gap ${name}`, "path", { class: "fac-server-ground", d: `M${x} ${y + tall}${line(run.needed)}V${y + tall}Z` });
    add(`needed ${name}`, "path", { class: "fac-server-full", d: `M${x} ${y + tall}${line(run.needed)}V${y + tall}Z` }, "rows that are needed");
    add(`floor ${name}`, "path", { class: "fac-axis-strong", d: `M${x} ${y + tall}h${full}` });
    add(`pool ${name}`, "path", { class: "fac-server-pool", d: `M${x} ${y}h${full}` });
  }

  /** A bar of 256 rows at the first lane: its end is dragged, and the pool is as many of them as fit. */
  function drawScale(add, rows, { y, tall, left, fs }) {
    const x = left - 0.9 * fs, bar = (tall * 256) / rows, end = y + tall - Math.min(bar, tall);
    add("scale", "path", { class: "fac-server-scale", d: `M${x - 4} ${y + tall}h8M${x} ${y + tall}V${end}` });
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
