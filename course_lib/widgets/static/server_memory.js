// A server's memory over time, a lane for each policy. The runs are recorded; this looks them up.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** The run of a lane at a setting. */
export const runAt = (lane, { pages, every, prompt }) => lane[`${pages} ${every} ${prompt}`];

function render({ model, el }) {
  const data = model.get("data"), get = (name) => model.get(name), NAMES = ["pages", "every", "prompt"];
  const LABELS = { pages: "rows of the pool", every: "ms between requests", prompt: "longest prompt, tokens" };
  const fields = NAMES.map((name) => {
    const size = name === "pages" ? data.page_size : 1, places = data.places[name].map((place) => place * size); // a pool is told in rows, as in the picture
    return field(LABELS[name], places, () => get(name) * size, (value) => {
      if (!places.includes(value)) return `One of ${places.join(", ")}, please.`;
      put(model, { [name]: value / size });
    });
  });
  const layer = s("g"), lanes = scene(layer), picture = stage(model, "server-lanes", drawPicture, layer);
  const voice = announcer(), rest = h("table", { class: "fac-server-rest" });
  const marks = key(["fac-server-full", "rows that are needed"], ["fac-key-waste", "held, but empty"], ["fac-server-queue", "requests that wait"]);
  marks.append(h("span", { class: "fac-soft" }, "Simulated by a cost model of an H100, not measured."));
  const fold = more("waits, steps, who is thrown out", h("div", { class: "fac-server-scroll" }, rest), h("p", { class: "fac-soft" }, "Thrown out: the pool was full, so the youngest request gave its pages back and starts again later."));
  const tell = unfolded(fold, drawRest);
  let heldAt = null; // pages and pointer where the drag of the pool began
  root(model, el, picture.node, marks, h("div", { class: "fac-fields" }, fields.map((f) => f.node)), fold, voice.node);

  const SHOWN = [0, 2]; // of the facts: tokens a second, and what is wasted
  const settings = () => Object.fromEntries(NAMES.map((name) => [name, get(name)]));
  const runs = () => Object.entries(data.lanes).map(([name, lane]) => [name, runAt(lane, settings())]);

  function draw() {
    for (const f of fields) f.follow();
    const speeds = runs().map(([name, run]) => `${name} ${run.speed}`);
    picture.draw();
    tell();
    voice.say(`Tokens a second: ${speeds.join(", ")}.`);
  }

  /** What is not in the picture: the other facts, a row a policy. */
  function drawRest() {
    const others = data.facts.filter((_, i) => !SHOWN.includes(i)), told = (run) => facts(run).filter((_, i) => !SHOWN.includes(i));
    rest.replaceChildren(h("tr", {}, h("th", {}), others.map(([, , what]) => h("th", { scope: "col" }, what))),
      ...runs().map(([name, run]) => h("tr", {}, h("th", { scope: "row" }, name), told(run).map(([value]) => h("td", {}, value)))));
  }

  /** What a run comes to: pairs of a value and what it is. */
  const facts = (run) => data.facts.map(([name, unit, what]) => [`${run[name]}${unit}`, what]);

  /** Lanes of one clock; their height is the pool, whose line is dragged. */
  function drawPicture(width, fs) {
    const all = runs(), slowest = Math.max(...all.map(([, run]) => run.seconds)), rows = get("pages") * data.page_size, narrow = width < 700, tight = width < 440;
    const left = 1, across = width - left - (narrow ? 0.6 * fs : 18.5 * fs), room = get("presenter"), tall = (room ? 2.6 : 4.4) * fs, queue = (room ? 1.2 : 1.6) * fs, trace = 1.3 * fs, most = Math.max(1, ...all.flatMap(([, run]) => run.waiting)), head = (narrow ? 3.9 : 2.8) * fs;
    const each = head + tall + queue + trace + (tight ? 5.7 : narrow ? 3.9 : room ? 1.4 : 1.9) * fs;
    const speeds = all.map(([, run]) => run.speed), gain = short(Math.max(...speeds) / Math.min(...speeds), 2); // of the fastest over the slowest
    const asked = [`${data.requests} requests${tight ? "" : ` of up to ${get("prompt")} + ${data.answer} tokens`}, one every ${get("every")} ms`, `a pool of ${rows} rows, each a token's K and V`];
    const [[first, fast], [last, slow]] = [Math.max, Math.min].map((most) => all.find(([, run]) => run.speed === most(...speeds)));
    const [waste, unit] = data.facts[SHOWN[1]], reason = `with ${fast[waste]}${unit} of the held rows empty, not ${slow[waste]}${unit}`;
    const whole = `${first[0].toUpperCase()}${first.slice(1)}: ${gain} × ${last}'s speed`, title = wide(whole, fs) < width ? whole : `Same memory, ${gain} × the speed`, large = !tight && wide(title, 1.4 * fs) < width, one = wide(`${title}, ${reason}`, 1.25 * fs) < width; // with its reason in one line or in two
    const under = one ? 0 : 1.35 * fs, above = (narrow ? 4.2 : 3) * fs + under, bottom = above + all.length * each + 1.1 * fs;
    picture.svg.setAttribute("aria-label", `The memory of a server over ${slowest} seconds, ${rows} rows, a lane for each policy. ${all.map(([name, run]) => `${name}: ${facts(run).map((fact) => fact.join(" ")).join(", ")}`).join(". ")}.`);
    lanes((add) => {
      add("title", "text", { class: large ? "fac-t-big" : "fac-t-name", x: 1, y: 1.15 * fs }, gain === "1" ? "Same memory, same speed" : one ? `${title}, ${reason}` : title);
      if (!one) add("reason", "text", { class: tight ? "fac-t-small" : "fac-t-name", x: 1, y: 2.5 * fs }, gain === "1" ? "" : reason);
      lines(add, "asked", asked, 1, 2.5 * fs + under, fs, narrow);
      all.forEach(([name, run], i) => {
        const y = above + i * each + head, what = data.policies[name].map((text) => text.replace("{most}", get("prompt") + data.answer));
        add(`name ${name}`, "text", { class: "fac-t-name", x: 1, y: y - head + 1.1 * fs }, name);
        lines(add, `what ${name}`, what, 1, y - head + 2.25 * fs, fs, narrow);
        drawQueue(add, name, run, most, { x: left, came: left + (across * run.last[0]) / slowest, y: y + tall, across: (across * run.seconds) / slowest, queue, fs });
        drawLane(add, name, run, { x: left, y, across: (across * run.seconds) / slowest, full: across, tall });
        const says = `${width < 360 ? "done" : `all ${data.requests} answered`} after ${short(run.seconds, 3)} s`, end = left + (across * run.seconds) / slowest, long = wide(says, 0.87 * fs), fits = end - left > long + fs;
        add(`end ${name}`, "path", { class: "fac-axis-strong", d: `M${end.toFixed(1)} ${y + tall}v${queue + trace + 1.1 * fs}` });
        add(`ended ${name}`, "text", { class: "fac-t-small fac-t-name", x: fits ? end - 0.4 * fs : end + 0.4 * fs, y: y + tall + queue + trace + 0.95 * fs, "text-anchor": fits ? "end" : "start" }, says);
        drawLast(add, name, run, { left, second: across / slowest, y: y + tall + queue + 0.65 * trace, right: left + across, fs, tight });
        if (narrow) drawFacts(add, name, run, 1, y + tall + queue + trace + 2.7 * fs, !tight, fs);
        else drawFacts(add, name, run, left + across + 1.6 * fs, y + 1.6 * fs, false, fs);
      });
      const came = all[0][1].last[0], at = left + (across * came) / slowest, said = `last request comes, ${short(came, 3)} s`, before = at + wide(said, 0.87 * fs) > width;
      add("came", "path", { class: "fac-server-came", d: all.map((_, i) => `M${at.toFixed(1)} ${above + i * each + head}v${tall + queue + trace}`).join("") + `M${at.toFixed(1)} ${bottom - 1.3 * fs}V${bottom}` });
      add("came says", "text", { class: "fac-t-small fac-t-name", x: at + (before ? -0.4 : 0.4) * fs, y: bottom - 0.45 * fs, "text-anchor": before ? "end" : "start" }, said);
      const coach = firstCoach(add, all[0], { left, across, slowest, tall, rows, fs, top: above + head });
      nameAreas(add, all[0][1], coach, { left, across, slowest, tall, fs, top: above + head });
      drawPool(add, rows, { x: left + across, y: above + head, fs, says: tight ? "" : `${narrow ? "" : "pool: "}${rows} rows, drag` });
      add("time", "path", { class: "fac-axis-strong", d: `M${left} ${bottom}h${across}` });
      const every = [0.1, 0.2, 0.5, 1, 2, 5].find((step) => slowest / step <= 7) ?? 10;
      for (let t = 0; t <= slowest; t += every) {
        const x = left + (across * t) / slowest, last = t + every > slowest;
        add(`tick ${t.toFixed(1)}`, "path", { class: "fac-axis-strong", d: `M${x.toFixed(1)} ${bottom}v5` });
        add(`time ${t.toFixed(1)}`, "text", { class: "fac-t-small", x: Math.min(x, width - (last ? 2.2 : 0) * fs), y: bottom + 1.4 * fs, "text-anchor": t ? "middle" : "start" }, `${short(t, 2)}${last ? " s" : ""}`);
      }
    });
    return bottom + 1.9 * fs;
  }

  /** Small lines of text, one under the other. */
  const lines = (add, key, texts, x, y, fs, narrow) => (narrow ? texts.map((text, i) => text + (i < texts.length - 1 ? ";" : "")) : [texts.join("; ")]).forEach((text, i) => add(`${key} ${i}`, "text", { class: "fac-t-soft", x, y: y + i * 1.15 * fs }, text));

  /** How fast, and how much is wasted: one under the other, or side by side. */
  function drawFacts(add, name, run, x, y, beside, fs) {
    SHOWN.map((place) => facts(run)[place]).forEach(([value, what], i) => {
      const least = beside ? 0 : 4.4 * fs, at = x + (beside ? i * 15.5 : 0) * fs, under = y + (beside ? 0 : 2 * i) * fs, room = (0.6 + (i ? 0.85 : 1.05) * value.length) * fs;
      add(`value ${name} ${i}`, "text", { class: `fac-server-fact ${i ? "fac-t-big" : "fac-server-speed"}`, x: at + least, y: under, "text-anchor": least ? "end" : "start" }, value); // one under the other: by their last digit
      add(`fact ${name} ${i}`, "text", { class: `fac-server-fact ${i ? "fac-t-small" : "fac-t-name"}`, x: at + (beside ? room : 5.2 * fs), y: under }, what);
    });
  }

  /** Stripes of one slant through columns of any height, each 10 px apart on the page. */
  const stripes = (x, floor, wide, high) => {
    let path = "";
    for (let c = Math.ceil((x + floor - high) / 10) * 10; c < x + wide + floor; c += 10) {
      const [left, right] = [Math.max(x, c - floor), Math.min(x + wide, c - floor + high)];
      if (right > left) path += `M${left.toFixed(1)} ${(c - left).toFixed(1)}L${right.toFixed(1)} ${(c - right).toFixed(1)}`;
    }
    return path;
  };

  /** What is needed is full, what is held for nothing is striped, up to the dotted line of the pool. */
  function drawLane(add, name, run, { x, y, across, full, tall }) {
    const wide = across / run.needed.length, high = (percent) => y + tall * (1 - percent / 100);
    const line = (values) => values.map((v, i) => `${i ? "V" : "L"}${i ? high(v).toFixed(1) : `${x} ${high(v).toFixed(1)}`}H${(x + (i + 1) * wide).toFixed(1)}`).join("");
    add(`held ${name}`, "path", { class: "fac-server-held", d: `M${x} ${y + tall}${line(run.held)}V${y + tall}Z` }, "rows that are held, but empty");
    add(`stripes ${name}`, "path", { class: "fac-waste-stripes", d: run.held.map((v, i) => (v > 0 ? stripes(x + i * wide, y + tall, wide, (tall * v) / 100) : "")).join("") });
    add(`gap ${name}`, "path", { class: "fac-server-ground", d: `M${x} ${y + tall}${line(run.needed)}V${y + tall}Z` });
    add(`needed ${name}`, "path", { class: "fac-server-full", d: `M${x} ${y + tall}${line(run.needed)}V${y + tall}Z` }, "rows that are needed");
    add(`floor ${name}`, "path", { class: "fac-axis-strong", d: `M${x} ${y + tall}h${full}` });
    add(`pool ${name}`, "path", { class: "fac-server-pool", d: `M${x} ${y}h${full}` });
  }

  /** Who waits, below the lane: it hangs from the floor, to one scale in all lanes. */
  function drawQueue(add, name, run, most, { x, came, y, across, queue, fs }) {
    const wide_ = across / run.waiting.length, long = Math.max(...run.waiting), peak = run.waiting.indexOf(long), low = (many) => (y + (0.95 * queue * many) / most).toFixed(1);
    add(`queue ${name}`, "path", { class: "fac-server-queue", d: `M${x} ${y}${run.waiting.map((many, i) => `V${low(many)}H${(x + (i + 1) * wide_).toFixed(1)}`).join("")}V${y}Z` }, "requests that wait");
    const says = `${long} wait`, half = wide(says, 0.87 * fs) / 2 + 0.4 * fs, at = Math.max(x + half, x + (peak + 0.5) * wide_);
    if (long) add(`queued ${name}`, "text", { class: "fac-t-small", x: Math.abs(at - came) < half ? came + half : at, y: y + Math.min(0.62, (0.95 * long) / most + 0.62) * queue + 0.2 * fs, "text-anchor": "middle" }, says);
  }

  /** The last request to come, traced: it waits, then it is answered. */
  function drawLast(add, name, run, { left, second, y, right, fs, tight }) {
    const [came, first, ended] = run.last.map((t) => left + t * second), [, waited, answered] = run.last.map((t, i) => t - run.last[Math.max(0, i - 1)]);
    add(`waits ${name}`, "path", { class: "fac-server-waits", d: `M${came} ${y}H${first}` });
    add(`runs ${name}`, "path", { class: "fac-server-runs", d: `M${first} ${y}H${Math.max(ended, first + 2)}` }, `answered in ${short(answered, 2)} s`);
    add(`comes ${name}`, "circle", { class: "fac-server-dot", cx: came, cy: y, r: 3.5 });
    const says = `${tight ? "waits" : "the last one waits"} ${short(waited, 2)} s`, long = wide(says, 0.87 * fs), within = first - came > long + fs;
    if (within) add(`break ${name}`, "rect", { class: "fac-server-ground", x: (came + first - 0.95 * long) / 2, y: y - 0.5 * fs, width: 0.95 * long, height: fs });
    add(`last ${name}`, "text", { class: "fac-t-small fac-t-name", x: within ? (came + first) / 2 : Math.min(ended + 0.5 * fs, right - long), y: y + 0.3 * fs, "text-anchor": within ? "middle" : "start" }, says);
  }

  /** Where the first step began with few: held rows are few for a while, though nobody may get on. Returns from where to where it is said. */
  function firstCoach(add, [name, run], { left, across, slowest, tall, rows, fs, top }) {
    const bins = run.held.findIndex((held) => held > run.held[0]), at = left + (bins * across * run.seconds) / slowest / run.held.length;
    if (name !== "static batching" || bins < 2 || run.held[0] > 60) return [Infinity, -Infinity];
    const rows_ = Math.round((run.held[0] * rows) / 100), texts = [`← the first coach left with ${run.aboard} aboard: ${rows_} rows`, `← left with ${run.aboard} aboard`];
    const says = texts.find((text) => wide(text, 0.87 * fs) < 0.4 * across) ?? texts[1], long = wide(says, 0.87 * fs) + 0.5 * fs;
    chip(add, "coach", says, at + long / 2 + 0.3 * fs, top + ((100 - run.held[bins]) / 100) * tall + 0.75 * fs, fs);
    return [at, at + long + 0.6 * fs];
  }

  /** What the two areas of the first lane are: what is empty, on itself; what is needed, right above it. */
  function nameAreas(add, run, [from_, to_], { left, across, slowest, tall, fs, top }) {
    const count = run.held.length, each = (across * run.seconds) / slowest / count;
    let taken = [Math.floor((from_ - left) / each), Math.ceil((to_ - left) / each)];
    ["held, but empty", "↓ rows that are needed"].forEach((text, needed) => {
      const bins = Math.ceil((wide(text, 0.87 * fs) + 1.2 * fs) / each);
      let best = { high: 0 };
      for (let from = 0; from + bins <= count; from += 1) {
        const low = Math.max(...run.needed.slice(from, from + bins)), high = Math.min(...run.held.slice(from, from + bins));
        if ((from >= taken[1] || from + bins <= taken[0]) && high - low > best.high + 1) best = { high: high - low, from, x: left + (from + bins / 2) * each, y: top + tall * (1 - (needed ? low : (low + high) / 2) / 100) - (needed ? 0.7 * fs : 0) };
      }
      const named = (best.high * tall) / 100 > 1.3 * fs;
      [...marks.children].find((mark) => text.endsWith(mark.textContent)).hidden = named; // once is enough
      if (!named) return;
      taken = [best.from, best.from + bins];
      chip(add, `area ${text}`, text, best.x, best.y, fs);
    });
  }

  /** The handle of the pool, on its line: a step up is a pool twice as large. While it is held it follows the hand. */
  function drawPool(add, rows, { x, y, fs, says }) {
    const step = 1.5 * fs, moved = heldAt && picture.svg.facHeld ? step * Math.log2(get("pages") / heldAt.pages) : 0;
    if (!picture.svg.facHeld) heldAt = null;
    add("pool says", "text", { class: "fac-t-small fac-t-name", x: x - 0.9 * fs, y: y - 0.55 * fs, "text-anchor": "end" }, says);
    add("knob", "circle", { class: "fac-knob fac-down", cx: x - 0.2 * fs, cy: y - moved, r: 0.52 * fs }, "drag: pages of the pool", (px, py) => {
      heldAt ??= { pages: get("pages"), y: py };
      put(model, { pages: nearest(data.places.pages, heldAt.pages * 2 ** ((heldAt.y - py) / step)) });
    });
  }

  onChanges(model, NAMES, draw);
  draw();
}

export default { render };
