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
  const THROWN = 1; // letters' sizes: the row of those thrown out
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
  const marks = key(["fac-server-wait", "waiting"], ["fac-key-waste", "ended, seat held"], ["fac-key-waste", "held, but empty"], ["fac-server-prompt", "its prompt"], ["fac-server-answer", "served"], ["fac-server-lit", "served at the moment"]);
  const [waitMark, endedMark, wasteMark, promptMark, , litMark] = marks.children; // the first three stand in the picture, where there is room
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

  /** What is to be seen: what the last of the course's policies makes of the memory that the first has. */
  function finding(all) {
    const [[coach, first], , [pages, third]] = all, whole = gain(third, first), name = pages[0].toUpperCase() + pages.slice(1);
    return whole === "1.0" ? `${name}: no faster than ${coach}, in the same memory` : `${name}: ${whole} × the tokens a second of ${coach}`;
  }

  /** A panel for each policy: its requests as lines of one clock, on a phone how many are in which state; and what the pool holds at the moment of the handle, beside them or below. */
  function drawPicture(width, fs) {
    const all = runs(), narrow = width < 700, end = lasts(all), at = moment(all), list = requests(), rows = get("pages") * data.page_size;
    const pitch = narrow || get("presenter") || all.length > 3 ? 2 : 3, tall = pitch * list.length, left = 2 * fs, beside = narrow ? 0 : Math.min(27 * fs, 0.3 * width), across = width - left - 1 - (narrow ? 0.6 * fs : beside + 1.8 * fs);
    const box = { lines: narrow ? 2 : 4, wide: narrow ? across : beside, gap: 5, rows, fs };
    box.tall = narrow ? 1.2 * fs : (tall - (box.lines - 1) * box.gap) / box.lines;
    const asks = 0.9 * fs, above = asks + (narrow ? 0.4 : 0.7) * fs, head = (narrow ? 2.5 : 1.6) * fs, pool = narrow ? 1.8 * fs + box.lines * (box.tall + box.gap) : 0;
    const sx = (ms) => left + (across * ms) / end, right = left + across;
    let low = above;
    const told = all.map(([name, run]) => {
      const top = low, y = Math.round(top + head), foot = y + tall + (run.out ? THROWN * fs : 0);
      low = foot + pool + 0.8 * fs;
      return { name, run, top, y, foot, held: memoryAt(run, list, at, { pages: get("pages"), reserved: reserved(name), size: data.page_size }), ...counted(run, list, at) };
    });
    const clock = low + 0.8 * fs;
    picture.svg.setAttribute("aria-label", `${list.length} requests over ${timeText(end)}, a line each, and a pool of ${rows} rows after ${timeText(at)}. ${told.map(({ name, run, held, served, waiting }) => `${name}: ${served} are served, ${held.length - served} have ended and hold memory, ${waiting} wait; ${run.speed} tokens a second, all done after ${short(run.seconds, 3)} s`).join(". ")}.`);
    picture.svg.setAttribute("role", "group"); // it holds a handle for the keyboard
    litMark.lastChild.data = `served at ${timeText(at)}`;
    promptMark.hidden = narrow;
    parts((add) => {
      const came = [`${list.length} requests, a line each, one every ${get("every")} ms; ${rows} rows of memory, each for a token's K and V`, `${list.length} requests${narrow ? ": how many wait, and are served" : ", a line each"}; ${rows} rows of memory`];
      add("asked", "text", { class: "fac-t-soft", x: 1, y: asks }, came.find((text) => !narrow && wide(text, 0.87 * fs) < right) ?? came.at(-1));
      if (!narrow) add("when", "text", { class: "fac-t-name", x: right + 1.6 * fs, y: asks }, `in memory at ${timeText(at)}`);
      told.forEach((one, i) => {
        const { name, run, top, y, foot } = one, speed = `${run.speed} tokens a second`, begins = narrow ? 1 : 1 + wide(name, 1.08 * fs) + 0.6 * fs, view = { sx, y, pitch, tall, fs, right, at, narrow };
        add(`name ${name}`, "text", { class: "fac-t-name", x: 1, y: top + 1.05 * fs }, name);
        add(`speed ${name}`, "text", { class: "fac-server-fact fac-t-name", x: right, y: top + 1.05 * fs, "text-anchor": "end" }, speed);
        add(`what ${name}`, "text", { class: "fac-t-soft", x: begins, y: top + (narrow ? 2.1 : 1.05) * fs }, 0.9 * wide(data.policies[name], 0.87 * fs) < right - begins - (narrow ? 0 : wide(speed, 1.08 * fs)) ? data.policies[name] : "");
        for (const [line, text] of [[0.6 * fs, narrow ? "0" : "1"], [tall, `${list.length}`]]) add(`line ${text} ${name}`, "text", { class: "fac-t-soft", x: left - 0.35 * fs, y: y + line, "text-anchor": "end" }, text);
        add(`ground ${name}`, "rect", { class: "fac-server-panel", x: left, y, width: across, height: tall });
        (narrow ? drawBands : drawLanes)(add, one, list, view);
        if (run.out) drawThrown(add, name, run, list, { sx, y: y + tall, fs, right });
        if (!i) nameLanes(add, run, list, view);
        drawFinish(add, all.slice(0, i + 1), view);
        drawPool(add, one, narrow ? { ...box, x: left, y: foot + 1.7 * fs, says: foot + 1.3 * fs, first: !i, narrow } : { ...box, x: right + 1.6 * fs, y, says: top + 1.05 * fs, first: !i });
        const now = { d: `M${sx(at).toFixed(1)} ${y - 3}v${i + 1 < all.length || narrow ? tall + (narrow ? 3 : 6) : clock - y + 3}` };
        add(`now ${name}`, "path", { class: "fac-server-now", ...now });
        add(`hold ${name}`, "path", { class: "fac-server-hold", "data-handle": "moment", ...now }, "drag: the moment of the pools", goes({ left, across, end }));
      });
      for (const { name, run } of told) add(`finish mark ${name}`, "path", { class: "fac-server-finish", d: `M${sx(1000 * run.seconds).toFixed(1)} ${clock}v-6` });
      drawTime(add, { sx, end, at, bottom: clock, left, across, width, fs });
    });
    return clock + 2.3 * fs;
  }

  /** Words in the first panel for what waits and for what has ended and keeps its seat, where they have room; else they stand below. */
  function nameLanes(add, run, list, { sx, y, pitch, fs, right, at }) {
    const moments = run.lanes.map((spent, i) => momentsOf(spent, list[i][0])), now = sx(at), long = (text) => 0.93 * wide(text, 0.87 * fs);
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

  /** When a policy has answered all, a mark on the clock that all share, and the marks of those above it; what it gains over them in words: a length on the clock is a difference, no ratio. */
  function drawFinish(add, all, { sx, y, tall, fs, right }) {
    const [name, run] = all.at(-1), x = sx(1000 * run.seconds), k = all.length - 1, done = `all answered at ${timeText(1000 * run.seconds)}`;
    const step = k && gain(run, all[k - 1][1]), whole = k && gain(run, all[0][1]), room = right - x - 0.4 * fs, after = room > wide(done, 0.87 * fs);
    for (const [than, { seconds }] of all.slice(0, -1)) if (seconds > run.seconds) add(`before ${than} ${name}`, "path", { class: "fac-server-before", d: `M${sx(1000 * seconds).toFixed(1)} ${y}v${tall}` });
    add(`finish ${name}`, "path", { class: "fac-server-finish", d: `M${x.toFixed(1)} ${y}v${tall}` });
    const why = [null, ["free seats taken at once: ", "free seats: "], ["pages as needed: ", "pages: "]][k], fits = (texts) => texts?.find((text) => !after || 0.95 * wide(text, fs) < room);
    const says = [[done, "small"]]; // behind the mark low, before it high: there are no lines
    if (why && step !== "1.0") says.push([fits([`${why[0]}${step} × as fast`, `${why[1]}${step} × as fast`, `${why[1]}${step} ×`, `${step} ×`]), "name"]);
    else if (k === 2) says.push([fits(["pages: no more, for memory is no wall", "pages: no more"]), "small"]);
    if (k === 2 && step !== "1.0" && whole !== step) says.push([fits([`${whole} × ${all[0][0]}, in all`, `${whole} × in all`]), "name"]);
    const first = after ? y + tall - (1.3 * says.length - 0.7) * fs : y + 1.1 * fs;
    says.forEach(([text, look], i) => add(`finish ${i} ${name}`, "text", { class: look === "name" ? "fac-t-name fac-server-gains" : "fac-t-small", x: x + (after ? 0.4 : -0.4) * fs, y: first + 1.3 * i * fs, "text-anchor": after ? "start" : "end" }, text ?? ""));
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

  /** A line for each request, in the order in which they came: paths by what happens in it; lit are those that are served at the moment, as in the pool. */
  function drawLanes(add, { name, run, held }, list, { sx, y, pitch }) {
    const place = `${sx(0)} ${sx(1e5)} ${y} ${pitch}`;
    if (laid.get(run)?.place !== place) laid.set(run, { place, lanes: run.lanes.map((spent, i) => lanePaths(momentsOf(spent, list[i][0]), { sx, y: y + pitch * i, pitch })) });
    const { lanes } = laid.get(run), thick = { wait: 1, prompt: 1.7, answer: 0.75 }; // in lines: who waits is a mass, a prompt stands out by its height
    const path = (kind, which = lanes) => which.map((lane) => lane[kind]).join(""), all = (kind) => (laid.get(run)[kind] ??= path(kind));
    add(`ended ${name}`, "path", { class: "fac-server-ended", d: all("ended") });
    add(`ended stripes ${name}`, "path", { class: "fac-waste-stripes", d: all("stripes") });
    for (const kind in thick) add(`${kind} ${name}`, "path", { class: `fac-server-${kind}`, "stroke-width": thick[kind] * pitch, d: all(kind) });
    add(`lit ${name}`, "path", { class: "fac-server-lit", "stroke-width": pitch, d: path("answer", held.filter(([, rows]) => rows).map(([i]) => lanes[i])) });
  }

  /** How many requests are in which state, on top of each other: gone, ended with their seat, served, waiting. At the moment, how many are served, in ink. */
  function drawBands(add, { name, run, held }, list, { sx, y, pitch, at }) {
    const place = `bands ${sx(0)} ${sx(1e5)} ${y} ${pitch}`;
    if (laid.get(run)?.place !== place) laid.set(run, { place, ...bands(run, list, sx, (count) => y + pitch * count) });
    const { served, wait, ended, edges, stripes } = laid.get(run), [, from, to] = edges.findLast(([ms]) => ms <= at) ?? edges[0], x = sx(at);
    for (const [kind, d] of Object.entries({ ended, wait, served })) add(`${kind} ${name}`, "path", { class: `fac-server-${kind} fac-server-band`, d });
    add(`ended stripes ${name}`, "path", { class: "fac-waste-stripes", d: stripes });
    add(`lit ${name}`, "path", { class: "fac-server-lit", "stroke-width": 8, d: held.length ? `M${x.toFixed(1)} ${from}V${to}` : "" });
  }

  /** The outlines of those states over time, and between which heights who is served lies from when on. */
  function bands(run, list, sx, high) {
    const changes = run.lanes.flatMap((spent, i) => {
      const m = momentsOf(spent, list[i][0]);
      return m.map((ms, k) => [ms, k === 0 || (k % 3 === 0 && k + 2 < m.length) ? "wait" : k + 1 === m.length ? "gone" : k + 2 === m.length ? "ended" : k % 3 === 1 ? "served" : "", i]);
    }).filter(([, state]) => state).sort(([a], [b]) => a - b);
    const STATES = ["gone", "ended", "served", "wait"], count = { gone: 0, ended: 0, served: 0, wait: 0 }, is = new Map(), edges = [], lines = STATES.map(() => []);
    let stripes = "";
    changes.forEach(([ms, state, i], n) => {
      count[is.get(i)] -= 1;
      count[state] += 1;
      is.set(i, state);
      if (changes[n + 1]?.[0] === ms) return;
      const from = sx(ms), to = sx(changes[n + 1]?.[0] ?? ms);
      let sum = 0;
      STATES.forEach((one, k) => lines[k].push([from, high((sum += count[one]))]));
      const [top, low] = [lines[0].at(-1)[1], lines[1].at(-1)[1]];
      edges.push([ms, low, lines[2].at(-1)[1]]);
      if (low > top) for (let c = 7 * Math.ceil((from + top) / 7); c - low < to; c += 7) {
        const [a, b] = [Math.max(from, c - low), Math.min(to, c - top)];
        if (b > a) stripes += `M${a.toFixed(1)} ${(c - a).toFixed(1)}L${b.toFixed(1)} ${(c - b).toFixed(1)}`;
      }
    });
    const area = (upper, lower) => `M${upper.map(([x, y]) => `${x.toFixed(1)} ${y}`).join("L")}L${[...lower].reverse().map(([x, y]) => `${x.toFixed(1)} ${y}`).join("L")}z`;
    const stairs = (line) => line.flatMap(([x, y], i) => (i ? [[x, line[i - 1][1]], [x, y]] : [[x, y]]));
    const [ended, served, wait] = [0, 1, 2].map((k) => area(stairs(lines[k]), stairs(lines[k + 1])));
    return { ended, served, wait, edges, stripes };
  }

  /** How many are thrown out, over time, on a row of its own: bars of counts, how many in all and in the tallest. */
  function drawThrown(add, name, run, list, { sx, y, fs, right }) {
    const pixels = (s) => sx(1000 * s) - sx(0), bin = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2].find((s) => pixels(s) > 5) ?? 5, tall = THROWN * fs - 3, counts = new Map(), foot = y + THROWN * fs;
    run.lanes.forEach((spent, i) => momentsOf(spent, list[i][0]).forEach((ms, k, m) => {
      if (k % 3 !== 0 || !k || k + 2 > m.length - 1) return;
      const at = Math.floor(ms / 1000 / bin);
      counts.set(at, (counts.get(at) ?? 0) + 1);
    }));
    const most = Math.max(...counts.values()), edge = (at) => sx(1000 * bin * at), [first, last] = [edge(Math.min(...counts.keys())), edge(Math.max(...counts.keys()) + 1)];
    add(`thrown ${name}`, "path", { class: "fac-server-thrown", "data-counts": [...counts.values()].join(" "), d: [...counts].map(([at, n]) => `M${edge(at).toFixed(1)} ${foot}v${((-tall * n) / most).toFixed(1)}h${(pixels(bin) - 1).toFixed(1)}V${foot}z`).join("") }, "thrown out, to begin again");
    const scale = `the tallest bar: ${most} in ${short(bin)} s`, says = [`${run.out} times thrown out, to begin again; ${scale}`, `${run.out} times thrown out; ${scale}`, `${run.out} thrown out; ${scale.slice(4)}`, `${run.out} thrown out`], long = (text) => 0.5 * fs + 0.95 * wide(text, 0.87 * fs), after = says.find((text) => last + long(text) < right), before = says.find((text) => first - long(text) > sx(0));
    add(`out ${name}`, "text", { class: "fac-t-small", x: after ? last + 0.5 * fs : first - 0.5 * fs, y: foot - 0.1 * fs, "text-anchor": after ? "start" : "end" }, after ?? before ?? "");
  }

  const laid = new WeakMap(); // a hand on the moment changes none of them
  function lanePaths(m, { sx, y, pitch }) {
    const KINDS = ["wait", "prompt", "answer"], paths = { wait: "", prompt: "", answer: "", ended: "", stripes: "" };
    for (let k = 0; k + 2 < m.length; k += 1) {
      const kind = KINDS[k % 3], [from, to] = [sx(m[k]), sx(m[k + 1])], least = kind === "prompt" ? 2 : 0;
      if (to > from || least) paths[kind] += `M${from.toFixed(1)} ${y + pitch / 2}H${Math.max(to, from + least).toFixed(1)}`;
    }
    const [from, to] = [sx(m.at(-2)), sx(m.at(-1))];
    if (to - from < 0.1) return paths;
    paths.ended = `M${from.toFixed(1)} ${y}H${to.toFixed(1)}v${pitch}H${from.toFixed(1)}z`;
    for (let c = 7 * Math.ceil((from + y) / 7); c - y - pitch < to; c += 7) { // one hatching over all lines
      const [a, b] = [Math.max(from, c - y - pitch), Math.min(to, c - y)];
      if (b > a) paths.stripes += `M${a.toFixed(1)} ${(c - a).toFixed(1)}L${b.toFixed(1)} ${(c - b).toFixed(1)}`;
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
  function drawPool(add, { name, run, held, served, waiting }, { x, y, says, rows, lines, wide: across, tall, gap, fs, first, narrow }) {
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
    const count = `${served} served`, ended = held.length - served, free_ = rows - held.reduce((sum, [, , room]) => sum + room, 0), more_ = [ended > 0 && `${ended} ended`, waiting && `${waiting} wait`, free_ && `${free_} rows free`].filter(Boolean).join(", "), size = narrow ? 1.08 * fs : 1.4 * fs;
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
    add(`served ${name}`, "text", { class: `fac-server-count ${narrow ? "fac-t-name" : "fac-t-big"}`, x, y: says }, count);
    add(`waiting ${name}`, "text", { class: "fac-t-small", x: x + wide(count, size) + 0.3 * fs, y: says }, more_);
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
