// The lanes of the Race: what naive attention and FlashAttention move, in order, on a traffic clock.
// What it exports is held against Python in tests/widgets/test_javascript.py.

const MOST_EVENTS = 4000;
const tilesOf = (n, block) => Array.from({ length: Math.ceil(n / block) }, (_, i) => [i * block, Math.min((i + 1) * block, n)]);
const lengthOf = (span) => span[1] - span[0];

/** One program a Q tile; a move is [tensor, rows, cols, kind, bytes]. */
export function flashKernels({ n_q, n_k, d, block_q, block_k, causal, b }) {
  const move = (tensor, rows, kind = "load") => [tensor, rows, [0, d], kind, lengthOf(rows) * d * b];
  const many = Math.ceil(n_q / block_q) * Math.ceil(n_k / block_k) * 2 > MOST_EVENTS;
  return [tilesOf(n_q, block_q).map((rows) => {
    const end = causal ? rows[1] + n_k - n_q : n_k;
    const last = Math.min(Math.ceil(end / block_k) * block_k, n_k), keys = many ? [[0, last]] : tilesOf(last, block_k);
    return [move("q", rows), ...keys.flatMap((tile) => [move("k", tile), move("v", tile)]), move("o", rows, "store")];
  })];
}

/** One kernel after the other, each a list of [what it reads, what it writes]. */
export function naiveKernels({ n_q, n_k, d, block_q, block_k, b }, operations) {
  const many = Math.ceil(n_q / block_q) * Math.ceil(n_k / block_k) * 4 > MOST_EVENTS, keys = many ? [[0, n_k]] : tilesOf(n_k, block_k);
  const moves = (tensor, rows, kind) => {
    let cut = keys.map((tile) => [rows, tile]);
    if ("kv".includes(tensor)) cut = rows[0] ? [] : keys.map((tile) => [tile, [0, d]]);
    if ("qo".includes(tensor)) cut = [[rows, [0, d]]];
    return cut.map(([r, c]) => [tensor, r, c, kind, lengthOf(r) * lengthOf(c) * b]);
  };
  return operations.map(([reads, writes]) => tilesOf(n_q, block_q).map((rows) =>
    [...reads.flatMap((t) => moves(t, rows, "load")), ...writes.flatMap((t) => moves(t, rows, "store"))]));
}

/** Every move on the clock; `atOnce` programs share the bandwidth, a kernel waits for the one before. */
export function schedule(kernels, atOnce, gbPerS, l2) {
  if (kernels.flat(2).length > MOST_EVENTS) kernels = kernels.map((kernel) => kernel.map(coarse));
  const least = leastOf(kernels, l2), events = [], rate = gbPerS * 1e9;
  let done = 0;
  for (const kernel of kernels) {
    let next = 0, active = [];
    while (next < kernel.length || active.length) {
      for (; active.length < atOnce && next < kernel.length; next += 1) if (kernel[next].length) active.push([next, 0]);
      const now = active.map(([program, place]) => [program, kernel[program][place]]);
      active = active.map(([program, place]) => [program, place + 1]).filter(([program, place]) => place < kernel[program].length);
      const t0 = done / rate;
      for (const [, move] of now) done += move[4];
      for (const [program, m] of now) events.push({ tensor: m[0], rows: m[1], cols: m[2], kind: m[3], program, bytes: m[4], t0, t1: done / rate, least: least(m) });
    }
  }
  return events;
}

const hull = (a, b) => [Math.min(a[0], b[0]), Math.max(a[1], b[1])];

function coarse(program) {
  const merged = new Map();
  for (const m of program) {
    const before = merged.get(m[0] + m[3]) ?? [...m.slice(0, 4), 0];
    merged.set(m[0] + m[3], [m[0], hull(before[1], m[1]), hull(before[2], m[2]), m[3], before[4] + m[4]]);
  }
  return [...merged.values()];
}

/** What of a move must cross HBM: rows not seen before; of what is written and read, what L2 has no room for. */
function leastOf(kernels, l2) {
  const size = {}, loaded = new Set(), seen = {}, whole = {}, moves = kernels.flat(2);
  let rows = 0;
  for (const m of moves) {
    if (m[3] === "store") size[m[0]] = (size[m[0]] ?? 0) + m[4];
    else loaded.add(m[0]);
    rows = Math.max(rows, m[1][1]);
  }
  return ([tensor, [first, end], , , bytes]) => {
    if (size[tensor] && loaded.has(tensor)) return bytes * (Math.max(0, size[tensor] - l2) / size[tensor]);
    const all = (whole[tensor] ??= [first, first]); // rows that were all seen: most moves lie in them
    if (first >= all[0] && end <= all[1]) return 0;
    const marks = (seen[tensor] ??= new Uint8Array(rows)).subarray(first, end);
    let fresh = 0;
    for (const mark of marks) fresh += 1 - mark;
    marks.fill(1);
    if (first <= all[1] && end >= all[0]) whole[tensor] = hull(all, [first, end]);
    return (bytes * fresh) / (end - first);
  };
}

