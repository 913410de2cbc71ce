// The grid of score tiles, and who computes which, when.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** skip, full or partial: mirrors `classify` of course_lib/attention/masks.py. */
export function classify(s, i, j) {
  if (s.mask === "everything") return "full";
  const shift = s.n_k - s.n_q;
  const qMin = i * s.block_q + shift, qMax = Math.min((i + 1) * s.block_q, s.n_q) - 1 + shift;
  const kMin = j * s.block_k, kMax = Math.min((j + 1) * s.block_k, s.n_k) - 1;
  const reach = s.mask === "window" ? s.window : Infinity;
  const nearest = qMin - kMax, farthest = qMax - kMin; // steps back from query to key
  if (farthest < 0 || nearest >= reach) return "skip";
  return nearest >= 0 && farthest < reach ? "full" : "partial";
}

/** What runs in each step: [phase, program, head, i, j] of every program at work. */
export function steps(s) {
  const done = [];
  for (const kernel of kernels(s)) {
    let waiting = kernel.filter((program) => program.length).map((program) => [...program]);
    let active = [];
    while (waiting.length || active.length) {
      const free = s.at_once - active.length;
      active = [...active, ...waiting.slice(0, free)];
      waiting = waiting.slice(free);
      done.push(active.map((program) => program.shift()));
      active = active.filter((program) => program.length);
    }
  }
  return done;
}

function kernels(s) {
  const tQ = Math.ceil(s.n_q / s.block_q), tK = Math.ceil(s.n_k / s.block_k);
  const columns = Array.from({ length: tK }, (_, j) => j);
  const rows = [];
  for (let head = 0; head < s.heads; head += 1) for (let i = 0; i < tQ; i += 1) rows.push([head, i]);
  if (s.schedule === "naive") {
    const pass = (phase) => rows.map(([head, i], p) => columns.map((j) => [phase, p, head, i, j]));
    const scores = rows.flatMap(([head, i]) => columns.map((j) => [head, i, j]));
    return [scores.map((tile, p) => [["scores", p, ...tile]]), pass("softmax"), pass("values")];
  }
  const phase = s.schedule === "split_k" ? "split" : "flash";
  const parts = s.schedule === "split_k" ? s.splits : 1;
  const share = Math.ceil(tK / parts);
  const programs = rows.flatMap(([head, i]) => Array.from({ length: parts }, (_, part) => [head, i, columns.slice(part * share, (part + 1) * share)]));
  return [programs.map(([head, i, part], p) => part.filter((j) => classify(s, i, j) !== "skip").map((j) => [phase, p, head, i, j]))];
}

/** Rows of d elements asked for, and scores to and from HBM, in the first `step` steps. */
export function loads(s, step) {
  const all = steps(s);
  const total = { q: 0, k: 0, v: 0, o: 0, scores: 0, partial: 0, pairs: 0 };
  const started = new Set();
  const left = new Map(); // tiles that a program still has before it
  for (const [phase, program] of all.flat()) left.set(`${phase} ${program}`, (left.get(`${phase} ${program}`) ?? 0) + 1);
  for (const [phase, program, , i, j] of all.slice(0, step).flat()) {
    const rows = Math.min((i + 1) * s.block_q, s.n_q) - i * s.block_q;
    const keys = Math.min((j + 1) * s.block_k, s.n_k) - j * s.block_k;
    const name = `${phase} ${program}`;
    const first = started.has(name) ? 0 : 1;
    started.add(name);
    left.set(name, left.get(name) - 1);
    const last = left.get(name) ? 0 : 1;
    if (phase !== "softmax" && phase !== "values") {
      total.q += rows * first;
      total.k += keys;
      total.pairs += rows * keys;
    }
    if (phase === "values" || phase === "flash" || phase === "split") total.v += keys;
    total.scores += ({ scores: 1, softmax: 2, values: 1 }[phase] ?? 0) * rows * keys;
    if (phase === "values" || phase === "flash") total.o += rows * last;
    if (phase === "split") total.partial += 2 * rows * last;
  }
  if (s.schedule === "split_k" && step >= all.length) total.o = s.heads * s.n_q;
  return total;
}

const COUNTS = ["n_q", "n_k", "block_q", "block_k", "window", "heads", "kv_heads", "splits", "at_once"];
const PHASES = {
  scores: "kernel 1, S = Q Kᵀ", softmax: "kernel 2, P = softmax(S)", values: "kernel 3, O = P V",
  flash: "the one kernel", split: "split-K",
};

