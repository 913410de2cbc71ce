// A server's memory over time, by policies: a lane for each request, and the pool at one moment.
// The runs are recorded; this looks them up. What it exports is held against Python in
// tests/widgets/test_javascript.py.

/** The run of a lane at a setting. */
export const runAt = (lane, { pages, every, prompt }) => lane[`${pages} ${every} ${prompt}`];

/** When what happened to a request: it came, was admitted, got a token, stopped (the last three as often as it was admitted), gave back its memory. Summed once: every part of the picture asks. */
const summed = new WeakMap();
const momentsOf = (spent, came) => {
  if (!summed.has(spent)) summed.set(spent, spent.reduce((m, ms) => (m.push(m.at(-1) + ms), m), [came]));
  return summed.get(spent);
};

const inMemory = (m, t) => {
  for (let k = 1; k < m.length - 1; k += 3) if (m[k] <= t && t < m[k + (k + 4 === m.length ? 3 : 2)]) return true;
  return false;
};

/** Who has memory in a millisecond: [request, rows used, rows held]. A request is [came, prompt, output]. */
export function memoryAt(run, requests, t, { pages, reserved, size }) {
  const found = new Map(), prompts = [], last = (m, k) => 3 * k + 5 === m.length;
  run.lanes.forEach((spent, i) => {
    const [came, prompt, output] = requests[i], m = momentsOf(spent, came);
    if (!inMemory(m, t)) return;
    let spell = 0;
    while (t >= m[3 * spell + 3] && !last(m, spell)) spell += 1;
    const [token, stop] = m.slice(3 * spell + 2), lost = run.lost[i] ?? [];
    const first = Math.max(prompt, ...lost.slice(0, spell).map((rows) => rows + 1)), end = [...lost, prompt + output - 1][spell];
    if (t < token) prompts.push([i, Math.min(first, end)]);
    else found.set(i, t < stop ? first + Math.floor(((end - first) * (t - token)) / (stop - token)) : 0);
  });
  let free = pages;
  for (const rows of found.values()) free -= Math.ceil(Math.max(rows, reserved) / size);
  for (const [i, rows] of prompts) {
    found.set(i, reserved ? rows : Math.min(rows, Math.max(0, free) * size));
    free -= Math.ceil(found.get(i) / size);
  }
  return [...found].sort(([a], [b]) => a - b).map(([i, rows]) => [i, rows, Math.ceil(Math.max(rows, reserved) / size) * size]);
}