/** Index of the first event of `mine` that is another one in `right` (the log-sum-exp left out); null if there is none. */
export function firstDifference(mine, right) {
  const keep = (lane) => lane.map((e, i) => [i, [e.tensor, e.rows, e.cols, e.kind, e.program, e.bytes].join()]).filter(([i]) => lane[i].tensor !== "lse");
  const own = keep(mine), theirs = keep(right);
  const place = own.findIndex(([, key], i) => key !== theirs[i]?.[1]);
  if (place >= 0) return own[place][0];
  return own.length === theirs.length ? null : mine.length;
}

/** When the nearest event ends after (`way` 1) or before (-1) `clock`. */
function nextEnd(race, clock, way) {
  const edge = clock + way * race.end * 1e-9, ends = race.lanes.map(({ events, done }) => {
    let i = way > 0 ? done : done - 1; // events that are drawn; the clock may stand between two
    while (events[i] && way * (events[i].t1 - edge) <= 0) i += way;
    return events[i]?.t1 ?? (way > 0 ? race.end : 0);
  });
  return way > 0 ? Math.min(...ends) : Math.max(...ends);
}

const isScore = (tensor) => !["q", "k", "v", "o", "lse"].includes(tensor);
const STEPS = {
  naive: { qload: "S = Q Kᵀ", kload: "S = Q Kᵀ", sstore: "S = Q Kᵀ", sload: "P = softmax(S)", pstore: "P = softmax(S)", pload: "O = P V", vload: "O = P V", ostore: "O = P V" },
  flash: { qload: "keep it", kload: "for each key tile, S = Q Kᵀ on the chip", vload: "rescale O, add P V", ostore: "O / ℓ, finished", lsestore: "write the log-sum-exp" },
};

/** An event in words, with the line of the algorithm that makes it. */
function says(lane, e) {
  const step = STEPS[lane.name === "naive" ? "naive" : "flash"][(isScore(e.tensor) && e.tensor !== "p" ? "s" : e.tensor) + e.kind];
  return `${lane.name === "naive" ? "" : `program ${e.program}, `}${e.kind} ${e.tensor.toUpperCase()} rows ${e.rows[0]}–${e.rows[1] - 1}${step ? `: ${step}` : ""}`;
}

/** The longest of its words that have room. */
function doing(lane, e, room, fs) {
  room -= fs;
  const whole = says(lane, e), own = whole.replace(/^program \d+, /, ""), said = [whole, own, own.replace(/^\w+ (\w+) rows/, "$1"), own.split(": ").at(-1)];
  return said.find((text) => wide(text, 0.76 * fs) < room) ?? said[3].split(", ").at(-1);
}

const raceRate = (race, clock, get) => `The clock, ${timeText(clock)} of ${timeText(race.end)}, is bytes ÷ ${race.chip().gb_per_s} GB/s (${get("gpu")}), not measured time.`;

const writtenOf = (lane) => `${lane.written ? Math.floor((100 * lane.written) / lane.outs) : 0} %`;

/** What the other lane is guessed against, and what most of it is. */
function givenOf({ total, parts }) {
  const scores = parts.reduce((sum, [tensor, bytes]) => sum + (isScore(tensor) ? bytes : 0), 0);
  return `ends at ${amount(total)}${scores ? `, ${Math.round((100 * scores) / total)} % S and P` : ""}`;
}

/** What stands large above a lane: how much of O it has; at the end, of two, how many times the other's bytes. */
function scoreOf({ lanes, end }, lane, clock) {
  const least = Math.min(...lanes.map(({ total }) => total));
  return lanes.length > 1 && clock >= end ? [`${short(lane.total / least, 3)} ×`, " the bytes"] : [writtenOf(lane), " of O written"];
}