function render({ model, el }) {
  const limits = model.get("limits");
  const settings = () => Object.fromEntries([...COUNTS, "mask", "schedule"].map((name) => [name, model.get(name)]));
  let known = { key: "", all: [] };
  function all() {
    const key = JSON.stringify(settings());
    if (known.key !== key) known = { key, all: steps(settings()) };
    return known.all;
  }

  const count = (trait, label) => {
    const most = limits[trait];
    return field(label, powersOfTwo(1, Math.min(64, most)), () => model.get(trait), (value) => {
      if (!Number.isInteger(value) || value < 1 || value > most) return `A whole number from 1 to ${most}, please.`;
      const then = { ...settings(), [trait]: value };
      const tiles = Math.ceil(then.n_q / then.block_q) * Math.ceil(then.n_k / then.block_k) * then.heads;
      if (tiles > limits.tiles) return `That makes ${tiles} tiles; at most ${limits.tiles}, please.`;
      if (then.heads % then.kv_heads) {
        if (trait === "kv_heads") return `A number that divides the ${then.heads} query heads, please.`;
        return put(model, { heads: value, kv_heads: value, step: 0 });
      }
      put(model, { [trait]: value, step: 0 });
    });
  };
  const fields = {
    n_q: count("n_q", "N_q, query rows"), n_k: count("n_k", "N_k, key rows"), block_q: count("block_q", "B_q"), block_k: count("block_k", "B_k"),
    heads: count("heads", "query heads"), kv_heads: count("kv_heads", "K/V heads"), at_once: count("at_once", "programs at once"),
    window: count("window", "window, keys kept"), splits: count("splits", "splits of the keys"),
  };
  const change = (trait) => (value) => put(model, { [trait]: value, step: 0 });
  const schedule = select("Schedule", [["flash", "flash"], ["naive", "naive, three kernels"], ["split_k", "split-K decoding"]], change("schedule"));
  const mask = select("Mask", [["everything", "none"], ["causal", "causal"], ["window", "sliding window"]], change("mask"));
  const bar = player(model, el, { last: () => all().length, move: (direction) => model.get("step") + direction });
  const heads = h("div", { class: "fac-heads" });
  const words = h("p", {});
  const table = h("div", {});
  const voice = announcer();
  const mark = (cls, text, half) => h("span", {}, s("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" },
    s("rect", { class: `fac-cell ${cls}`, x: 2, y: 2, width: 16, height: 16 }), half ? s("path", { class: "fac-half", d: "M10 2h8v8z" }) : null), text);

  root(model, el,
    h("div", { class: "fac-row" }, part("schedule-kind", schedule.row), part("schedule-mask", mask.row)),
    h("div", { class: "fac-fields" }, Object.values(fields).map((f) => f.node)),
    part("schedule-steps", bar.node), words,
    h("div", { class: "fac-halves" }, h("div", {}, part("schedule-grid", heads),
      h("div", { class: "fac-marks" }, mark("fac-now", "now"), mark("fac-done", "done"), mark("", "to come"), mark("", "partial: needs the mask", true), mark("fac-skip", "skip: never touched"))), part("schedule-loads", table)),
    voice.node);

  function draw() {
    const now = settings();
    for (const f of Object.values(fields)) f.follow();
    schedule.node.value = now.schedule;
    mask.node.value = now.mask;
    fields.window.node.hidden = now.mask !== "window";
    fields.splits.node.hidden = now.schedule !== "split_k";
    const step = Math.min(model.get("step"), all().length);
    words.textContent = sentence(now, step);
    bar.follow(words.textContent);
    heads.replaceChildren(...Array.from({ length: now.heads }, (_, head) => grid(now, step, head)));
    drawTable(now, step);
    voice.say(words.textContent);
  }

  function sentence(now, step) {
    const n = all().length;
    if (step === 0) return `Start: ${n} steps to come.`;
    const [phase, program, , i, j] = all()[step - 1][0];
    const others = all()[step - 1].length - 1;
    const what = now.schedule !== "flash" && now.schedule !== "split_k" ? PHASES[phase] : `program ${program}`;
    const ending = step === n && now.schedule === "split_k" ? " Then the parts of each row are combined." : "";
    return `Step ${step} of ${n}: ${what} at Q tile ${i}, K/V tile ${j}${others ? `, and ${others} more beside it` : ""}.${ending}`;
  }

  function grid(now, step, head) {
    const tQ = Math.ceil(now.n_q / now.block_q), tK = Math.ceil(now.n_k / now.block_k);
    const group = now.heads / now.kv_heads;
    const when = new Map();
    const phase = step ? all()[step - 1][0][0] : null;
    all().slice(0, step).forEach((work, at) => work.forEach((w) => w[2] === head && w[0] === phase && when.set(`${w[3]} ${w[4]}`, [at + 1, w[1]])));
    const size = 40, cells = [];
    for (let i = 0; i < tQ; i += 1) {
      for (let j = 0; j < tK; j += 1) {
        const kind = now.schedule === "naive" && classify(now, i, j) === "skip" ? "partial" : classify(now, i, j);
        const at = when.get(`${i} ${j}`);
        const state = kind === "skip" ? "fac-skip" : at?.[0] === step ? "fac-now" : at ? "fac-done" : "";
        const x = 34 + j * size, y = 26 + i * size;
        cells.push(s("rect", { class: `fac-cell ${state}`, x: x + 1, y: y + 1, width: size - 2, height: size - 2 }));
        if (kind === "partial") cells.push(s("path", { class: "fac-half", d: `M${x + size - 16} ${y + 3}h13v13z` }));
        if (at) cells.push(s("text", { class: state === "fac-now" ? "fac-on" : null, x: x + size / 2, y: y + size / 2 }, at[0]));
      }
    }
    const every = Math.ceil(Math.max(tQ, tK) / 16);
    for (let j = 0; j < tK; j += every) cells.push(s("text", { x: 34 + (j + 0.5) * size, y: 13 }, `K${j}`));
    for (let i = 0; i < tQ; i += every) cells.push(s("text", { x: 16, y: 26 + (i + 0.5) * size }, `Q${i}`));
    const label = `Head ${head}: ${tQ} by ${tK} tiles, ${when.size} of them worked on so far.`;
    const caption = now.heads > 1 ? h("figcaption", {}, `query head ${head}, K/V head ${Math.floor(head / group)}`) : null;
    const width = 34 + tK * size;
    return h("figure", { style: `max-width:${Math.min(460, Math.max(150, width * 1.25))}px` },
      s("svg", { viewBox: `0 0 ${width} ${26 + tQ * size}`, role: "img", "aria-label": label }, cells), caption);
  }

  function drawTable(now, step) {
    const soFar = loads(now, step), end = loads(now, all().length);
    const pairs = now.n_q * now.n_k * now.heads;
    const rows = [
      ["rows of Q loaded", soFar.q, end.q, now.heads * now.n_q], ["rows of K loaded", soFar.k, end.k, now.kv_heads * now.n_k],
      ["rows of V loaded", soFar.v, end.v, now.kv_heads * now.n_k], ["rows of O written", soFar.o, end.o, now.heads * now.n_q],
    ];
    if (end.scores) rows.push(["scores to and from HBM", soFar.scores, end.scores, null]);
    if (end.partial) rows.push(["rows of unfinished O, written and read", soFar.partial, end.partial, null]);
    rows.push(["scores computed", soFar.pairs, end.pairs, null]);
    const saved = pairs - end.pairs;
    table.replaceChildren(
      h("table", {}, h("thead", {}, h("tr", {}, ["", "so far", "at the end", "rows there are"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, rows.map(([name, a, b, c]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, a), h("td", {}, b), h("td", {}, c ?? "–"))))),
      h("p", {}, saved ? `Skipping saves ${short((100 * saved) / pairs, 3)} % of the ${pairs} scores.` : `All ${pairs} scores are computed.`,
        now.schedule === "naive" ? " They all go through HBM." : ` At most ${Math.min(now.block_q, now.n_q) * Math.min(now.block_k, now.n_k)} of them exist in one program at a time.`),
      now.heads > now.kv_heads ? h("p", {}, `${now.heads / now.kv_heads} query heads share a K/V head: their programs load the same rows, each for itself.`) : "",
    );
  }

  onChanges(model, [...COUNTS, "mask", "schedule", "step"], draw);
  draw();
  return bar.stop;
}

export default { render };
