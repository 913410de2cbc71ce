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
export function loads(s, step, all = steps(s)) {
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

// Decoding of one tile of query rows: then there is room to show every program's notes.
const isDecode = (s) => s.schedule === "split_k" && s.heads === 1 && s.n_q <= s.block_q;

/** First and last tile of every program that has any. */
const runs = (s) => {
  const tK = Math.ceil(s.n_k / s.block_k), share = Math.ceil(tK / s.splits);
  return Array.from({ length: Math.ceil(tK / share) }, (_, part) => [part * share, Math.min((part + 1) * share, tK) - 1]);
};

const COUNTS = ["n_q", "n_k", "block_q", "block_k", "window", "heads", "kv_heads", "splits", "at_once"];
const ON_DESK = { scores: ["q", "k"], softmax: [], values: ["v", "o"], flash: ["q", "k", "v", "o"], split: ["q", "k", "v", "o"] };
const HANDLE = 6.3, COUNTED = 14.6; // in letters' sizes: what is left of one grid, for its handle's name; what the bars of rows moved take
const boxOf = ({ x, y, w, h }) => ({ x, y, width: w, height: h });
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
  fields.guess = field("your guess, times each row of K is read", Array.from({ length: 2 * limits.guess + 1 }, (_, i) => i / 2), () => model.get("guess"), (value) => {
    if (!(value >= 0 && value <= limits.guess)) return `A number from 0 to ${limits.guess}, please.`;
    put(model, { guess: value });
  });
  const change = (trait) => (value) => put(model, { [trait]: value, step: 0 });
  const schedule = select("Schedule", [["flash", "flash"], ["naive", "naive, three kernels"], ["split_k", "split-K decoding"]], change("schedule"));
  const mask = select("Mask", [["everything", "none"], ["causal", "causal"], ["window", "sliding window"]], change("mask"));
  let pause = 900;
  const speed = select("Speed", [1, 4, 16].map((x) => [x, `×${x}`]), (value) => ((pause = 900 / value), bar.stop()));
  const bar = player(model, el, { last: () => all().length, move: (direction) => model.get("step") + direction, every: () => pause, ready: () => Boolean(model.get("guess")) || model.get("schedule") === "naive" || isDecode(settings()) });
  const layers = [part("schedule-grid", s("g")), s("g"), s("g")], [grids, desk, bars] = layers.map(scene);
  const picture = stage(model, "schedule-picture", drawPicture, ...layers);
  picture.svg.addEventListener("click", (e) => e.target.dataset.at && put(model, { step: Number(e.target.dataset.at) }));
  const words = h("p", { class: "fac-stage-words fac-tile-words" }), finding = h("p", { class: "fac-finding" });
  const table = h("div", {});
  const voice = announcer();
  const mark = (cls, text, half) => h("span", {}, s("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" },
    s("rect", { class: `fac-cell ${cls}`, x: 2, y: 2, width: 16, height: 16 }), half ? s("path", { class: "fac-half", d: "M10 2h8v8z" }) : null), text);
  let drawn = null;

  const fold = more("speed, sizes, rows loaded", h("div", { class: "fac-row" }, speed.row), h("div", { class: "fac-fields" }, Object.values(fields).map((f) => f.node)),
      part("schedule-loads", table));
  const marks = h("div", { class: "fac-marks" }, mark("fac-now", "now"), mark("fac-done", "done"), mark("", "to come"), mark("", "partial: needs the mask", true));
  const counted = unfolded(fold, drawTable), steps_ = part("schedule-steps", bar.node), floor = h("div", { class: "fac-tile-floor" }, picture.node, steps_);
  root(model, el, finding, words, floor, marks,
    h("div", { class: "fac-row" }, part("schedule-kind", schedule.row), part("schedule-mask", mask.row)), fold, voice.node);

  function draw() {
    const now = settings();
    for (const f of Object.values(fields)) f.follow();
    schedule.node.value = now.schedule;
    mask.node.value = now.mask;
    fields.window.node.hidden = now.mask !== "window";
    fields.guess.node.hidden = model.get("step") > 0 || now.schedule === "naive";
    fields.splits.node.hidden = now.schedule !== "split_k";
    const step = Math.min(model.get("step"), all().length), kinds = kindsOf(now);
    for (const one of [...marks.children].slice(0, 2)) one.hidden = !step;
    marks.lastChild.hidden = !kinds.has("partial");
    write(words, sentence(now, step));
    write(finding, found(now, step));
    bar.follow(words.textContent);
    picture.draw();
    counted();
    voice.say(words.textContent);
  }

  /** A question before the first step, what has come of it so far, and the answer at the end. */
  function found(now, step) {
    const end = (known.end ??= loads(now, all().length, all())), last = step >= all().length, naive = now.schedule === "naive";
    if (!step) return naive ? "How often will each score cross HBM?" : "How often will each row of K and V be read?";
    const pairs = now.n_q * now.n_k * now.heads, moved = last ? end : loads(now, step, all()), times = naive ? moved.scores / pairs : moved.k / (now.kv_heads * now.n_k);
    const often = { 1: "once", 2: "twice" }[short(times, 2)] ?? `${short(times, 2)} times`, mean = !Number.isInteger(times) || (!naive && now.mask !== "everything") ? " on average" : "";
    if (naive) return `S and P go through HBM: ${last ? "each score crossed" : "so far a score has crossed"} it ${often}${mean}`;
    return `${last ? "Each row of K and V is" : "So far each row of K and V was"} read ${often}${mean}`;
  }

  /** The naive kernels skip nothing: they mask. */
  const kindOf = (now, i, j) => (now.schedule === "naive" && classify(now, i, j) === "skip" ? "partial" : classify(now, i, j));

  function kindsOf(now) {
    const kinds = new Set(), tK = Math.ceil(now.n_k / now.block_k);
    for (let i = 0; i * now.block_q < now.n_q; i += 1) for (let j = 0; j < tK; j += 1) kinds.add(kindOf(now, i, j));
    return kinds;
  }

  /** What has been worked on, read and written after `step` steps, head by head. */
  function soFar(now, step) {
    const heads = Array.from({ length: now.heads }, () => ({ when: new Map(), first: new Map(), reads: { q: [], k: [], v: [] }, written: new Set() }));
    const left = new Map(), began = new Set(), last = step ? all()[step - 1][0][0] : null;
    for (const [phase, program] of all().flat()) left.set(`${phase} ${program}`, (left.get(`${phase} ${program}`) ?? 0) + 1);
    all().forEach((work, at) => work.forEach(([phase, program, head, i, j]) => {
      const mine = heads[head], name = `${phase} ${program}`, read = (t, tile) => (mine.reads[t][tile] = (mine.reads[t][tile] ?? 0) + 1);
      if (phase === (last ?? phase) && !mine.first.has(`${i} ${j}`)) mine.first.set(`${i} ${j}`, at + 1);
      if (at >= step) return;
      if (phase === last) mine.when.set(`${i} ${j}`, at + 1);
      if (phase !== "softmax" && phase !== "values") {
        if (!began.has(name)) read("q", i);
        read("k", j);
      }
      if (phase !== "softmax" && phase !== "scores") read("v", j);
      began.add(name);
      left.set(name, left.get(name) - 1);
      if (!left.get(name) && (phase === "values" || phase === "flash")) mine.written.add(i);
    }));
    if (now.schedule === "split_k" && step >= all().length) heads.forEach((head) => Array.from({ length: Math.ceil(now.n_q / now.block_q) }, (_, i) => head.written.add(i)));
    return heads;
  }

  function drawPicture(width, fs) {
    const now = settings(), step = Math.min(model.get("step"), all().length), state = soFar(now, step);
    const piles = isDecode(now), large = model.get("presenter") ? 22 : 25, beside = width >= 60 * fs && !piles, deskW = 27 * fs, strip = 1.7 * fs, gap = 0.5 * fs, room = beside ? width - deskW - 2 * fs : width;
    const across = Math.min(now.heads, Math.max(1, Math.floor(room / (15 * fs)))), panel = room / across;
    const gw = Math.min(panel - 2 * strip - (now.heads === 1 ? HANDLE + 1.2 : 3.2) * fs, (now.heads > 1 ? 16 : piles ? 60 : beside ? large : 16) * fs), gh = Math.max(Math.min(now.n_q, 8) * 0.6 * fs, 2.4 * fs, Math.min((now.heads > 1 ? 16 : large) * fs, (gw * now.n_q) / now.n_k));
    const margin = (now.heads === 1 ? HANDLE : 1.4) * fs, used = Math.min(room, (across - 1) * panel + 2 * strip + gw + margin + 4.2 * fs), tall = 3.4 * fs + 2 * strip + gap + gh + 0.8 * fs, places = [], high = beside || piles ? 0 : COUNTED * fs; // on a phone the bars come first
    grids((add) => state.forEach((head, number) => {
      const x = margin + (number % across) * panel, y = high + Math.floor(number / across) * tall;
      places.push(panelOf(add, now, head, number, step, { x, y, gw, gh, strip, gap, fs }));
    }));
    const below = high + Math.ceil(now.heads / across) * tall, x = beside ? used : 2, y = beside ? (1.2 + COUNTED) * fs : below + 0.6 * fs;
    const end = piles ? drawPiles(now, step, places[0], { y: below, fs }) : drawDesk(now, step, places, { x, y, w: width - x, room: beside ? Math.max(8 * fs, below - y - 2 * fs) : 4.4 * fs, beside, fs });
    bars((add) => piles || drawCounts(add, { x, y: (beside ? 1.2 : 1.4) * fs, w: width - x, fs }));
    picture.svg.setAttribute("aria-label", `${words.textContent} ${state.map((head, i) => `Head ${i}: ${head.when.size} tiles worked on.`).join(" ")}`);
    drawn = step;
    return Math.max(below, end);
  }

  /** Q on the left, K and V on top, O on the right, the scores between them; all in rows of one scale. */
  function panelOf(add, now, head, number, step, { x, y, gw, gh, strip, gap, fs }) {
    const gx = x + strip + gap, gy = y + 2.4 * fs + 2 * strip + gap, sx = gw / now.n_k, sy = gh / now.n_q;
    const span = (t, tile) => {
      const b = "kv".includes(t) ? now.block_k : now.block_q, n = "kv".includes(t) ? now.n_k : now.n_q, from = tile * b, rows = Math.min(b, n - from);
      if (t === "k" || t === "v") return { x: gx + from * sx, y: gy - gap - strip * (t === "v" ? 1 : 2), w: rows * sx, h: strip };
      return { x: t === "q" ? x : gx + gw + gap, y: gy + from * sy, w: strip, h: rows * sy };
    };
    const tQ = Math.ceil(now.n_q / now.block_q), tK = Math.ceil(now.n_k / now.block_k), key = `h${number}`;
    if (now.heads > 1) add(`${key} head`, "text", { class: "fac-t-soft", "data-head": number, x, y: y + 1.1 * fs }, `query head ${number}, K/V head ${Math.floor((number * now.kv_heads) / now.heads)}`);
    const counts = (p) => p.w > 1.6 * fs && p.h > 1.2 * fs; // room to say how often a tile was read
    const number_ = (t, tile, p) => { // the tile's number, as the words below say it: above K, left of Q
      const size = wide(String(tile), 0.87 * fs), program = now.schedule === "flash" && now.heads === 1 ? `program ${tile}` : String(tile);
      if (t === "k" && p.w > size + 4) add(`${key} k ${tile} number`, "text", { class: "fac-t-soft", x: p.x + p.w / 2, y: p.y - 0.35 * fs, "text-anchor": "middle" }, String(tile));
      if (t === "q" && p.h > 1.9 * fs) add(`${key} q ${tile} number`, "text", { class: "fac-t-soft", x: p.x - 0.3 * fs, y: p.y + p.h / 2 + 0.32 * fs, "text-anchor": "end" }, program);
    };
    for (const t of ["k", "v", "q", "o"]) {
      const many = t === "k" || t === "v" ? tK : tQ;
      for (let tile = 0; tile < many; tile += 1) {
        const p = span(t, tile), times = t === "o" ? 0 : (head.reads[t][tile] ?? 0), hollow = t === "o" && !head.written.has(tile);
        add(`${key} ${t} ${tile}`, "rect", { class: hollow ? "fac-tile-hollow" : `fac-edge fac-fill-${t}${!times && t !== "o" ? " fac-tile-unread" : ""}`, x: p.x, y: p.y, width: p.w, height: p.h });
        if (times && !counts(p)) add(`${key} ${t} ${tile} wear`, "rect", { class: "fac-tile-wear", x: p.x, y: p.y, width: p.w, height: p.h, "fill-opacity": Math.min(0.62, (t === "q" ? 0.1 : 0.14) * times) });
        if (times && counts(p)) add(`${key} ${t} ${tile} count`, "text", { class: `fac-tile-said ${t === "q" ? "fac-t-small" : `fac-t-name${p.w > wide("read ×3", fs) + 4 ? "" : " fac-t-small"}`}`, x: p.x + p.w / 2, y: p.y + p.h / 2 + 0.32 * fs, "text-anchor": "middle" }, t === "k" && !tile && p.w > wide("read ×3", 0.87 * fs) + 4 ? `read ×${times}` : `×${times}`);
      }
      for (let tile = 0; tile < many; tile += 1) number_(t, tile, span(t, tile));
      const p = span(t, 0), most = t === "o" ? 0 : Math.max(0, ...head.reads[t].filter(Boolean));
      if (t === "k" || t === "v") add(`${key} ${t}`, "text", { class: "fac-t-name", x: gx - 0.4 * fs, y: p.y + strip / 2 + 0.35 * fs, "text-anchor": "end" }, t.toUpperCase());
      else add(`${key} ${t}`, "text", { class: "fac-t-name", x: p.x + strip / 2, y: gy + gh + 1.1 * fs, "text-anchor": "middle" }, t.toUpperCase());
      if (most > 1 && !counts(p)) add(`${key} ${t} times`, "text", { class: "fac-t-small", x: t === "q" ? p.x + strip + 2 : gx + gw + gap, y: t === "q" ? gy + gh + 1.1 * fs : p.y + strip / 2 + 0.35 * fs }, `read ×${most}`);
    }
    const work = (all()[Math.max(0, step - 1)] ?? []).filter(([, , at]) => at === number), coming = step ? "" : "fac-tile-first";
    for (const [phase, , , i, j] of work) { // what comes from HBM now, or will first
      for (const t of ON_DESK[phase].filter((t) => t !== "o")) add(`${key} ${t} ${t === "q" ? i : j} now`, "rect", { class: `fac-tile-now ${coming}`, ...boxOf(span(t, t === "q" ? i : j)) });
    }
    for (let i = 0; i < tQ; i += 1) {
      for (let j = 0; j < tK; j += 1) {
        const kind = kindOf(now, i, j), at = head.when.get(`${i} ${j}`);
        const c = { x: gx + j * now.block_k * sx, y: gy + i * now.block_q * sy }, w = span("k", j).w, tall = span("q", i).h;
        const state = kind === "skip" ? "fac-skip" : at === step && step ? "fac-now" : at ? "fac-done" : "";
        add(`${key} ${i} ${j}`, "rect", { class: `fac-cell ${state}`, x: c.x + 0.5, y: c.y + 0.5, width: Math.max(0.5, w - 1), height: Math.max(0.5, tall - 1), "data-at": head.first.get(`${i} ${j}`) ?? "" });
        if (kind === "partial" && w > 8 && tall > 8) add(`${key} ${i} ${j} half`, "path", { class: "fac-half", d: `M${c.x + w - 12} ${c.y + 2}h10v10z` });
        const large = w > 3 * fs && tall > 3 * fs, says = String(head.first.get(`${i} ${j}`) ?? ""); // when it comes, or came
        if (says && w > wide(says, fs) + 4 && tall > 1.9 * fs) add(`${key} ${i} ${j} at`, "text", { class: `${state === "fac-now" ? "fac-on" : `fac-tile-at${at ? "" : " fac-t-soft"}`} ${large ? "fac-tile-large" : "fac-t-small"}`, x: c.x + w / 2, y: c.y + tall / 2 + (large ? 0.25 : 0.32) * fs, "text-anchor": "middle" }, says);
      }
    }
    drawWalks(add, key, number, step, { cell: (i, j) => ({ x: gx + j * now.block_k * sx, y: gy + i * now.block_q * sy, w: span("k", j).w, h: span("q", i).h }), fs });
    const gaps = Array.from({ length: tQ }, (_, i) => [i, Array.from({ length: tK }, (_, j) => j).filter((j) => kindOf(now, i, j) === "skip")]).filter(([, found]) => found.length && found.at(-1) - found[0] + 1 === found.length);
    if (gaps.length) { // once, across the longest run of tiles that nobody touches
      const [i, found] = gaps.reduce((a, b) => (b[1].length > a[1].length ? b : a)), [a, b] = [span("k", found[0]), span("k", found.at(-1))], q = span("q", i);
      const words = [...(now.mask === "causal" ? ["skipped: every key is later", "skipped: later keys"] : []), "skipped"].find((text) => b.x + b.w - a.x > wide(text, 0.9 * fs));
      if (words && q.h > 2 * fs) add(`${key} skipped ground`, "rect", { class: "fac-chip", x: (a.x + b.x + b.w) / 2 - wide(words, 0.45 * fs), y: q.y + q.h / 2 - 0.9 * fs, width: wide(words, 0.9 * fs), height: 1.8 * fs });
      if (words && q.h > 1.2 * fs) chip(add, `${key} skipped`, words, (a.x + b.x + b.w) / 2, q.y + q.h / 2, fs); // on a ground of its own: edges of tiles run through
    }
    for (const [, , , i, j] of step ? [] : work) add(`${key} first ${i} ${j}`, "rect", { class: "fac-tile-now fac-tile-first", x: gx + j * now.block_k * sx, y: gy + i * now.block_q * sy, width: span("k", j).w, height: span("q", i).h });
    if (isDecode(now) && gh / now.n_q > 6) {
      for (let row = 1; row < now.n_q; row += 1) add(`${key} row ${row}`, "path", { class: "fac-tile-row", d: `M${x} ${gy + row * sy}h${strip}m${gap} 0h${gw}m${gap} 0h${strip}` });
    }
    if (!number) {
      const drag = (trait, n) => (rows) => allowed({ ...settings(), [trait]: nearest(powersOfTwo(1, 1024), Math.max(0.7, rows)) }) && put(model, { [trait]: nearest(powersOfTwo(1, 1024).filter((b) => b < 2 * n), Math.max(0.7, rows)), step: 0 });
      const [dragK, dragQ] = [drag("block_k", now.n_k), drag("block_q", now.n_q)], k = span("k", 0), q = span("q", 0);
      if (!step && !guessed(now) && now.schedule !== "naive" && !isDecode(now) && !picture.svg.facDragged) return { span, sx, sy }; // the guess comes first, unless they are in use
      add("knob block_k", "circle", { class: "fac-knob fac-across fac-knob-block_k", cx: k.x + k.w, cy: k.y, r: 0.48 * fs, "data-handle": "block_k" }, "drag: B_k, rows of a K tile", (px) => dragK((px - gx) / sx));
      add("knob block_q", "circle", { class: "fac-knob fac-down fac-knob-block_q", cx: q.x, cy: q.y + q.h, r: 0.48 * fs, "data-handle": "block_q" }, "drag: B_q, rows of a Q tile", (_, py) => dragQ((py - gy) / sy));
      const alone = now.heads === 1, size = 7 * 14, room = alone ? Infinity : gw - 170, at = alone ? Math.min(k.x + k.w - 0.5 * fs, gx + gw - size) : gx + gw - size; // above the numbers of the tiles, beside a head's name
      handleName(add, picture.svg, "block_k", { x: Math.max(x, at), y: k.y - 1.5 * fs, room }, `B_k = ${now.block_k}`);
      if (alone) handleName(add, picture.svg, "block_q", { x: x - 0.8 * fs, y: q.y + q.h + 0.3 * fs, "text-anchor": "end", room: HANDLE * fs }, `B_q = ${now.block_q}`);
    }
    return { span, sx, sy };
  }

  /** The way of each program through its tiles: an arrow, dark as far as it came. */
  function drawWalks(add, key, number, step, { cell, fs }) {
    const walks = new Map(), phase = all()[Math.max(0, step - 1)]?.[0]?.[0];
    all().forEach((work, at) => work.forEach(([kind, program, head, i, j]) => {
      if (kind === phase && head === number) walks.set(program, [...(walks.get(program) ?? []), { at, ...cell(i, j) }]);
    }));
    let gone = "", coming = "", heads = "", reached = "";
    for (const tiles of walks.values()) {
      const [first, last] = [tiles[0], tiles.at(-1)];
      if (tiles.length < 2 || first.w < 14 || first.h < 10) continue;
      const y = first.y + first.h - (first.h > 3 * fs ? 0.75 * fs : first.h > 1.9 * fs ? 5 : first.h / 2), from = first.x + 0.22 * first.w, to = last.x + 0.78 * last.w, r = Math.min(5, 0.2 * last.w);
      const done = tiles.filter(({ at }) => at < step).at(-1), here = !done ? from : done === last ? to : done.x + done.w / 2;
      if (here > from) gone += `M${from.toFixed(1)} ${y.toFixed(1)}H${(here === to ? here - r : here).toFixed(1)}`;
      if (here < to) coming += `M${here.toFixed(1)} ${y.toFixed(1)}H${(to - r).toFixed(1)}`;
      const tip = `M${to.toFixed(1)} ${y.toFixed(1)}l${-2 * r} ${-r}v${2 * r}z`;
      if (done === last) reached += tip;
      else heads += tip;
    }
    add(`${key} coming`, "path", { class: "fac-tile-walk fac-tile-coming", d: coming });
    add(`${key} heads`, "path", { class: "fac-tile-tip fac-tile-coming", d: heads });
    add(`${key} gone`, "path", { class: "fac-tile-walk", d: gone });
    add(`${key} reached`, "path", { class: "fac-tile-tip", d: reached });
  }

  const allowed = (then) => Math.ceil(then.n_q / then.block_q) * Math.ceil(then.n_k / then.block_k) * then.heads <= limits.tiles;

  /** Under each program's run of keys what it has in hand; when every part is there, they become O. */
  function drawPiles(now, step, { span }, { y, fs }) {
    const done = step >= all().length, rail = y + 4.6 * fs, o = span("o", 0);
    const later = new Set(all().slice(step).flat().map((work) => work[1])), begun = new Set(all().slice(0, step).flat().map((work) => work[1]));
    desk((add) => {
      for (const [program, [first, last]] of runs(now).entries()) {
        const a = span("k", first), b = span("k", last), w = b.x + b.w - a.x, mid = a.x + w / 2;
        const has = !begun.has(program) ? "" : later.has(program) ? "m, ℓ, O" : "o, lse", fits = (...texts) => texts.find((text) => wide(text, fs) < w + fs) ?? "";
        add(`name ${program}`, "text", { class: "fac-t-name", x: mid, y: y + 0.7 * fs, "text-anchor": "middle" }, fits(`program ${program}`, `p${program}`, `${program}`));
        add(`notes ${program}`, "rect", { class: has === "o, lse" ? "fac-edge fac-fill-o fac-tile-part" : has ? "fac-tile-desk" : "fac-outline", x: a.x + 1, y: y + 1.1 * fs, width: Math.max(4, w - 2), height: 2.1 * fs, rx: 4 }, has);
        add(`says ${program}`, "text", { class: has === "o, lse" ? "fac-t-small fac-tile-said" : "fac-t-small", x: mid, y: y + 2.5 * fs, "text-anchor": "middle" }, has && fits(has));
        if (done) add(`down ${program}`, "path", { class: "fac-tile-rail", d: `M${mid} ${y + 3.2 * fs}V${rail}` });
      }
      const first = [span("k", 0), span("k", runs(now)[0][1])], left = (first[0].x + first[1].x + first[1].w) / 2, right = o.x + o.w / 2;
      if (done) add("rail", "path", { class: "fac-tile-rail", d: `M${left} ${rail}H${right}V${o.y + o.h + 1.6 * fs}` });
      add("merge", "text", { class: "fac-t-name", x: first[0].x, y: rail + 1.4 * fs }, done ? "merged, each part weighted by exp(lse)" : "");
    });
    return rail + 2.2 * fs;
  }

  /** The desk of the first program at work, beside the grid and larger, on a phone right below it, with a line from the tile at work: its tiles, laid as there, slide from where they lie; before the first step their places. Returns where it ends. */
  function drawDesk(now, step, places, { x, y, w, room, beside, fs }) {
    const [kind, program, head, i, j] = all()[Math.max(0, step - 1)]?.[0] ?? [], phase = step ? kind : null;
    if (!kind) return y;
    const { span } = places[head], q = span("q", i), k = span("k", j), strip = q.w, gap = 0.35 * fs, pad = 0.6 * fs;
    const wide_ = beside ? 2 * (strip + gap) + k.w : 2 * (strip + k.w) + 3 * gap, tall_ = beside ? 2 * strip + gap + q.h : Math.max(q.h, 2 * strip);
    const size = Math.min(beside ? 2.5 : 1, (w - 2 * pad - 4) / wide_, room / tall_), broad = size * wide_ + 2 * pad, high = size * tall_ + 2 * pad;
    const many = Math.min(now.block_q, now.n_q - i * now.block_q) * Math.min(now.block_k, now.n_k - j * now.block_k);
    const says = `${!phase ? "empty until step 1" : `program ${program}${now.schedule === "naive" ? `, ${{ scores: "S goes to HBM", softmax: "S comes, P goes back", values: "P comes from HBM" }[phase]}` : ` has ${many} scores, none in HBM`}`}`;
    const letters = Math.floor((w - broad - 1.2 * fs) / wide("m", 1.06 * fs)), right_ = letters > 11, top = y + (right_ ? 0 : 1.7 * fs); // its name at its right, where there is room, else above
    const right = strip + gap, s_ = beside ? [right, 2 * strip + gap] : [right + k.w + gap, 0]; // S below K and V, as in the grid; on a phone beside them
    const spots = { q: [0, s_[1], strip, q.h], k: [right, 0, k.w, strip], v: [right, strip, k.w, strip], o: [s_[0] + k.w + gap, s_[1], strip, q.h], s: [...s_, k.w, q.h] };
    const has = ON_DESK[kind] ?? [], scores = kind !== "values";
    desk((add) => {
      for (const [row, text] of (right_ ? ["on chip:", ...wrapped(says, letters)] : [`on chip: ${says}`]).entries()) add(`name ${row}`, "text", { class: "fac-t-name", x: right_ ? x + broad + 0.8 * fs : x, y: y + (1.1 + 1.25 * row) * fs }, text);
      if (phase && now.heads === 1 && right_) leader(add, { x: k.x, y: q.y, w: k.w, h: q.h }, { x, y: top, w: broad, h: high, s: x + pad + size * (s_[0] + k.w / 2), beside, fs });
      add("desk", "rect", { class: "fac-tile-desk", x, y: top, width: broad, height: high, rx: 6 });
      for (const t of [...has, ...(scores ? ["s"] : [])]) {
        const [x_, y_, w_, h_] = spots[t].map((part) => part * size), at = x + pad + x_, at_ = top + pad + y_, tile = t === "q" || t === "o" ? i : j;
        const slides = t !== "s" && phase && drawn !== null && drawn !== step && (t === "k" || t === "v" || !step || all()[step - 2]?.[0]?.[1] !== program), from = t !== "s" && phase ? span(t, tile) : { x: at, y: at_ };
        add(`${t} ${slides ? step : drawn === step ? "" : step}`, "rect", { class: `${phase ? `fac-edge fac-fill-${t}` : "fac-tile-pale"} ${slides && t !== "o" ? "fac-tile-slide" : ""}`, style: `--dx:${from.x - at}px;--dy:${from.y - at_}px`, x: at, y: at_, width: w_, height: h_ });
        const named = t === "s" ? (kind === "softmax" ? "S, P" : "S") : `${t.toUpperCase()}${tile}`;
        if (w_ > wide(named, 0.87 * fs) + 2 && h_ > 1.1 * fs) add(`${t} name`, "text", { class: `fac-t-small${phase ? " fac-tile-said" : ""}`, x: at + w_ / 2, y: at_ + h_ / 2 + 0.32 * fs, "text-anchor": "middle" }, named);
      }
    });
    return top + high + 2;
  }

  /** From the tile at work to the desk that it is on. */
  function leader(add, tile, box) {
    const { beside, fs } = box, [fx, fy] = beside ? [tile.x + tile.w, tile.y + (tile.h > 3 * fs ? 0.2 : 0.5) * tile.h] : [tile.x + 0.86 * tile.w, tile.y + tile.h];
    const enters = Math.max(box.y + fs, Math.min(box.y + box.h - fs, fy));
    const d = beside ? `M${fx} ${fy}H${box.x - 0.9 * fs}V${enters}H${box.x}` : `M${fx} ${fy}V${box.y - 0.6 * fs}H${box.s}V${box.y}`;
    add("leader halo", "path", { class: "fac-tile-leader fac-tile-halo", d });
    add("leader", "path", { class: "fac-tile-leader", d });
  }

  /** Rows loaded and written so far as bars, in the outline of what it comes to; a mark at each row once. */
  function drawCounts(add, { x, y, w, fs }) {
    const now = settings(), step = Math.min(model.get("step"), all().length);
    const moved = loads(now, step, all()), end = (known.end ??= loads(now, all().length, all()));
    const there = { q: now.heads * now.n_q, o: now.heads * now.n_q, k: now.kv_heads * now.n_k, v: now.kv_heads * now.n_k }; // K and V last: the guess about them stands on the axis
    const left = x + 6 * fs, most = Math.max(now.heads * Math.ceil(now.n_q / now.block_q) * now.n_k, ...Object.keys(there).flatMap((t) => [end[t], there[t]])), unit = Math.min((w - 16.2 * fs) / most, (w - 7.5 * fs) / (most + there.k)); // of no mask, so that masks can be compared; one time more has room
    const guess = model.get("guess"), asks = !step && now.schedule !== "naive", once_ = there.k * unit, tick = guess ? left + guess * once_ : left - 0.75 * fs, top_ = y + 6.05 * fs, seam = y + 8.15 * fs, foot = y + 10.2 * fs; // above K, between K and V, below V
    add("counts", "text", { class: "fac-t-name", x, y }, !step ? "rows moved between HBM and the chip" : step < all().length ? "rows moved so far; pale: by the end" : "rows moved between HBM and the chip, in all");
    add("axis", "path", { class: "fac-axis-strong", d: `M${left} ${y + 2 * fs}V${foot}H${x + w - 0.6 * fs}` });
    add("axis 0", "text", { class: "fac-t-soft", x: left, y: foot + 1.4 * fs, "text-anchor": "middle" }, "0");
    if (guess && now.schedule !== "naive") add("guess", "path", { class: "fac-tile-guess", d: `M${tick} ${top_}V${foot + 0.35 * fs}` });
    Object.entries(there).forEach(([t, rows], i) => {
      const top = y + (2.1 + 2.1 * i) * fs, tall = 1.6 * fs, again = step && end[t] > rows, tell = step ? [` row ${t === "o" ? "writes" : "loads"}`, ""].map((unit) => `${moved[t]} of ${end[t]}${unit}`) : [asks && "kv".includes(t) ? "" : "0"];
      const first = left + (step ? Math.max(end[t], rows) : rows * unit < 1.6 * fs ? rows : 0) * unit + 0.6 * fs; // where it ends is not shown before the first step
      const fold = again && step >= all().length ? `${short(end[t] / rows, 2)} ×` : "", struck = guessed(now) && "kv".includes(t) && tick > first - 0.3 * fs; // the guess's line goes through: left or right of it
      const ways = struck ? [[first, tick - 0.3 * fs], [tick + 0.6 * fs, x + w]] : [[first, x + w]], long = (text) => 7.6 * text.length + 9.2 * fold.length + 0.4 * fs;
      const [says, at] = tell.flatMap((text) => ways.filter(([from, to]) => from + long(text) < to).map(([from]) => [text, from]))[0] ?? [tell.at(-1), first];
      add(`count name ${t}`, "text", { class: "fac-t-name", x, y: top + 1.1 * fs }, `${t.toUpperCase()} ${t === "o" ? "written" : "loaded"}`);
      add(`end ${t}`, "rect", { class: `fac-tile-end fac-fill-${t}`, x: left, y: top, width: step ? end[t] * unit : 0, height: tall }, `${end[t]} rows at the end`);
      add(`count ${t}`, "rect", { class: `fac-fill-${t}`, x: left, y: top, width: moved[t] * unit, height: tall });
      if ("kv".includes(t)) drawUnits(add, t, all().slice(0, step), { left, top, tall, unit });
      if (t === "q" || t === "k") add(`there ${t}`, "path", { class: "fac-tile-once", d: `M${left + rows * unit} ${t === "q" ? y + 2 * fs : top_}V${t === "q" ? top_ : foot}` }, `${rows} rows there are`);
      add(`says count ${t}`, "text", { class: again ? "fac-t-soft" : "fac-t-small", x: at, y: top + 1.1 * fs }, says);
      add(`times ${t}`, "text", { class: "fac-t-name", x: at + 7.6 * says.length + 0.4 * fs, y: top + 1.1 * fs }, fold);
    });
    add("counts once", "text", { class: "fac-t-small", x: left + there.q * unit, y: y + 1.6 * fs, "text-anchor": "middle" }, "each row once");
    const yours = !asks && guessed(now) ? `you: ${short(guess, 3)} ×` : "", every = [1, 2, 5, 10, 20, 50, 100].find((k) => k * once_ > 2.6 * fs) ?? 200;
    if (now.schedule !== "naive") for (let k = every; k <= most / there.k + 1 && left + k * once_ < x + w - 1.2 * fs; k += every) { // past what no mask needs: where they stop tells nothing, and is alike at every width
      const at = left + k * once_;
      add(`times ${k}`, "path", { class: "fac-axis-strong", d: `M${at} ${foot}v${0.35 * fs}` });
      add(`times says ${k}`, "text", { class: "fac-t-soft", x: at, y: foot + 1.4 * fs, "text-anchor": "middle" }, `${k} ×`);
    }
    if (yours) add("yours", "text", { class: "fac-t-name fac-t-small fac-tile-you", x: Math.min(tick, x + w - wide(yours, 0.5 * fs)), y: foot + 2.6 * fs, "text-anchor": "middle" }, yours);
    if (!asks) return;
    // the guess: a flag on a pole, its foot a ring; until it is set it stands off the scale
    const cloth = guess ? handleSays(picture.svg, "guess", Infinity, `${short(guess, 3)} ×`) : "drag me: your guess", long = wide(cloth, fs) + 1.2 * fs, flip = tick + long > x + w, way = flip ? -1 : 1, hangs = guess ? top_ + 0.1 * fs : foot + 1.95 * fs; // until then below the axis, which stays clear
    const act = (px) => put(model, { guess: Math.max(2, Math.min(Math.round((2 * (px - left)) / unit / there.k), 2 * limits.guess, Math.floor((2 * (w - 7 * fs)) / unit / there.k)) / 2) });
    add("guess pole", "path", { class: "fac-tile-guess", d: `M${tick} ${guess ? hangs : foot}V${guess ? foot : hangs}` });
    add("guess cloth", "path", { class: "fac-tile-cloth fac-across", "data-handle": "guess", d: `M${tick} ${hangs}h${way * long}v${1.5 * fs}h${-way * long}z` }, "drag: your guess", act);
    add("guess says", "text", { class: "fac-t-name fac-t-small fac-tile-asked", "data-names": "guess", x: tick + (way * long) / 2, y: hangs + 1.05 * fs, "text-anchor": "middle" }, cloth);
    add("guess knob", "circle", { class: "fac-knob fac-across fac-knob-guess", cx: tick, cy: guess ? seam + 0.35 * fs : hangs + 0.75 * fs, r: 0.52 * fs, "data-handle": "guess" }, "drag: your guess", act);
  }

  /** What each step adds to a bar of K or V, so that a step in the grid is a piece here; the last one has the outline of what is there now. */
  function drawUnits(add, t, done, { left, top, tall, unit }) {
    const now = settings(), rows = (j) => Math.min((j + 1) * now.block_k, now.n_k) - j * now.block_k;
    let end = left, from = left, cuts = "";
    for (const work of done) {
      from = end;
      for (const [phase, , , , j] of work) if (ON_DESK[phase].includes(t)) end += rows(j) * unit;
      if (end > from) cuts += `M${end.toFixed(1)} ${top}v${tall}`;
    }
    if (done.length && (end - left) / done.length > 5) add(`units ${t}`, "path", { class: "fac-tile-units", d: cuts });
    if (end > from) add(`unit ${t}`, "rect", { class: "fac-tile-now", x: from, y: top, width: end - from, height: tall });
  }

  const guessed = (now) => now.schedule !== "naive" && model.get("guess");

  function sentence(now, step) {
    const n = all().length;
    if (step === 0) return now.schedule === "naive" || isDecode(now) || model.get("guess") ? `Start: ${n} steps to come.` : "Guess first: drag the flag. Then press Next.";
    const [phase, program, , i, j] = all()[step - 1][0];
    const others = all()[step - 1].length - 1;
    if (isDecode(now)) {
      const at = all()[step - 1].map((work) => `program ${work[1]} at K/V tile ${work[4]}`), idle = now.splits - runs(now).length;
      return `Step ${step} of ${n}: ${at.slice(0, 4).join(", ")}${at.length > 4 ? `, and ${at.length - 4} more` : ""}.${step === n ? " Then the parts are merged." : ""}${idle ? ` Without any tile: ${idle}.` : ""}`;
    }
    const what = now.schedule !== "flash" && now.schedule !== "split_k" ? PHASES[phase] : `program ${program}`;
    const rest = all().slice(step).some((work) => work.some(([, other]) => other === program));
    const written = phase === "flash" && !rest ? ` Its last tile: O${i} is written.` : "";
    const ending = step === n && now.schedule === "split_k" ? " Then the parts of each row are combined." : "";
    return `Step ${step} of ${n}: ${what} at Q tile ${i}, K/V tile ${j}${others ? `, and ${others} more beside it` : ""}.${written}${ending}`;
  }

  function drawTable() {
    const now = settings(), step = Math.min(model.get("step"), all().length);
    const moved = loads(now, step, all()), end = (known.end ??= loads(now, all().length, all()));
    const pairs = now.n_q * now.n_k * now.heads;
    const rows = [
      ["rows of Q loaded", moved.q, end.q, now.heads * now.n_q], ["rows of K loaded", moved.k, end.k, now.kv_heads * now.n_k],
      ["rows of V loaded", moved.v, end.v, now.kv_heads * now.n_k], ["rows of O written", moved.o, end.o, now.heads * now.n_q],
    ];
    if (end.scores) rows.push(["scores to and from HBM", moved.scores, end.scores, null]);
    if (end.partial) rows.push(["rows of unfinished O, written and read", moved.partial, end.partial, null]);
    rows.push(["scores computed", moved.pairs, end.pairs, null]);
    const saved = pairs - end.pairs;
    table.replaceChildren(
      h("table", {}, h("thead", {}, h("tr", {}, ["", "so far", "at the end", "rows there are"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", {}, rows.map(([name, a, b, c]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, a), h("td", {}, b), h("td", {}, c ?? "–"))))),
      h("p", {}, saved ? `Skipping saves ${short((100 * saved) / pairs, 3)} % of the ${pairs} scores.` : `All ${pairs} scores are computed.`,
        now.schedule === "naive" ? " They all go through HBM." : ` At most ${Math.min(now.block_q, now.n_q) * Math.min(now.block_k, now.n_k)} of them exist in one program at a time.`),
      now.heads > now.kv_heads ? h("p", {}, `${now.heads / now.kv_heads} query heads share a K/V head: their programs load the same rows, each for itself.`) : "",
    );
  }

  onChanges(model, [...COUNTS, "mask", "schedule", "step", "guess"], draw);
  draw();
  return bar.stop;
}

export default { render };