/** Round ticks below the tapes, none of them where a tape ends: that is the question. */
function tapeScale(text, { box: { fs, tw, low }, axis, lanes }) {
  const most = Math.min(10, tw / (5.2 * fs)); // as many nodes for every N
  const steps = [...Array(16).keys()].flatMap((power) => [1, 2, 5].map((m) => m * 10 ** power)).filter((step) => axis / step < most);
  const tells = (step) => lanes.some(({ total }) => Math.abs(total / step - Math.round(total / step)) * step < 0.02 * axis);
  const step = steps.slice(0, 3).find((step) => !tells(step)) ?? steps[0];
  return [...Array(Math.ceil(most)).keys()].flatMap((i) => {
    const at = (i * step) / axis, x = at * tw;
    return [
      v("path", { class: "fac-race-tick", d: at < 1 ? `M${x} ${low + SEEK - 2}v4` : "" }),
      text(x, low + SEEK + 1.15 * fs, "fac-race-soft", at >= 1 ? "" : i ? bytesText(i * step) : "0 bytes", { "text-anchor": !i ? "start" : x > tw - 2 * fs ? "end" : "middle" }),
    ];
  });
}

const ORDER = ["q", "o", "k", "v"]; // how tiles lie on the desk; then S
/** One program's tiles, where no desk is drawn: each under its matrix and to its scale (very large ones as large as there is room), full while it is there. */
function chipOf(text, lane, { box: { fs, lw, n, scale, chipH } }, get) {
  const { x, chipY } = lane, narrow = lw < 500, middle = chipY + chipH / 2, mid = middle + 0.33 * fs;
  const q = Math.min(get("block_q"), get("decode") ? 1 : n), k = Math.min(get("block_k"), n), rows = { q, k, v: k, o: q, s: q }, lens = Math.min(1, (chipH - 0.7 * fs) / (Math.max(q, k) * scale));
  lane.slots = {};
  const nodes = [v("rect", { class: "fac-race-chip", x, y: chipY, width: lw, height: chipH, rx: 4 })];
  for (const [t, at] of Object.entries(lane.at)) {
    const w = t === "s" ? Math.max(2, lens * k * scale) : lens * at.w, h = Math.max(2, lens * rows[t] * scale), slot = (lane.slots[t] = { x: at.x, y: middle - h / 2, w, h });
    nodes.push(v("rect", { class: "fac-race-slot", x: slot.x, y: slot.y, width: w, height: h }), text(at.x + w + 0.25 * fs, mid, "fac-race-soft", t === "s" && !narrow ? "S" : "")); // the others’ names stand above them
  }
  const { s } = lane.slots;
  lane.statusX = s.x + s.w + (narrow ? 0.4 : 1.5) * fs;
  const two = x + lw - lane.statusX < 14 * fs; // lines, where the words would meet
  nodes.push(text(x + lw - 0.7 * fs, two ? middle + (narrow ? 0.72 : 0.9) * fs : mid, "fac-race-name", "on chip", { "text-anchor": "end" }));
  lane.statusY = two ? middle - 0.42 * fs : mid;
  lane.statusW = x + lw - lane.statusX - (two ? 0 : 4 * fs);
  return nodes;
}

/** L2 as a band: its width is its capacity. */
function l2Band(text, lane, race, get) {
  const { fs, lw, n, d } = race.box, { x, l2 } = lane, b = race.b(), chip = race.chip(), naive = lane.name === "naive";
  const sizes = { q: 1, k: 1, v: 1, o: 1, ...(naive ? { s: 2 } : {}) }, small = n * d * b;
  const nodes = [v("rect", { class: "fac-race-panel", x, y: l2, width: lw, height: 1.9 * fs, rx: 4 })];
  let left = x;
  for (const [t, many] of Object.entries(sizes)) {
    const w = (lw * many * (t === "s" ? lane.scores : small * (get("decode") && "qo".includes(t) ? 1 / n : 1))) / chip.l2;
    nodes.push(v("rect", { class: `fac-fill-${t} fac-race-cached`, x: left, y: l2, width: Math.max(0, Math.min(w, x + lw - left)), height: 0.45 * fs }));
    left += w;
  }
  const spills = left > x + lw, [what, bytes, then] = naive ? ["S and P", 2 * lane.scores, "may stay here"] : ["K and V", 2 * small, "read again from here"];
  nodes.push(text(x + 6, l2 + 1.5 * fs, "fac-race-soft", `L2: ${bytesText(chip.l2, 1024)}`));
  nodes.push(text(x + lw - 6, l2 + 1.5 * fs, spills ? "fac-race-small fac-race-bad" : "fac-race-small", `${what} (${bytesText(bytes)}) ${spills ? `do not fit${lw < 460 ? "" : ": they cross HBM"}` : `fit: ${then}`}`, { "text-anchor": "end" }));
  return nodes;
}

