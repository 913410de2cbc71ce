// A server's memory over time, by policies: a lane for each request, and the pool at one moment.
// The runs are recorded; this looks them up. What it exports is held against Python in
// tests/widgets/test_javascript.py.

/** The run of a lane at a setting. */
export const runAt = (lane, { pages, every, prompt }) => lane[`${pages} ${every} ${prompt}`];

/** When what happened to a request: it came, was admitted, got a token, stopped (the last three as often as it was admitted), gave back its memory. */
const momentsOf = (spent, came) => spent.reduce((m, ms) => [...m, m.at(-1) + ms], [came]);

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
  const voice = announcer(), rest = h("table", { class: "fac-server-rest" });
  const marks = key(["fac-server-wait", "waits"], ["fac-server-prompt", "prompt computed"], ["fac-server-answer", "served"], ["fac-server-ended", "ended, seat held"], ["fac-key-waste", "held, but empty"], ["fac-server-thrown", "thrown out: begins again"]);
  marks.append(h("span", { class: "fac-soft" }, "Simulated by a cost model of an H100, not measured."));
  const SHOWN = 3; // of the facts: these are in the picture
  const fold = more("waits, steps", h("div", { class: "fac-server-scroll" }, rest), h("p", { class: "fac-soft" }, "Thrown out: the pool was full, so the youngest request gave its pages back and starts again later."));
  const tell = unfolded(fold, drawRest);
  root(model, el, picture.node, marks, h("div", { class: "fac-fields" }, fields.map((f) => f.node), fold), voice.node);

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

  /** How many times as many tokens a second as the policy before it makes; the first and one's own have none. */
  const gains = (all) => all.slice(1, 3).map(([, run], i) => (run.speed / all[i][1].speed).toFixed(1));

  /** What is to be seen: what each of the two steps brings. */
  function finding(all, brief) {
    const [seats, pages] = gains(all), nothing = (gain) => gain === "1.0";
    if (nothing(seats) && nothing(pages)) return ["Same memory, same speed", ""];
    const first = nothing(seats) ? "Seats filled at once: no gain," : `${brief ? "Seats filled at once" : "Free seats taken at once"}: ${seats} × the tokens${brief ? "," : " a second,"}`;
    return [first, nothing(pages) ? "pages: no more, for memory is no wall" : `pages as needed: ${pages} × more`];
  }

  /** A panel for each policy: its requests as lanes of one clock, and what the pool holds at the moment of the handle. */
  function drawPicture(width, fs) {
    const all = runs(), narrow = width < 700, room = get("presenter"), end = lasts(all), at = moment(all), list = requests(), rows = get("pages") * data.page_size;
    const pitch = room || all.length > 3 ? 2 : 3, tall = pitch * list.length, beside = narrow ? 0 : Math.min(27 * fs, 0.3 * width), across = width - 2 - (narrow ? 0.6 * fs : beside + 1.8 * fs);
    const box = { lines: narrow ? 2 : 4, wide: narrow ? across : beside, gap: 3 };
    box.tall = narrow ? 1.15 * fs : (tall - (box.lines - 1) * box.gap) / box.lines;
    const head = (narrow ? 2.6 : 1.5) * fs, foot = 1.5 * fs, pool = narrow ? 1.9 * fs + box.lines * (box.tall + box.gap) : 0, each = head + tall + foot + pool + (narrow ? 0.7 : 0.4) * fs;
    const [what, gain] = finding(all, width < 440), whole = [what, gain].filter(Boolean).join(" "), one = wide(whole, 1.3 * fs) < width, clock = (one ? 3 : 4.2) * fs + 2.2 * fs, above = (one ? 3 : 4.2) * fs + (narrow ? 4.6 * fs : 0), bottom = narrow ? clock : above + all.length * each + 1.5 * fs; // a phone has the handle above all that it moves
    const sx = (ms) => 1 + (across * ms) / end;
    const told = all.map(([name, run]) => ({ name, run, held: memoryAt(run, list, at, { pages: get("pages"), reserved: reserved(name), size: data.page_size }), ...counted(run, list, at) }));
    picture.svg.setAttribute("aria-label", `${list.length} requests over ${timeText(end)}, a lane each, and a pool of ${rows} rows after ${timeText(at)}. ${told.map(({ name, run, held, served, waiting }) => `${name}: ${served} are served, ${held.length - served} have ended and hold memory, ${waiting} wait; ${data.facts.slice(0, SHOWN).map(([fact, unit, says]) => `${run[fact]}${unit} ${says}`).join(", ")}`).join(". ")}.`);
    picture.svg.setAttribute("role", "group"); // it holds a handle for the keyboard
    parts((add) => {
      const size = one || wide(what, 1.3 * fs) < width ? "fac-t-big" : "fac-t-name";
      add("title", "text", { class: size, x: 1, y: 1.2 * fs }, one ? whole : what);
      if (!one) add("gain", "text", { class: size, x: 1, y: 2.6 * fs }, gain);
      const came = `${list.length} requests, one every ${get("every")} ms; ${rows} rows of memory`, asked = [`${came}, each for a token's K and V`, came];
      add("asked", "text", { class: "fac-t-soft", x: 1, y: (one ? 3 : 4.2) * fs - 0.55 * fs + (narrow ? 0.3 * fs : 0) }, asked.find((text) => wide(text, 0.87 * fs) < width - 2) ?? asked[1]);
      told.forEach((one_, i) => {
        const y = Math.round(above + i * each + head), { name, run } = one_, words = 0.9 * wide(data.policies[name], 0.87 * fs) < width ? data.policies[name] : "";
        add(`name ${name}`, "text", { class: "fac-t-name", x: 1, y: above + i * each + 1.05 * fs }, name);
        add(`what ${name}`, "text", { class: "fac-t-soft", x: narrow ? 1 : 1 + wide(name, 1.08 * fs) + 0.6 * fs, y: above + i * each + (narrow ? 2.1 : 1.05) * fs }, words);
        add(`ground ${name}`, "rect", { class: "fac-server-panel", x: 1, y, width: across, height: tall });
        drawLanes(add, name, run, list, { sx, y, pitch });
        if (i) drawGain(add, name, gains(all)[i - 1], { from: sx(1000 * all[i - 1][1].seconds), to: sx(1000 * run.seconds), y, tall, fs });
        if (!i) drawOrder(add, list.length, { y, fs, right: 1 + across });
        drawEnd(add, name, run, { x: sx(1000 * run.seconds), right: 1 + across, y: y + tall + 1.1 * fs, fs });
        drawPool(add, one_, narrow ? { x: 1, y: y + tall + foot + 1.6 * fs, says: y + tall + foot + 1.15 * fs, rows, fs, ...box } : { x: 1 + across + 1.6 * fs, y, says: above + i * each + 1.05 * fs, rows, fs, ...box });
        const now = { d: `M${sx(at).toFixed(1)} ${y - 3}v${tall + 6}` };
        add(`now ${name}`, "path", { class: "fac-server-now", ...now });
        add(`hold ${name}`, "path", { class: "fac-server-hold", "data-handle": "moment", ...now }, "drag: the moment of the pools", goes({ across, end }));
        const left = sx(at) > 5 * fs ? -1 : 1;
        if (one_.waiting * pitch > 3 * fs) chip(add, `wait ${name}`, `${one_.waiting} wait`, sx(at) + left * 2.5 * fs, y + pitch * (one_.first + one_.waiting / 2), fs);
      });
      if (!narrow) add("when", "text", { class: "fac-t-small fac-server-when", x: width - 1, y: above + 1.05 * fs, "text-anchor": "end" }, `at ${timeText(at)}`);
      drawTime(add, { sx, end, at, bottom, across, width, fs });
    });
    return narrow ? above + all.length * each : bottom + 2 * fs;
  }

  /** Which line is which request: the first and the last, and how they follow. */
  function drawOrder(add, count, { y, fs, right }) {
    const short_ = right < 28 * fs, lines = [short_ ? "a line: a request," : "a line is a request, in order of arrival:", `1 at the top, ${count} below;`, short_ ? "" : "the pool has their numbers"];
    lines.forEach((text, i) => add(`order ${i}`, "text", { class: "fac-t-small fac-server-order", x: right - 0.4 * fs, y: y + (1.2 + 1.25 * i) * fs, "text-anchor": "end" }, text));
  }

  /** What a policy gains over the one above: how much sooner all have their answers, as an arrow in the room that it leaves. */
  function drawGain(add, name, gain, { from, to, y, tall, fs }) {
    if (!gain || from - to < 3.2 * fs) return;
    const at = y + tall - 0.9 * fs, says = `${gain} ×`, long = from - to > 16 * fs ? `${says} the tokens a second` : says;
    add(`before ${name}`, "path", { class: "fac-server-before", d: `M${from.toFixed(1)} ${y}v${tall}` });
    add(`gain ${name}`, "path", { class: "fac-server-gain", d: `M${from.toFixed(1)} ${at}H${(to + 5).toFixed(1)}m6 -4l-6 4l6 4` });
    add(`gains ${name}`, "text", { class: "fac-t-name fac-server-gains", x: (from + to) / 2, y: at - 0.45 * fs, "text-anchor": "middle" }, long);
  }

  /** How many are served and how many wait at a moment; the first of these. */
  function counted(run, list, t) {
    let served = 0, waiting = 0, first = -1;
    run.lanes.forEach((spent, i) => {
      const m = momentsOf(spent, list[i][0]), here = inMemory(m, t);
      if (here && t < m.at(-2)) served += 1;
      if (here || t < m[0] || t >= m.at(-1)) return;
      if (first < 0) first = i;
      waiting += 1;
    });
    return { served, waiting, first };
  }

  /** A lane for each request, in the order in which they came: paths by what happens in it. */
  function drawLanes(add, name, run, list, { sx, y, pitch }) {
    const KINDS = ["wait", "prompt", "answer"], paths = { wait: "", prompt: "", answer: "", ended: "", thrown: "" };
    run.lanes.forEach((spent, i) => {
      const m = momentsOf(spent, list[i][0]), high = y + pitch * i + 0.5 * pitch;
      for (let k = 0; k + 1 < m.length; k += 1) {
        const kind = k + 2 === m.length ? "ended" : KINDS[k % 3], [from, to] = [sx(m[k]), sx(m[k + 1])], least = kind === "prompt" ? 2 : 0;
        if (to > from || least) paths[kind] += `M${from.toFixed(1)} ${high}H${Math.max(to, from + least).toFixed(1)}`;
        if (k % 3 === 2 && k + 3 < m.length) paths.thrown += `M${to.toFixed(1)} ${high - 0.6 * pitch}v${1.2 * pitch}`;
      }
    });
    const thick = { wait: 0.5, prompt: 1.7, answer: 0.75, ended: 0.28, thrown: 0.5 }; // in lanes: a prompt stands out by its height
    for (const [kind, d] of Object.entries(paths)) add(`${kind} ${name}`, "path", { class: `fac-server-${kind}`, "stroke-width": thick[kind] * pitch, d });
  }

  /** Where all have their answers: when, and how fast that was. */
  function drawEnd(add, name, run, { x, right, y, fs }) {
    const [fast, when] = [`${run.speed} tokens a second`, `, done in ${short(run.seconds, 3)} s`], says = wide(fast + when, fs) < right ? fast + when : fast, back = x + wide(says, fs) > right;
    add(`speed ${name}`, "text", { class: "fac-server-fact fac-t-name", x: back ? right : x, y, "text-anchor": back ? "end" : "start" }, says);
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

  /** The pool, in lines of as many rows each: who holds how much, and how much of it is used. */
  function drawPool(add, { name, run, held, served, waiting }, { x, y, says, rows, lines, wide: across, tall, gap, fs }) {
    const line = rows / lines, scale = across / line, where = places(run, requests(), held, reserved(name));
    const names = [], held_ = ["", ""];
    let empty = "", edges = "", stripe = "";
    const pieces = (from, to, act) => {
      for (let k = Math.floor(from / line); k * line < to && k < lines; k += 1) {
        const [a, b] = [Math.max(from, k * line) - k * line, Math.min(to, (k + 1) * line) - k * line];
        if (b > a) act(x + a * scale, y + k * (tall + gap), (b - a) * scale);
      }
    };
    const area = (px, py, w) => `M${px.toFixed(1)} ${py.toFixed(1)}h${w.toFixed(1)}v${tall.toFixed(1)}h${(-w).toFixed(1)}z`;
    held.forEach(([, full, room], i) => {
      pieces(where[i], where[i] + room, (...piece) => (edges += area(...piece)));
      pieces(where[i], where[i] + full, (...piece) => {
        held_[i % 2] += area(...piece);
        const [id, px, py, w] = [held[i][0], ...piece], own = names.find((one) => one.id === id), size = 0.75 * fs;
        if (w < wide(`${id + 1}`, size) + 4 || tall < size) return;
        if (!own) names.push({ id, px, py, w });
        else if (w > own.w) Object.assign(own, { px, py, w });
      });
      pieces(where[i] + full, where[i] + room, (px, py, w) => {
        empty += area(px, py, w);
        stripe += hatching(px, py, w, tall, 10);
      });
    });
    let free = "";
    pieces(0, rows, (...piece) => (free += area(...piece)));
    const count = `${served} served`, ended = held.length - served, more_ = [ended > 0 && `${ended} ended`, waiting && `${waiting} wait`].filter(Boolean).join(", ");
    add(`pool ${name}`, "path", { class: "fac-server-pool", d: free });
    add(`empty ${name}`, "path", { class: "fac-waste", d: empty }, "rows that are held, but empty");
    add(`stripes ${name}`, "path", { class: "fac-waste-stripes", d: stripe });
    held_.forEach((d, i) => add(`used ${i} ${name}`, "path", { class: `fac-server-used${i ? " fac-server-other" : ""}`, d }, "rows that are used"));
    add(`edges ${name}`, "path", { class: "fac-server-edges", d: edges });
    for (const { id, px, py, w } of names) add(`who ${id} ${name}`, "text", { class: "fac-t-small fac-server-who", x: px + w / 2, y: py + tall / 2 + 0.28 * fs, "text-anchor": "middle" }, `${id + 1}`);
    const narrow = lines < 4, waste = `${run.wasted} % ${narrow ? "" : "of the held rows "}empty, on average`;
    add(`served ${name}`, "text", { class: "fac-server-count fac-t-big", x, y: says }, count);
    add(`waiting ${name}`, "text", { class: "fac-t-small", x: x + wide(count, 1.4 * fs) + 0.3 * fs, y: says }, more_);
    add(`waste ${name}`, "text", { class: "fac-server-fact fac-t-soft", x: narrow ? x + across : x, y: narrow ? says : y + lines * (tall + gap) - gap + 1.1 * fs, "text-anchor": narrow ? "end" : "start" }, waste);
  }

  /** What a hand does to the moment. */
  const goes = ({ across, end }) => (px) => put(model, { at: Math.max(0, Math.min(end, Math.round(((px - 1) / across) * end))) });

  /** The clock, and the handle of the moment that the pools are drawn at. */
  function drawTime(add, { sx, end, at, bottom, across, width, fs }) {
    add("time", "path", { class: "fac-axis-strong", d: `M1 ${bottom}h${across}` });
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
    const knob = add("knob", "circle", { class: "fac-knob fac-across", cx: x.toFixed(1), cy: bottom, r: 0.52 * fs, "data-handle": "moment", tabindex: 0, role: "slider", "aria-label": "moment", "aria-valuemin": 0, "aria-valuemax": end, "aria-valuenow": at, "aria-valuetext": timeText(at), "data-lm-suppress-shortcuts": "true" }, "drag: the moment of the pools", goes({ across, end }));
    knob.onkeydown = step;
  }

  onChanges(model, [...NAMES, "at"], draw);
  draw();
}

export default { render };
