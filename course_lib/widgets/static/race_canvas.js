// The Race's canvas: what lies where, every area at one scale, and the tiles that move; words and handles: race.js.

const colourOf = (tensor) => COLOUR[isScore(tensor) ? "s" : tensor] ?? COLOUR.other;
const homeOf = ({ tensor }) => (isScore(tensor) ? "s" : tensor);
const SEEK = 22; // pixels: the slider below the tapes
const ease = (u) => (u < 0.5 ? 2 * u * u : 1 - 2 * (1 - u) ** 2);

/** A property that is made when it is first asked for. */
function lazily(of, name, make) {
  const get = () => {
    const value = make();
    Object.defineProperty(of, name, { value });
    return value;
  };
  Object.defineProperty(of, name, { get, configurable: true });
}

/** What has been before each event. */
const sums = (events, what, sum = 0) => events.map((e) => (sum += e[what]) - e[what]);

/** Each trip over S and P is a tone darker than the one before. */
const toned = (events, trips = []) => events.map((e) => {
  const trip = e.tensor + e.kind, score = isScore(e.tensor);
  if (score && !trips.includes(trip)) trips.push(trip);
  return { ...e, tone: score ? Math.min(1, 0.4 + 0.2 * trips.indexOf(trip)) : 1 };
});

/** The lanes of a model, laid out and painted: `box` has the sizes, a lane's `at` its matrices. */
function raceCanvas(get) {
  const data = () => get("data"), b = () => data().dtypes[get("dtype")], chip = () => data().gpus[get("gpu")];
  const [layer, canvas] = ["laid", "moves"].map((what) => h("canvas", { class: `fac-race-canvas fac-race-${what}`, "aria-hidden": "true" })); // one above the other
  const [laid, moving] = [layer, canvas].map((c) => c.getContext("2d"));
  const race = { lanes: [], axis: 1, end: 1, box: null, difference: null };

  // Data: lanes on the clock
  function prepare() {
    const shape = { n_q: get("decode") ? 1 : get("n"), n_k: get("n"), d: get("d"), block_q: get("block_q"), block_k: get("block_k"), causal: get("causal"), b: b() };
    const rate = chip().gb_per_s * 1e9;
    race.lanes = get("lanes").map((name) => {
      const kernels = data().replays[name]?.kernels ?? (name === "flash" ? flashKernels(shape) : naiveKernels(shape, data().operations)), settings = [get("at_once"), chip().gb_per_s, chip().l2];
      let total = 0;
      const parts = kernels.flatMap((kernel) => { // what each kernel moves of each matrix
        const sums = {};
        for (const program of kernel) for (const move of program) (total += move[4]), (sums[move[0]] = (sums[move[0]] ?? 0) + move[4]);
        return Object.entries(sums);
      });
      const lane = { name, total, parts, ends: total / rate, badge: data().replays[name]?.badge ?? data().badges[name] };
      // what a tape of which nothing has run yet does not show
      lazily(lane, "events", () => toned(schedule(kernels, ...settings)));
      lazily(lane, "from", () => sums(lane.events, "bytes"));
      lazily(lane, "past", () => sums(lane.events, "least")); // of the thin tape, as `from` of the tape
      lazily(lane, "least", () => lane.past.at(-1) + lane.events.at(-1).least);
      lazily(lane, "outs", () => lane.events.reduce((sum, e) => sum + (e.tensor === "o" && e.kind === "store" ? e.bytes : 0), 0) || 1);
      lazily(lane, "group", () => groups(lane));
      lazily(lane, "trips", () => short(lane.events.reduce((sum, e) => sum + (isScore(e.tensor) ? e.bytes : 0), 0) / lane.scores, 3));
      return lane;
    });
    race.badges = [...new Set(race.lanes.map((lane) => lane.badge))];
    race.axis = Math.max(...race.lanes.map((lane) => lane.total));
    race.end = race.axis / rate;
    race.difference = race.lanes[1]?.name === "replay" && race.lanes[0].name !== "naive" ? firstDifference(race.lanes[1].events, race.lanes[0].events) : null;
  }

  /** The first event of each one's group: moves thinner than two pixels lie in one, of few: K and V still take turns. It begins with a Q and ends with an O: no K comes before its Q. */
  function groups({ events, from }) {
    const first = [], thin = (2 * race.axis) / race.box.tw;
    events.forEach((e, i) => {
      const before = first[i - 1], last = events[i - 1]?.tensor, cut = e.tensor !== last && (e.tensor === "q" || last === "o");
      const joins = i && !cut && e.bytes < thin && events[before].bytes < thin && from[i] - from[before] < 3 * thin;
      first.push(joins ? before : i);
    });
    return first;
  }

  // Layout: everything in CSS pixels, every area at one scale
  function arrange(width) {
    const big = get("presenter"), caches = get("caches"), fs = big && caches ? 18 : typeSize({ get });
    const stacked = width < 720, gap = stacked ? 0 : 1.6 * fs, count = race.lanes.length;
    const lw = stacked || count === 1 ? width : (width - gap) / count, meter = count > 1 ? (stacked ? 4 : 6) * fs : 0, tw = width - 1 - meter;
    const n = get("n"), d = get("d"), base = Math.max(512, 2 ** Math.ceil(Math.log2(n)));
    // the same for nearly every N: a picture that grows under the hand costs a layout of the page, too
    const most = big ? (caches ? 180 : 340) : ((count === 1 ? 300 : stacked ? 102 : 244) * fs) / 15; // with a chip of 2.5 letters, or of a quarter of what lies above: 128 rows of 512
    const H = Math.min(caches ? most : (most + 1.7 * fs) / 1.25, (lw - 14.4 * fs) / (1 + Math.max(0.5, (4 * d) / base))), scale = H / base;
    const headH = (caches ? 3.4 : 2.3) * fs, panelH = H + 4.6 * fs, deskH = Math.round(Math.max(0.4 * H, 4 * fs)), chipH = Math.max(2.5 * fs, H / 4 + 0.8 * fs), laneH = headH + panelH + (caches ? 5.9 * fs + deskH : chipH + 0.4 * fs);
    const tape = 1.8 * fs, thin = caches ? 0.65 * fs : 0, rows = stacked ? count : 1, tops = rows * (laneH + 0.6 * fs) + 0.2 * fs;
    const first = stacked && count > 1, each = tape + (caches ? thin + 1.9 * fs : 0.2 * fs), under = SEEK + 5.7 * fs, tapes = first ? count * each + 5.7 * fs + under : 0; // below the tapes their slider, its scale and Play; on a phone they come first
    let y = first ? 0 : tops;
    race.lanes.forEach((lane, i) => {
      lane.x = stacked ? 0 : i * (lw + gap);
      lane.y = stacked ? tapes + i * (laneH + 0.6 * fs) : 0;
      lane.panel = lane.y + headH;
      lane.l2 = lane.panel + panelH + 0.4 * fs;
      lane.desk = lane.l2 + 3.8 * fs;
      lane.chipY = lane.panel + panelH + 0.5 * fs;
      lane.rise = i === count - 1 && count > 1 ? (stacked ? 3.4 : 2.8) * fs : 0; // the flag's row; where it is narrow the name has one of its own
      lane.bill = y + (lane.rise ? 0.3 : 1.5) * fs + lane.rise;
      lane.named = lane.bill - (lane.rise && stacked ? 2.75 : 0.45) * fs;
      y = lane.bill + each;
      lane.scores = n * (get("decode") ? 1 : n) * b();
      const queries = get("decode") ? 1 : n;
      let x = lane.x + Math.max(0.9 * fs, 1.3 * fs - (d * scale) / 2);
      const strip = Math.max(2, d * scale), gaps = Object.fromEntries(Object.entries({ q: 3.9, k: 3, v: 2.6, o: 1.9, s: 0 }).map(([t, gap]) => [t, Math.max(gap * fs, 2.7 * fs - strip)]));
      const used = x - lane.x + 4 * strip + H + gaps.q + gaps.k + gaps.v + gaps.o, free = Math.max(0, Math.min(1.8 * fs, (lw - 1.3 * fs - used) / 4));
      lane.at = {};
      for (const t of ["q", "k", "v", "o", "s"]) {
        const w = Math.max(2, (t === "s" ? n : d) * scale), tall = Math.max(2, ("kv".includes(t) ? n : queries) * scale);
        lane.at[t] = { x, y: lane.panel + 1.9 * fs, w, h: tall, sx: w / (t === "s" ? n : d), sy: tall / ("kv".includes(t) ? n : queries) };
        x += w + free + gaps[t];
      }
    });
    race.box = { width, stacked, fs, lw, tw, meter, n, d, base, scale, H, panelH, deskH, chipH, tape, thin, low: y, pixels: Math.min(2, devicePixelRatio || 1), zoom: H / 512, height: first ? tapes + tops - 0.8 * fs : y + under };
  }
  /** How often a matrix has crossed, of all its bytes. */
  const timesOf = (lane, t, moved = lane.reads[t] ?? 0) => moved / (t === "s" ? lane.scores : race.box.n * race.box.d * b() * ("qo".includes(t) && get("decode") ? 1 / race.box.n : 1));
  /** From one of the marks below a matrix to the next, one for each time: so many have room in all lanes. */
  const pitchOf = () => Math.min(0.85 * race.box.fs, ...race.lanes.flatMap((lane) => ["k", "v"].map((t) => (lane.at[t === "k" ? "v" : "o"].x - lane.at[t].x - race.box.fs) / Math.ceil(timesOf(lane, t, lane.parts.reduce((sum, [of, bytes]) => sum + (of === t ? bytes : 0), 0))))));
  /** A count is no area: all marks are alike, and have no tensor's colour. */
  function tally(g, lane, clock) {
    const { fs } = race.box, pitch = (race.box.pitch ??= pitchOf()), size = pitch < 3 ? pitch : Math.floor(pitch - 1.5);
    g.fillStyle = pen;
    for (const [t, { x, y, h }] of Object.entries(lane.at)) {
      const times = t === "o" ? 0 : timesOf(lane, t), left = x + 0.6 * fs, top = y + h + (t === "q" && h < fs ? 2.55 : 1.25) * fs;
      for (let i = 0; i < times - 0.01; i += 1) g.fillRect(Math.round(left + i * pitch), top, pitch < 3 ? size : Math.ceil(size * Math.min(1, times - i)), 0.6 * fs);
      if (clock && t === "s" && lane.name === "naive") for (let i = 0; i < lane.trips; i += 1) g.strokeRect(Math.round(left + i * pitch), top, size, 0.6 * fs); // those to come, too
    }
  }
  const wall = () => ((chip().shared / b()) * race.box.zoom ** 2) / race.box.deskH;
  const slot = (rows, cols) => (rows * cols * race.box.zoom ** 2) / race.box.deskH;
  const place = (lane, e) => {
    const at = lane.at[homeOf(e)];
    if (!at) return null;
    const whole = e.tensor === "lse";
    if (whole) return null;
    const k = race.box.pixels, whole_ = (edge) => Math.round(edge * k) / k, x = whole_(at.x + e.cols[0] * at.sx), right = whole_(at.x + e.cols[1] * at.sx), y = whole_(at.y + e.rows[0] * at.sy), low = whole_(at.y + e.rows[1] * at.sy); // else neighbours have seams
    return { x, y, w: Math.max(2, right - x), h: Math.max(2, low - y) };
  };
  /** Where the tiles of a program lie on the desk: x and width of each, and of S. */
  function slots(lane) {
    const q = Math.min(get("block_q"), get("decode") ? 1 : get("n")), k = Math.min(get("block_k"), get("n"));
    const sizes = { q: slot(q, get("d")), o: slot(q, get("d")), k: slot(k, get("d")), v: slot(k, get("d")), s: slot(q, k) };
    let x = lane.x + 2;
    return Object.fromEntries([...ORDER, "s"].map((t) => [t, { x, w: sizes[t] }, (x += sizes[t] + 3)]));
  }

  // The pictures: what stays on a layer, what moves on top
  let pen, ground;
  function paint(g, tensor, x, y, w, tall, alpha = 1) {
    g.globalAlpha = alpha;
    g.fillStyle = colourOf(tensor);
    g.fillRect(x, y, w, tall);
    g.globalAlpha = 1;
  }
  function look() {
    const { color, outlineColor } = getComputedStyle(canvas), other = pen !== color || ground !== outlineColor;
    [pen, ground] = [color, outlineColor];
    return other;
  }
  function blank() {
    const k = race.box.pixels;
    for (const c of [canvas, layer]) {
      const w = Math.round(race.box.width * k), tall = Math.round(race.box.height * k);
      if (c.width === w && c.height === tall) continue;
      [c.width, c.height] = [w, tall];
      c.getContext("2d").setTransform(k, 0, 0, k, 0, 0);
    }
    if (pen) requestAnimationFrame(() => look() && race.again()); // a new theme; asked now, it would cost a look at all that is new
    else look();
    laid.clearRect(0, 0, race.box.width, race.box.height);
    for (const lane of race.lanes) {
      Object.assign(lane, { done: 0, reads: {}, moved: 0, least0: 0, written: 0 });
      for (const t of "qkv") paint(laid, t, lane.at[t].x, lane.at[t].y, lane.at[t].w, lane.at[t].h, 0.3); // pale until it is read
    }
  }
  /** Lay an event that is over onto the layer: the byte on the tape, the tile stored, the row worn. */
  function finish(lane, e, i) {
    const p = place(lane, e);
    lane.least0 = lane.past[i] + e.least;
    if (e.tensor === "o" && e.kind === "store") lane.written += e.bytes;
    lane.moved = lane.from[i] + e.bytes;
    const t = homeOf(e);
    lane.reads[t] = (lane.reads[t] ?? 0) + e.bytes;
    if (!p) return;
    laid.clearRect(p.x, p.y, p.w, p.h);
    paint(laid, e.tensor, p.x, p.y, p.w, p.h, e.tone);
  }
  /** Lay what is over onto both tapes, from event `start` on; the bytes of a group tensor by tensor, as first met. */
  function ink(lane, start, stop = lane.done, g = laid, alpha = 1) {
    const { tape, thin } = race.box;
    for (let i = lane.group[start], j; i < stop; i = j) {
      for (j = i + 1; j < stop && lane.group[j] === i; ) j += 1;
      const group = lane.events.slice(i, j);
      strip(g, alpha, group, "bytes", lane.from[i], lane.bill, tape);
      if (thin && g === laid) strip(g, alpha, group, "least", lane.past[i], lane.bill + tape + 4, thin);
    }
  }
  function strip(g, alpha, group, what, from, y, tall) {
    const px = race.box.tw / race.axis, sums = {};
    for (const e of group) if (e[what]) (sums[e.tensor + e.kind] ??= [e, 0])[1] += e[what];
    const k = race.box.pixels, edge = (byte) => Math.round(byte * px * k) / k; // else thin tiles blend
    let end = from;
    for (const [e, sum] of Object.values(sums)) {
      const x = edge(end), w = edge((end += sum)) - x;
      g.clearRect(x, y, w, tall);
      paint(g, e.tensor, x, y, w, tall, alpha * e.tone);
    }
  }
  /** An outline that is seen on every colour. */
  function ring(g, o, lines) {
    for (const [line, colour] of lines) {
      [g.lineWidth, g.strokeStyle] = [line, colour];
      g.strokeRect(o.x, o.y, o.w, o.h);
    }
  }
  const fill = (g, tensor, o) => o && paint(g, tensor, o.x, o.y, o.w, o.h);
  /** An arrow from a tile to where it goes, or from there: down, across its matrix, down. */
  function link(g, p, to, loads, foot) {
    const x0 = p.x + p.w / 2, x1 = to.x + to.w / 2, y0 = Math.min(p.y + p.h + 4, foot), y1 = to.y - 4, low = Math.min(y0 + 2 * race.box.fs, foot), [x, y, way] = loads ? [x1, y1, -1] : [x0, y0, 1];
    for (const [line, colour] of [[5, ground], [1.8, pen]]) {
      [g.lineWidth, g.strokeStyle] = [line, colour];
      g.beginPath();
      for (const [i, [a, b]] of [[x0, y0], [x0, low], [x1, low], [x1, y1]].entries()) g[i ? "lineTo" : "moveTo"](a, b);
      g.moveTo(x - 4, y + 8 * way);
      g.lineTo(x, y);
      g.lineTo(x + 4, y + 8 * way);
      g.stroke();
    }
  }
  function draw(clock, still) {
    if (race.lanes.some((lane) => lane.done && lane.events[lane.done - 1].t1 > clock)) blank();
    const g = moving;
    for (const lane of race.lanes) {
      const start = lane.done;
      while (clock > 0 && lane.done < lane.events.length && lane.events[lane.done].t1 <= clock) finish(lane, lane.events[lane.done], lane.done++);
      if (lane.done > start) ink(lane, start);
    }
    g.clearRect(0, 0, race.box.width, race.box.height);
    [g.lineWidth, g.strokeStyle] = [0.5, pen];
    for (const lane of race.lanes) {
      const at = slots(lane), top = lane.desk, now = [], desk = get("caches"), px = race.box.tw / race.axis;
      for (let i = lane.done; clock > 0 && i < lane.events.length && lane.events[i].t0 <= clock; i += 1) now.push(lane.events[i]);
      const first = now[0], u = first ? (clock - first.t0) / (first.t1 - first.t0) : 0, flies = ease(u);
      if (lane.name !== "naive" && first) { // what this program has on its desk
        const has = {};
        for (let i = lane.done - 1; i >= 0 && lane.done - i < 600 && !has.q; i -= 1) if (lane.events[i].program === first.program && lane.events[i].kind === "load") has[lane.events[i].tensor] ??= lane.events[i];
        for (const t of [...ORDER, "s"].filter((t) => has[t] || (t === "o" && has.v) || (t === "s" && has.q && has.k))) {
          if (desk) paint(g, t, at[t].x, top, at[t].w, race.box.deskH);
          else fill(g, t, lane.slots[t]);
        }
        const q = has.q && now.length === 1 && place(lane, has.q);
        if (q) ring(g, q, [[4, ground], [1.5, pen]]); // whose answer is being made
      }
      if (!desk && lane.name === "naive" && first) fill(g, first.tensor, lane.slots[homeOf(first)]);
      if (desk && lane.name === "naive" && first && place(lane, first)) { // it holds what has come, or has not left
        const home = at[homeOf(first)];
        paint(g, first.tensor, lane.x + 2, top, Math.min(home.w, wall()) * (still ? 1 : first.kind === "load" ? u : 1 - u), race.box.deskH);
      }
      if (!clock && lane.name === "naive" && race.lanes[1]) ink(lane, 0, lane.events.length, g, 0.48); // given: what the other is guessed against
      tally(g, lane, clock);
      let moved = lane.moved;
      now.forEach((e, k) => {
        const p = place(lane, e), head = { x: moved * px, y: lane.bill, w: Math.max(2, e.bytes * px), h: race.box.tape };
        paint(g, e.tensor, head.x, lane.bill, e.bytes * u * px, race.box.tape, e.tone);
        moved += e.bytes * u;
        if (!p) return;
        const spread = lane.x + ((k + 0.5) / now.length) * race.box.lw, size = Math.min(9, p.w);
        const home = at[homeOf(e)], most = Math.min(home.w, wall());
        // to the desk, or, where none is drawn, what crosses is laid on the tape
        const to = !desk ? head : k ? { x: spread, y: top - 0.3 * race.box.fs, w: size, h: size } : { x: lane.name === "naive" ? lane.x + 2 : home.x, y: top, w: most, h: race.box.deskH };
        const share = !desk || e.kind === "load" ? flies : 1 - flies;
        const r = Object.fromEntries("xywh".split("").map((c) => [c, p[c] + (to[c] - p[c]) * share]));
        g.save();
        if (desk) {
          g.beginPath(); // what is under way goes behind the labels between the shelf and the desk
          g.rect(lane.x, lane.y, race.box.lw, lane.at.k.y + race.box.H + 2 - lane.y);
          g.rect(lane.x, top - 2, race.box.lw, race.box.deskH + 4);
          g.clip();
        }
        if (!still) {
          g.fillStyle = colourOf(e.tensor);
          g.fillRect(r.x, r.y, r.w, r.h);
        }
        for (const o of !still ? [r] : k || !desk ? [p] : [p, to]) ring(g, o, now.length > 1 ? [[3, ground], [1, pen]] : [[6, ground], [2.5, pen]]);
        g.restore();
        const slot = !desk && lane.slots[homeOf(e)], at_ = lane.at[homeOf(e)];
        if (still && !k) link(g, { ...p, x: p.x + 1, w: 0 }, slot ? { ...slot, x: slot.x + 1, w: 0 } : to, e.kind === "load", at_.y + at_.h - 2); // through no word
      });
      lane.now = moved;
      lane.current = first;
    }
  }
  return Object.assign(race, { layer, canvas, data, b, chip, prepare, arrange, wall, slots, timesOf, place, blank, draw });
}