/** What there is to see now, in one line. */
function raceTitle(race, clock, get) {
  const [one, two] = race.lanes, name = (lane) => race.data().titles[lane.name], first = (x) => x[0].toUpperCase() + x.slice(1);
  const done = writtenOf, scores = (lane) => lane.events.reduce((sum, e) => sum + (isScore(e.tensor) ? e.bytes : 0), 0);
  if (!two) {
    if (!clock) return `What does ${name(one)} move?`;
    if (clock < race.end) return `${amount(one.now)} moved, ${done(one)} of O written`;
    return `${first(name(one))} moves ${amount(one.total)}${scores(one) ? `, ${Math.round((100 * scores(one)) / one.total)} % of it S and P` : ""}`;
  }
  if (!clock) return `${one.name === "naive" ? `${first(name(one))} moves ${amount(one.total)}. ` : ""}How much will ${name(two)} move?`;
  if (race.difference != null && race.lanes[1].events[race.difference]?.t0 <= clock) return `${first(name(two))} leaves the right path at event ${race.difference + 1}`;
  const [short_, long] = one.total < two.total ? [one, two] : [two, one], times = long.total / short_.total;
  if (amount(one.now) === amount(two.now) && clock < race.end) return `After ${amount(one.now)} each: ${name(two)} has ${done(two)} of O, ${name(one)} ${done(one)}`;
  if (clock < race.end) return `Of O, ${name(two)} has written ${done(two)}, ${name(one)} ${done(one)}`;
  if (times < 1.02) return `${first(name(one))} and ${name(two)} move ${times === 1 ? "" : "nearly "}the same: ${amount(one.total)}${times === 1 ? "" : ` and ${amount(two.total)}`}`;
  return `For the same O, ${name(long)} moves ${short(times, 3)}\u00a0× the bytes of ${name(short_)}`;
}

/** What the tapes count, in words; with the caches drawn, what of it HBM carries. */
function raceSays(race, clock, get) {
    const wrong = race.difference == null || clock < race.end ? "" : ` The first difference is event ${race.difference + 1}: ${race.lanes[1].events[race.difference] ? says(race.lanes[1], race.lanes[1].events[race.difference]) : "yours has ended"}${race.lanes[0].events[race.difference] ? `, where the other does: ${says(race.lanes[0], race.lanes[0].events[race.difference])}` : ""}.`;
  const stripe = clock ? " A mark below a matrix: once over all of it." : "";
  const asked = "Tape: every load and store, by size", [badge] = race.badges;
  const thin = clock && race.lanes.some((lane) => lane.group.some((first, i) => first !== i));
  if (!clock || clock < race.end) return `${asked}, in order${thin ? "; what is thin lies together" : ""}${race.badges.length > 1 ? "" : `; ${badge}`}.${stripe}`;
  if (!get("caches")) return `${asked}; caches may serve a part.${stripe}${wrong}`;
  const least = race.lanes.map((lane) => bytesText(Math.round(lane.least)));
  const stays = race.lanes.some((lane) => lane.name === "naive" && 2 * lane.scores <= race.chip().l2), rest = `L2 may give the rest${stays ? ": for this N, S and P fit into it, for a larger one they do not" : ""}`;
  return `${asked}. HBM itself carries at least ${[...new Set(least)].join(" and ")} of ${least.length > 1 && least[0] === least[1] ? "either" : "it"}; ${rest}.${wrong}`;
}

const amount = (bytes) => bytesText(Number(bytes.toPrecision(3)));
const timeText = (seconds) => (seconds < 1e-3 ? `${short(seconds * 1e6, 3)} µs` : `${short(seconds * 1e3, 3)} ms`);

/** What the flag asks for, and what has come of the prediction so far. */
function verdict({ box: { width, fs, stacked } }, lane, mark, over) {
  if (mark < 0) return "to where this tape will end";
  const flag = Math.max(1, mark), low = lane.now > flag, times = low ? lane.total / flag : flag / lane.total;
  const came = !over ? (low ? "already passed" : "") : times < 1.02 ? "right" : `${short(times, 3)} × too ${low ? "low" : "high"}`;
  const says = `${amount(flag)}${came && `, ${came}`}`, words = ["your flag: ", "you: "].map((who) => who + says);
  return (stacked ? words.find((text) => wide(text, fs) < width - 9 * fs) : words[0]) ?? says;
}