function render({ model, el }) {
  const data = model.get("data"), get = (name) => model.get(name), NAMES = ["pages", "every", "prompt"];
  const LABELS = { pages: "rows of the pool", every: "ms between requests", prompt: "longest prompt, tokens" };
  const fields = NAMES.map((name) => {
    const size = name === "pages" ? data.page_size : 1, places = data.places[name].map((place) => place * size); // a pool is told in rows, as in the picture
    return field(LABELS[name], places, () => get(name) * size, (value) => {
      if (!places.includes(value)) return `One of ${places.join(", ")}, please.`;
      put(model, { [name]: value / size, at: -1 });
    });
  });
  const layer = s("g"), parts = scene(layer), picture = stage(model, "server-lanes", drawPicture, layer);
  const title = h("p", { class: "fac-finding" }), voice = announcer(), rest = h("table", { class: "fac-server-rest" });
  const marks = key(["fac-server-wait", "waiting"], ["fac-server-ended", "ended, seat held"], ["fac-key-waste", "held, but empty"], ["fac-server-prompt", "prompt computed"], ["fac-server-answer", "served"]);
  const [waitMark, endedMark, wasteMark] = marks.children; // the first three stand in the picture, where there is room
  marks.append(h("span", { class: "fac-soft" }, "Simulated by a cost model of an H100, not measured."));
  const SHOWN = 1; // of the facts: how fast; the pools show what is empty
  const fold = more("waits, steps", h("div", { class: "fac-server-scroll" }, rest), h("p", { class: "fac-soft" }, "Thrown out: the pool was full, so the youngest request gave its pages back and starts again later."));
  const tell = unfolded(fold, drawRest);
  root(model, el, title, picture.node, marks, h("div", { class: "fac-fields" }, fields.map((f) => f.node), fold), voice.node);

  const settings = () => Object.fromEntries(NAMES.map((name) => [name, get(name)]));
  const runs = () => Object.entries(data.lanes).map(([name, lane]) => [name, runAt(lane, settings())]);
  const requests = () => data.requests[`${get("every")} ${get("prompt")}`];
  const reserved = (name) => (data.reserving.includes(name) ? get("prompt") + data.answer : 0);
  const fastest = (all) => all.reduce((a, b) => (b[1].speed > a[1].speed ? b : a));
  const slowest = (all) => all.reduce((a, b) => (b[1].speed < a[1].speed ? b : a));
  const lasts = (all) => Math.round(1000 * Math.max(...all.map(([, run]) => run.seconds)));
  const moment = (all) => (get("at") < 0 ? fastest(all)[1].moment : Math.min(get("at"), lasts(all)));
  const timeText = (ms) => `${(ms / 1000).toFixed(2)} s`;

  function draw() {
    for (const f of fields) f.follow();
    write(title, finding(runs()));
    picture.draw();
    tell();
    voice.say(`Tokens a second: ${runs().map(([name, run]) => `${name} ${run.speed}`).join(", ")}.`);
  }

  /** What is not in the picture: the other facts, a row a policy. */
  function drawRest() {
    const others = data.facts.slice(SHOWN);
    rest.replaceChildren(h("tr", {}, h("th", {}), others.map(([, , what]) => h("th", { scope: "col" }, what))),
      ...runs().map(([name, run]) => h("tr", {}, h("th", { scope: "row" }, name), others.map(([fact, unit]) => h("td", {}, `${run[fact]}${unit}`)))));
  }

  /** How many times as many tokens a second as another policy makes, in words. */
  const gain = (run, than) => (run.speed / than.speed).toFixed(1);

  /** What is to be seen: what the same memory can do. */
  function finding(all) {
    const [[, first], , [, third]] = all, whole = gain(third, first);
    return whole === "1.0" ? "The same memory, the same speed" : `The same memory, ${whole} × the tokens a second`;
  }

  /** A panel for each policy: its requests as lines of one clock; and what the pool holds at the moment of the handle: beside them, or below the handle. */
  function drawPicture(width, fs) {
    const all = runs(), narrow = width < 700, end = lasts(all), at = moment(all), list = requests(), rows = get("pages") * data.page_size;
    const skip = narrow ? 2 : 1, pitch = narrow ? 4 : get("presenter") || all.length > 3 ? 2 : 3, tall = (pitch * list.length) / skip, left = 3.1 * fs, beside = narrow ? 0 : Math.min(27 * fs, 0.3 * width), across = width - left - 1 - (narrow ? 0.6 * fs : beside + 1.8 * fs);
    const box = { lines: narrow ? 2 : 4, wide: narrow ? width - 2 : beside, gap: 5, rows, fs };
    box.tall = narrow ? 1.2 * fs : (tall - (box.lines - 1) * box.gap) / box.lines;
    const asks = 0.9 * fs, above = asks + (narrow ? 0.4 : 0.7) * fs;
    const head = (narrow ? 2.5 : 1.6) * fs, each = head + tall + 0.8 * fs, clock = above + all.length * each + 0.8 * fs, pool = 1.7 * fs + box.lines * (box.tall + box.gap) + 0.3 * fs;
    const sx = (ms) => left + (across * ms) / end, right = left + across;
    const told = all.map(([name, run]) => ({ name, run, held: memoryAt(run, list, at, { pages: get("pages"), reserved: reserved(name), size: data.page_size }), ...counted(run, list, at) }));
    picture.svg.setAttribute("aria-label", `${list.length} requests over ${timeText(end)}, a line each, and a pool of ${rows} rows after ${timeText(at)}. ${told.map(({ name, run, held, served, waiting }) => `${name}: ${served} are served, ${held.length - served} have ended and hold memory, ${waiting} wait; ${run.speed} tokens a second, all done after ${short(run.seconds, 3)} s`).join(". ")}.`);
    picture.svg.setAttribute("role", "group"); // it holds a handle for the keyboard
    parts((add) => {
      const came = [...(narrow ? [] : [`${list.length} requests, a line each, one every ${get("every")} ms; ${rows} rows of memory, each for a token's K and V`]), `${narrow ? "every other of " : ""}${list.length} requests, a line each; ${rows} rows of memory`];
      add("asked", "text", { class: "fac-t-soft", x: 1, y: asks }, came.find((text) => wide(text, 0.87 * fs) < right) ?? came.at(-1));
      if (!narrow) add("when", "text", { class: "fac-t-name fac-server-when", x: right + 1.6 * fs, y: asks }, `in memory at ${timeText(at)}`);
      told.forEach((one, i) => {
        const top = above + i * each, y = Math.round(top + head), { name, run } = one, speed = `${run.speed} tokens a second`, begins = narrow ? 1 : 1 + wide(name, 1.08 * fs) + 0.6 * fs;
        add(`name ${name}`, "text", { class: "fac-t-name", x: 1, y: top + 1.05 * fs }, name);
        add(`speed ${name}`, "text", { class: "fac-server-fact fac-t-name", x: right, y: top + 1.05 * fs, "text-anchor": "end" }, speed);
        add(`what ${name}`, "text", { class: "fac-t-soft", x: begins, y: top + (narrow ? 2.1 : 1.05) * fs }, 0.9 * wide(data.policies[name], 0.87 * fs) < right - begins - (narrow ? 0 : wide(speed, 1.08 * fs)) ? data.policies[name] : "");
        const lit = one.held.map(([i]) => i), lane = (i) => (pitch * (i + 0.5)) / skip, ends = [...new Set([lit[0], lit.at(-1)])], mid = Math.min(tall - 0.3 * fs, Math.max(0.3 * fs, (lane(ends[0]) + lane(ends.at(-1))) / 2));
        for (const [line, text, mark] of [[0.3 * fs, "1", "soft"], [tall - 0.3 * fs, `${list.length - skip + 1}`, "soft"], ...(lit.length ? [[mid, ends.map((i) => i + 1).join("–"), "hand"]] : [])]) if (mark === "hand" || !lit.length || Math.abs(line - mid) > fs) add(`line ${mark === "hand" ? mark : text} ${name}`, "text", { class: mark === "hand" ? "fac-t-small fac-server-when" : "fac-t-soft", x: left - 0.35 * fs, y: y + line + 0.3 * fs, "text-anchor": "end" }, text);
        add(`ground ${name}`, "rect", { class: "fac-server-panel", x: left, y, width: across, height: tall });
        drawLanes(add, name, run, list, { sx, y, pitch, skip, fs, right, at, lit });
        if (!i) nameLanes(add, run, list, { sx, y, pitch, skip, fs, right, at });
        if (i === 1 || i === 2) drawGain(add, name, all.slice(0, i + 1), { sx, y, tall, fs, right });
        drawPool(add, one, narrow ? { ...box, x: 1, says: clock + 2.5 * fs + i * pool + fs, y: clock + 2.5 * fs + i * pool + 1.5 * fs, first: !i, of: `${name}: ` } : { ...box, x: right + 1.6 * fs, y, says: top + 1.05 * fs, first: !i, of: "" });
        const now = { d: `M${sx(at).toFixed(1)} ${y - 3}v${i + 1 < all.length ? tall + 6 : clock - y + 3}` };
        add(`now ${name}`, "path", { class: "fac-server-now", ...now });
        add(`hold ${name}`, "path", { class: "fac-server-hold", "data-handle": "moment", ...now }, "drag: the moment of the pools", goes({ left, across, end }));
      });
      drawTime(add, { sx, end, at, bottom: clock, left, across, width, fs });
    });
    return clock + 2.3 * fs + (narrow ? all.length * pool : 0);
  }

  /** Words in the first panel for what waits and for what has ended and keeps its seat, where they have room; else they stand below. */
  function nameLanes(add, run, list, { sx, y, pitch, skip, fs, right, at }) {
    const moments = run.lanes.map((spent, i) => momentsOf(spent, list[i][0])).filter((_, i) => i % skip === 0), now = sx(at), long = (text) => 0.93 * wide(text, 0.87 * fs);
    const many = Math.ceil((1.5 * fs) / pitch), clear = (from, to) => (now <= from || now >= to ? [from, to] : now - from > to - now ? [from, now] : [now, to]); // the moment strikes no word out
    let room = [0, 0], place = 0;
    for (let i = 0; i + many <= moments.length; i += 1) {
      const block = moments.slice(i, i + many), [from, to] = clear(sx(block.at(-1)[0]), sx(Math.min(...block.map((m) => m[1]))));
      if (to - from > room[1] - room[0]) [room, place] = [[from, to], i + many / 2];
    }
    waitMark.hidden = room[1] - room[0] > long("waiting") + fs;
    if (waitMark.hidden) add("waiting", "text", { class: "fac-t-small fac-server-lane-says", x: (room[0] + room[1]) / 2, y: y + place * pitch + 0.3 * fs, "text-anchor": "middle" }, "waiting");
    const says = "ended, seat held", fits = ([from, to]) => to + 0.5 * fs + long(says) < right && (now < to || now > to + 0.5 * fs + long(says));
    const ends = moments.map((m, i) => [sx(m.at(-2)), sx(m.at(-1)), i]).filter(fits).sort(([a, b], [c, d]) => d - c - (b - a))[0];
    endedMark.hidden = Boolean(ends) && ends[1] - ends[0] > fs;
    if (endedMark.hidden) add("ended", "text", { class: "fac-t-small", x: ends[1] + 0.4 * fs, y: y + (ends[2] + 0.5) * pitch - 0.15 * fs }, says);
  }

  /** What a step gains over the one above: how much sooner all have their answers, as an arrow in the room that it leaves; the last also over the first. */
  function drawGain(add, name, all, { sx, y, tall, fs, right }) {
    const runs = all.map(([, run]) => run), run = runs.at(-1), to = sx(1000 * run.seconds) + 5, low = y + tall - 0.9 * fs;
    const why = all.length > 2 ? ["pages as needed: ", "pages: ", ""] : ["free seats taken at once: ", "free seats: ", ""], none = ["pages: no more, for memory is no wall", "pages: no more"].find((text) => to + wide(text, 0.87 * fs) < right);
    const arrow = (key, than, at, words, foot, whose) => {
      const from = sx(1000 * than.seconds), text = words.find((one) => 0.95 * wide(one, fs) < from - to);
      if (!text) return;
      add(`before ${key} ${name}`, "path", { class: "fac-server-before", d: `M${from.toFixed(1)} ${at - 0.7 * fs}V${foot}` });
      add(`${key} ${name}`, "path", { class: "fac-server-gain", d: `M${from.toFixed(1)} ${at}H${to.toFixed(1)}m6 -4l-6 4l6 4` });
      const ended = `${whose.split(" ")[0]} ended`;
      if (from + wide(ended, 0.87 * fs) < right) add(`${key} from ${name}`, "text", { class: "fac-t-small", x: from + 0.4 * fs, y: at + 0.3 * fs }, ended);
      add(`${key} says ${name}`, "text", { class: "fac-t-name fac-server-gains", x: (from + to) / 2, y: at - 0.45 * fs, "text-anchor": "middle" }, text);
    };
    const step = gain(run, runs.at(-2)), whole = gain(run, runs[0]);
    if (step !== "1.0") arrow("gain", runs.at(-2), low, why.map((what) => `${what}${step} ×`), y + tall, all.at(-2)[0]);
    else if (all.length > 2 && none) add(`none ${name}`, "text", { class: "fac-t-small", x: to + 0.4 * fs, y: low }, none);
    if (all.length > 2 && step !== "1.0" && whole !== step) arrow("whole", runs[0], y + 0.5 * tall, [`${whole} × in all`, `${whole} ×`], y + tall, all[0][0]);
  }

  /** How many are served and how many wait at a moment. */
  function counted(run, list, t) {
    let served = 0, waiting = 0;
    run.lanes.forEach((spent, i) => {
      const m = momentsOf(spent, list[i][0]), here = inMemory(m, t);
      if (here && t < m.at(-2)) served += 1;
      if (!here && t >= m[0] && t < m.at(-1)) waiting += 1;
    });
    return { served, waiting };
  }

  /** A line for each request, in the order in which they came: paths by what happens in it; lit are those that have memory at the moment, as in the pool. */
  function drawLanes(add, name, run, list, { sx, y, pitch, skip, fs, right, at, lit }) {
    const place = `${sx(0)} ${sx(1e5)} ${y} ${pitch}`;
    if (laid.get(run)?.place !== place) laid.set(run, { place, lanes: run.lanes.map((spent, i) => (i % skip ? {} : lanePaths(momentsOf(spent, list[i][0]), { sx, high: y + pitch * (i / skip + 0.5) }))) });
    const { lanes } = laid.get(run), thick = { wait: 1, prompt: 1.7, answer: 0.75, ended: 0.28 }; // in lines: who waits is a mass, a prompt stands out by its height
    const path = (kind, which = lanes) => which.map((lane) => lane[kind] ?? "").join("");
    for (const kind in thick) add(`${kind} ${name}`, "path", { class: `fac-server-${kind}`, "stroke-width": thick[kind] * pitch, d: (laid.get(run)[kind] ??= path(kind)) });
    for (const kind of ["ended", "answer"]) add(`lit ${kind} ${name}`, "path", { class: "fac-server-lit", "stroke-width": (thick[kind] + 0.25) * pitch, d: path(kind, lit.map((i) => lanes[i])) });
    add(`thrown ${name}`, "path", { class: "fac-server-thrown", d: (laid.get(run).thrown ??= path("thrown")) });
    if (!run.out) return;
    const says = [`${run.out} times thrown out, to begin again`, `thrown out ${run.out} times`].find((text) => wide(text, 0.87 * fs) < 0.5 * (right - sx(0))) ?? `${run.out} times`, now = sx(at), end = (now > right - wide(says, 0.87 * fs) - 1.8 * fs ? now : right) - 0.5 * fs; // the upper right is free: lines go down
    add(`out ${name}`, "text", { class: "fac-t-small", x: end - 0.9 * fs, y: y + 1.2 * fs, "text-anchor": "end" }, says);
    add(`out mark ${name}`, "path", { class: "fac-server-thrown", d: ring(end - 5, y + 0.9 * fs) });
  }

  const laid = new WeakMap(); // a hand on the moment changes none of them
  const ring = (x, y) => `M${(x - 2.5).toFixed(1)} ${y}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0`;
  function lanePaths(m, { sx, high }) {
    const KINDS = ["wait", "prompt", "answer"], paths = { wait: "", prompt: "", answer: "", ended: "", thrown: "" };
    for (let k = 0; k + 1 < m.length; k += 1) {
      const kind = k + 2 === m.length ? "ended" : KINDS[k % 3], [from, to] = [sx(m[k]), sx(m[k + 1])], least = kind === "prompt" ? 2 : 0;
      if (to > from || least) paths[kind] += `M${from.toFixed(1)} ${high}H${Math.max(to, from + least).toFixed(1)}`;
      if (k % 3 === 2 && k + 3 < m.length) paths.thrown += ring(to, high);
    }
    return paths;
  }

  /** Where each request's rows lie: who sets room aside has a place of its own, pages fill what is there. */
  function places(run, list, held, room) {
    if (!room) return held.reduce((found, [, , rows]) => [...found, found.at(-1) + rows], [0]);
    const free = [], own = new Map();
    const admitted = run.lanes.map((spent, i) => [i, momentsOf(spent, list[i][0])]).sort(([, a], [, b]) => a[1] - b[1]);
    for (const [i, m] of admitted) {
      let place = free.findIndex((until) => until <= m[1]);
      if (place < 0) place = free.length;
      free[place] = m.at(-1);
      own.set(i, place * room);
    }
    return held.map(([i]) => own.get(i));
  }

  /** The pool, in lines of as many rows each: who holds how much, how much of it is used, and whose seat is held after the end. */
  function drawPool(add, { name, run, held, served, waiting }, { x, y, says, rows, lines, wide: across, tall, gap, fs, first, of }) {
    const line = rows / lines, scale = across / line, where = places(run, requests(), held, reserved(name));
    const names = [];
    let empty = "", edges = "", stripe = "", used = "", joins = "", bare = { w: 0 };
    const largest = (id, px, py, w) => {
      const own = names.find((one) => one.id === id);
      if (!own) names.push({ id, px, py, w });
      else if (w > own.w) Object.assign(own, { px, py, w });
    }; // a request has one number, however many pieces it is in
    const pieces = (from, to, act) => {
      for (let k = Math.floor(from / line); k * line < to && k < lines; k += 1) {
        const [a, b] = [Math.max(from, k * line) - k * line, Math.min(to, (k + 1) * line) - k * line];
        if (b > a) act(x + a * scale, y + k * (tall + gap), (b - a) * scale);
      }
    };
    const area = (px, py, w) => `M${px.toFixed(1)} ${py.toFixed(1)}h${w.toFixed(1)}v${tall.toFixed(1)}h${(-w).toFixed(1)}z`;
    held.forEach(([, full, room], i) => {
      pieces(where[i], where[i] + room, (...piece) => (edges += area(...piece)));
      for (let k = Math.floor(where[i] / line) + 1; k * line < where[i] + room; k += 1) joins += `M${x + across - 4} ${y + k * (tall + gap) - gap}v${gap / 2}H${x + 4}v${gap / 2}`;
      pieces(where[i], where[i] + full, (...piece) => {
        used += area(...piece);
        if (piece[2] >= wide(`${held[i][0] + 1}`, 0.75 * fs) + 4) largest(held[i][0], ...piece);
      });
      pieces(where[i] + full, where[i] + room, (px, py, w) => {
        empty += area(px, py, w);
        stripe += hatching(px, py, w, tall, 10);
        const ended = `${held[i][0] + 1} ended`;
        if (full && w > bare.w) bare = { px, py, w };
        if (!full && w > wide(ended, 0.87 * fs) + fs) largest(ended, px, py, w);
      });
    });
    let free = "";
    pieces(0, rows, (...piece) => (free += area(...piece)));
    const count = `${of}${served} served`, ended = held.length - served, free_ = rows - held.reduce((sum, [, , room]) => sum + room, 0), more_ = [ended > 0 && `${ended} ended`, waiting && `${waiting} wait`, free_ && `${free_} rows free`].filter(Boolean).join(", "), size = of ? 1.08 * fs : 1.4 * fs;
    add(`pool ${name}`, "path", { class: "fac-server-pool", d: free });
    add(`empty ${name}`, "path", { class: "fac-waste", d: empty }, "rows that are held, but empty");
    add(`stripes ${name}`, "path", { class: "fac-waste-stripes", d: stripe });
    add(`used ${name}`, "path", { class: "fac-server-used", d: used }, "rows that are used");
    add(`edges ${name}`, "path", { class: "fac-server-edges", d: edges });
    add(`joins ${name}`, "path", { class: "fac-server-joins", d: joins }, "one request, in two lines of the pool");
    for (const [k, { id, px, py, w }] of names.entries()) {
      if (typeof id === "string") chip(add, `who ${id} ${name}`, id, px + w / 2, py + tall / 2, fs);
      else add(`who ${k} ${name}`, "text", { class: "fac-t-small fac-server-who", x: px + w / 2, y: py + tall / 2 + 0.28 * fs, "text-anchor": "middle" }, `${id + 1}`);
    }
    const words = "held, but empty", has = bare.w > wide(words, 0.87 * fs) + fs;
    if (first) wasteMark.hidden = has;
    if (first && has) chip(add, "held but empty", words, bare.px + bare.w / 2, bare.py + tall / 2, fs);
    add(`served ${name}`, "text", { class: `fac-server-count ${of ? "fac-t-name" : "fac-t-big"}`, x, y: says }, count);
    add(`waiting ${name}`, "text", { class: "fac-t-small", x: of ? x + across : x + wide(count, size) + 0.3 * fs, y: says, "text-anchor": of ? "end" : "start" }, more_);
  }

  /** What a hand does to the moment. */
  const goes = ({ left, across, end }) => (px) => put(model, { at: Math.max(0, Math.min(end, Math.round(((px - left) / across) * end))) });

  /** The clock, and the handle of the moment that the pools are drawn at. */
  function drawTime(add, { sx, end, at, bottom, left, across, width, fs }) {
    add("time", "path", { class: "fac-axis-strong", d: `M${left} ${bottom}h${across}` });
    const every = [0.1, 0.2, 0.5, 1, 2, 5].find((step) => end / 1000 / step <= 7) ?? 10;
    for (let t = 0; t <= end / 1000; t += every) {
      const x = sx(1000 * t), last = t + every > end / 1000;
      add(`tick ${t.toFixed(1)}`, "path", { class: "fac-axis-strong", d: `M${x.toFixed(1)} ${bottom}v5` });
      add(`time ${t.toFixed(1)}`, "text", { class: "fac-t-small", x: Math.min(x, width - (last ? 2.2 : 0) * fs), y: bottom + 1.7 * fs, "text-anchor": t ? "middle" : "start" }, `${short(t, 2)}${last ? " s" : ""}`);
    }
    const x = sx(at), says = `memory at ${timeText(at)}`, before = x + wide(says, 0.87 * fs) + 2 * fs > width;
    const step = (e) => {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[e.key], to = { Home: 0, End: end }[e.key];
      if (by == null && to == null) return;
      e.preventDefault();
      put(model, { at: to ?? Math.max(0, Math.min(end, at + by * Math.max(1, Math.round(end / 100)))) });
    };
    handleName(add, picture.svg, "moment", { x: x + (before ? -1 : 1) * fs, y: bottom - 0.45 * fs, "text-anchor": before ? "end" : "start" }, says);
    const knob = add("knob", "circle", { class: "fac-knob fac-across", cx: x.toFixed(1), cy: bottom, r: 0.52 * fs, "data-handle": "moment", tabindex: 0, role: "slider", "aria-label": "moment", "aria-valuemin": 0, "aria-valuemax": end, "aria-valuenow": at, "aria-valuetext": timeText(at), "data-lm-suppress-shortcuts": "true" }, "drag: the moment of the pools", goes({ left, across, end }));
    knob.onkeydown = step;
  }

  onChanges(model, [...NAMES, "at"], draw);
  draw();
}

export default { render };