/** Write it; where it has a line of its own, above the flag. */
function judge(race, lane, mark, over, title) {
  const { tw, width, fs, stacked } = race.box, says = verdict(race, lane, mark, over), x = (mark / race.axis) * tw + wide(says, 0.5 * fs);
  write(lane.flagText, says);
  if (stacked && mark >= 0) renew(lane.flagText, { x: Math.min(width, Math.max(wide(`${title}${says}`, fs) + 1.4 * fs, x)) });
}

/** The name of S's corner, on a plate: inside S, or right of a small one, where room is. */
function cornerName(text, over, { box }, S, lane) {
  const { fs } = box, right = lane.x + box.lw - S.x - S.w - 1.2 * fs, inside = S.w - 1.4 * fs >= right, low = S.h < 3 * fs ? 2.4 : -0.8; // one row of S has no inside
  const says = handleSays(over, "n", Math.max(S.w - 1.4 * fs, right), `N = ${box.n}`, `N ${box.n}`), w = wide(says, 0.8 * fs) + 0.8 * fs;
  const x = S.x + S.w + (inside ? -0.9 : 0.8) * fs, y = S.y + S.h + (inside ? low : 0.3) * fs;
  return [v("rect", { class: "fac-tag", x: x - (inside ? w - 0.4 * fs : 0.4 * fs), y: y - 1.05 * fs, width: says ? w : 0, height: 1.4 * fs, rx: 4 }), text(x, y, "fac-t-hand fac-race-pill", says, { "text-anchor": inside ? "end" : "start", "data-names": "n" })];
}

/** The name of a tile's edge, between the strips of Q and K, as K's fringe grows at its right; two at one height, one below the other. */
function tileName(text, { box: { fs, scale }, lanes }, trait, get) {
  const { q, k } = lanes.at(-1).at, room = k.x + k.w / 2 - q.x - q.w / 2 - Math.max(q.w + 4, 1.7 * fs), rows = get(trait), ofK = trait === "block_k";
  const edge = (at, rows) => Math.max(at.y + Math.min(at.h, get(rows) * scale), at.y + 1.1 * fs), own = edge(ofK ? k : q, trait), other = edge(ofK ? q : k, ofK ? "block_q" : "block_k");
  const near = !get("decode") && Math.abs(own - other) < 1.3 * fs, y = near ? (own + other) / 2 + (ofK ? 0.65 : -0.65) * fs : own;
  const arrow = ofK ? [" ", " ▸"] : ["◂ ", ""], words = [` = ${rows}`, ` ${rows}`], fits = (words, more) => 6.2 * (2.5 + more + words.length) < room;
  const pointed = words.find((says) => fits(says, 2)), says = pointed ? pointed + arrow[1].trimEnd() : words.find((says) => fits(says, 0.5));
  const name = says ? [[`${pointed ? arrow[0].trimStart() : ""}B`], [trait.at(-1), { dy: "0.3em", "font-size": "75%" }], [says, { dy: "-0.225em" }]] : [[7 * String(rows).length < room ? rows : ""], [""], [""]];
  return text((q.x + q.w / 2 + k.x + k.w / 2) / 2, y + 0.3 * fs, "fac-t-hand", name.map(([words, more]) => v("tspan", more ?? {}, String(words))), { "data-names": trait, "text-anchor": "middle" });
}

// What the picture asks for, as plain objects; nodes that are there are changed, for to make one takes longer.
const v = (tag, attributes, content, more) => ({ tag, attributes, content, ...more });

/** Make the children of `parent` those that are wanted; `held` makes a new handle a grip. */
function patch(parent, wanted, held) {
  const nodes = (parent.facNodes ??= []);
  wanted.forEach(({ tag, attributes, content, act, on, ref }, i) => {
    let node = nodes[i];
    if (node?.localName !== tag) {
      const made = s(tag);
      if (node) node.replaceWith(made);
      else parent.append(made);
      node = nodes[i] = made;
    }
    for (const name in node.facHas) if (!(name in attributes)) {
      node.removeAttribute(name);
      delete node.facHas[name];
    }
    renew(node, attributes);
    node.facAct = act;
    if (act && !node.facGrip) node.facGrip = held(node);
    Object.assign(node, { onpointermove: on?.move ?? null, onpointerleave: on?.leave ?? null });
    if (Array.isArray(content)) {
      if (!node.facNodes) node.textContent = "";
      patch(node, content, held);
    } else if (content != null) {
      if (node.facNodes) node.facNodes = null;
      write(node, content);
    }
    ref?.(node);
  });
  for (const node of nodes.splice(wanted.length)) node.remove();
}
