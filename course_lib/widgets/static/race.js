// The Race's words, handles and clock (bytes over bandwidth, never measured time); see race_canvas.js.

const SIZES = powersOfTwo(64, 16384).flatMap((n) => (n < 16384 ? [n, 1.5 * n] : [n]));
const TILES = powersOfTwo(16, 256), DIMS = powersOfTwo(32, 256), SPEEDS = powersOfTwo(1, 64);
const PROGRAMS = [...powersOfTwo(1, 128), 132];
const SETTINGS = ["n", "d", "block_q", "block_k", "at_once", "causal", "decode", "gpu", "dtype", "lanes", "data", "caches"];
const clamp = (x) => Math.max(0, Math.min(1, x));

function render({ model, el }) {
  const get = (name) => model.get(name), race = raceCanvas(get), { layer, canvas, data, b, chip, wall, slots, place, blank } = race;
  const fixed = Object.keys(data().replays).length > 0; // a replay has the sizes that it has
  let width = 0, clock = 0, playing = 0, visible = true, soon = 0, met = false;
  const over = s("svg", { class: "fac-race-over", role: "img" });
  const stage = part("race-picture", h("div", { class: "fac-race" }, layer, canvas, over));
  const head = h("p", { class: "fac-race-title" }), words = h("p", { class: "fac-race-words fac-soft" }), voice = announcer();

  // Words, lines and handles stand above the canvas, in SVG
  const text = (x, y, cls, content = "", more = {}, ref = null) => v("text", { x, y, class: cls, ...more }, content, { ref });
  function build() {
    race.prepare();
    race.arrange((width ||= stage.clientWidth) || 1000); // looked at once: a look costs a layout
    clock = get("at") * race.end;
    over.setAttribute("viewBox", `0 0 ${race.box.width} ${race.box.height}`);
    stage.style.height = `${race.box.height}px`;
    [seekBar, play].forEach((node, i) => (node.style.top = `${race.box.low + (i ? SEEK + 1.7 * race.box.fs : 0)}px`)); // right under the tapes, the slider as long as they are
    seekBar.style.width = `${race.box.tw + 14}px`;
    stage.style.setProperty("--fac-size", `${race.box.fs}px`);
    patch(over, [...race.lanes.flatMap(frame), ...tapeScale(text, race)], held);
    plant();
    blank();
    draw();
    clearTimeout(soon);
    soon = setTimeout(() => race.lanes.forEach((lane) => lane.group), 25); // while nobody waits
  }
  function frame(lane, number) {
    const { fs, lw, tw, H, panelH, tape, scale } = race.box, { x, y, panel, bill } = lane, naive = lane.name === "naive", last = number === race.lanes.length - 1, title = data().titles[lane.name];
    const nodes = [
      text(x, y + 1.2 * fs, "fac-race-head", title),
      text(x + lw, y + 1.75 * fs, "fac-race-score", [v("tspan", { class: "fac-race-out" }, null, { ref: (node) => (lane.outText = node) }), v("tspan", {}, null, { ref: (node) => (lane.outSays = node) })], { "text-anchor": "end" }),
      v("rect", { class: "fac-race-panel", x, y: panel, width: lw, height: panelH, rx: 6 }),
      text(x + lw - 0.7 * fs, panel + panelH - 0.6 * fs, "fac-race-name", "HBM", { "text-anchor": "end" }),
    ];
    lane.wearText = {};
    for (const [t, p] of Object.entries(lane.at)) {
      const ghost = t === "s" && !naive;
      nodes.push(v("rect", { class: ghost ? "fac-race-ghost" : "fac-race-edge", x: p.x, y: p.y, width: p.w, height: p.h }));
      nodes.push(text(p.x + p.w / 2, p.y - 0.5 * fs, "fac-race-name", t === "s" ? (naive ? "S, then P" : "S") : t.toUpperCase(), { "text-anchor": "middle" }));
      if (!ghost) nodes.push(text(p.x + 0.6 * fs, p.y + p.h + (t === "q" && p.h < fs ? 2.4 : 1.1) * fs, "fac-race-wear", null, {}, (node) => (lane.wearText[t] = node)));
      else nodes.push(text(p.x + p.w / 2, p.y + (p.h > 2 * fs ? p.h / 2 : p.h + 1.3 * fs), "fac-race-never", p.w > 8 * fs ? "S is never here" : "never here", { "text-anchor": "middle" }));
    }
    const bar = 2 ** Math.floor(Math.log2(Math.min(3.3 * fs, 0.3 * H) / scale)), { s: S } = lane.at, by = panel + panelH - 0.6 * fs, barX = lw < 500 ? S.x - bar * scale - 3.2 * fs : Math.max(S.x + 4.2 * fs, Math.min(S.x + S.w, x + lw - 4 * fs) - bar * scale - 6.5 * fs);
    nodes.push(text(x + 0.9 * fs, by, "fac-race-soft", null, {}, (node) => (lane.timesText = node)), v("path", { class: "fac-race-line", d: `M${barX} ${by - 6}v6h${bar * scale}v-6` }), text(barX + bar * scale + 6, by, "fac-race-soft", `${bar}${lw < 500 || x + lw - barX - bar * scale < (7.8 + 0.45 * `${bar}`.length) * fs ? "" : " numbers"}`));
    const desk = get("caches");
    nodes.push(...(desk ? [...l2Band(text, lane, race, get), ...deskOf(text, lane, race, get)] : chipOf(text, lane, race, get)));
    nodes.push(text(desk ? x : lane.statusX, desk ? y + 3 * fs : lane.statusY, desk || lw < 500 ? "fac-race-small" : "", null, {}, (node) => (lane.statusText = node)));
    // the bill
    const px = tw / race.axis, badge = race.badges.length < 2 ? "" : wide(`${title}${lane.badge}`, 0.9 * fs) > tw - 6 * fs ? lane.badge.split(" from ")[0] : lane.badge;
    nodes.push(text(0, lane.named, "fac-race-name", [v("tspan", {}, title), v("tspan", { class: `fac-race-tag${data().replays[lane.name] ? " fac-race-real" : ""}`, dx: 8 }, badge)], {}, (node) => (lane.nameText = node)), text(tw, bill - 0.45 * fs, "fac-race-soft", null, { "text-anchor": "end" }, (node) => (lane.endText = node)));
    nodes.push(v("rect", { class: "fac-race-edge", x: 0, y: bill, width: tw, height: tape }), text(0, 0, "fac-race-odometer", null, {}, (node) => (lane.odometer = node)));
    nodes.push(...besideTape(text, lane, race));
    if (desk) nodes.push(...thinTape(text, lane, race, get));
    const unseen = (name) => v("rect", { class: `fac-race-${name}`, visibility: "hidden" }, null, { ref: (node) => (lane[name] = node) });
    const hit = hold("rect", { x: 0, y: bill - 4, width: tw, height: tape + 8, class: "fac-race-scrub" }, (x2) => (asks(lane) ? put(model, { flag: clamp(x2 / tw) }) : seek((x2 / tw) * (race.axis / (chip().gb_per_s * 1e9)))));
    hit.on = { move: (e) => e.buttons || point(lane, (e.clientX - over.getBoundingClientRect().left) / px), leave: () => point(lane, -1) };
    nodes.push(hit, unseen("mark"), unseen("differs"));
    if (!fixed) nodes.push(...handles(lane, naive, last));
    if (last && race.lanes.length > 1) nodes.push(v("g", {}, null, { ref: (node) => (lane.flagged = node) }));
    return nodes;
  }
  const held = (node) => grip(over, node, (x, y) => node.facAct?.(x, y), () => (stop(), build()));
  const hold = (tag, attributes, act, content) => v(tag, attributes, content, { act });
  const set = (values) => put(model, { ...values, at: 0, flag: -1 });
  const knob = (x, y, kind, act, title, trait = kind) => {
    const shape = { cx: x, cy: y, r: race.box.fs * 0.5, class: `fac-knob fac-race-${kind}`, "data-handle": trait }, node = hold("circle", shape, act, [v("title", {}, title)]);
    return [node, v("path", way(shape))];
  };
  function handles(lane, naive, last) {
    const { s: S, q, k } = lane.at, { scale } = race.box, nodes = [];
    if (naive || race.lanes[0] === lane) {
      nodes.push(...knob(S.x + S.w, S.y + S.h, "corner", (x) => set({ n: nearest(SIZES, Math.max(1, x - S.x) / scale) }), "drag: N", "n"), ...cornerName(text, over, race, S, lane));
    }
    if (!last || naive) return nodes;
    for (const [t, trait, p] of [["Q", "block_q", q], ["K", "block_k", k]]) {
      if (t === "Q" && get("decode")) continue;
      const tall = Math.min(p.h, get(trait) * scale);
      nodes.push(v("path", { class: "fac-race-tile", d: `M${p.x - 5} ${p.y + tall}h${p.w + 10}` }));
      nodes.push(...knob(p.x + p.w / 2, p.y + tall, "rim", (_, y) => set({ [trait]: nearest(TILES, Math.max(1, y - p.y) / scale) }), `drag: rows of a ${t} tile`, trait), tileName(text, race, trait, get));
    }
    if (!get("caches")) return nodes;
    const chips = Object.entries(data().gpus), side = race.box.zoom ** 2 / race.box.deskH / b();
    nodes.push(...knob(lane.x + wall(), lane.desk + race.box.deskH / 2, "wall", (x) => {
      const near = nearest(chips.map(([, c]) => c.shared), Math.max(1, x - lane.x) / side);
      if (near !== chip().shared) set({ gpu: chips.find(([, c]) => c.shared === near)[0] });
    }, "drag: the wall of shared memory, another GPU", "gpu"), text(lane.x + wall() + 6, lane.desk + race.box.deskH + 1.15 * race.box.fs, "fac-t-hand", handleSays(over, "gpu", Infinity, get("gpu")), { "data-names": "gpu" }));
    return nodes;
  }
  /** Whether a lane's tape still waits for the prediction of its end. */
  const asks = (lane) => !clock && Boolean(lane.flagged);
  /** The prediction, above the tape: it waits at the left end, where no tape stops. */
  function plant() {
    const lane = race.lanes.at(-1), planted = get("flag") >= 0;
    stage.classList.toggle("fac-race-fresh", !clock);
    met ||= clock > 0 || planted || !lane.flagged;
    el.classList.toggle("fac-race-asks", !met); // first the flag: then all else can be dragged, too
    if (!lane.flagged) return;
    const { tw, fs, tape, stacked } = race.box, x = planted ? get("flag") * tw : 0.65 * fs, y = lane.bill, left = x > race.box.width / 2, far = (left ? -4 : 4) * fs, tall = (stacked ? 1.25 : 1.5) * fs, top = y - (stacked ? 2.3 : 2.75) * fs, foot = y + (planted ? tape / 2 : -0.65 * fs);
    const inside = planted ? 0 : 6 * fs, tip = planted ? far : -0.6 * fs; // a flag that waits bears what is to be done with it
    const cloth = { class: "fac-race-grab", d: `M${x} ${top}h${inside}l${tip} ${tall / 2}l${-tip} ${tall / 2}h${-inside}z` };
    const grab = clock ? v("path", cloth) : hold("path", cloth, (px) => put(model, { flag: clamp(px / tw) }));
    lane.flagText = null;
    const [sx, sy, anchor] = !planted ? [x + inside + 0.6 * fs, top + 0.67 * tall, "start"] : stacked ? [race.box.width, lane.named, "end"] : [x + 1.12 * far, top + 0.65 * tall, left ? "end" : "start"];
    const says = text(sx, sy, "fac-race-verdict", null, { "text-anchor": anchor }, (node) => (lane.flagText = node));
    renew(lane.nameText, { x: !stacked && (!clock || planted) && x < 9 * fs ? x + 0.9 * fs : 0 }); // right of the flag, where that stands on it
    patch(lane.flagged, clock && !planted ? [] : [
      v("path", { class: "fac-race-flag", d: `M${x} ${foot}V${top}` }), grab,
      v("circle", { class: "fac-race-foot", cx: x, cy: foot, r: 0.5 * fs }), ...(planted ? [] : [text(x + 1 * fs, sy, "fac-race-ask", "drag me")]), says], held);
  }
  race.again = () => draw();
  function draw() {
    if (!visible || !race.box) return;
    race.draw(clock, !playing || reducedMotion());
    label();
  }
  function label() {
    const mark = Math.round(get("flag") * race.axis), { fs, tw } = race.box;
    for (const lane of race.lanes) {
      const over = lane.ends <= clock;
      const given = !clock && lane.name === "naive" && race.lanes.length > 1; // what the other is guessed against
      write(lane.odometer, clock ? amount(lane.now) : given ? givenOf(lane) : "");
      const x = ((given ? lane.total : lane.now) / race.axis) * tw, room = x + 6.6 * fs < tw, { bill, rise } = lane; // a number stands at its tape's head, at the end above it
      renew(lane.odometer, { x: room ? x + 0.5 * fs : given ? race.box.width : x, y: room ? bill + 0.5 * race.box.tape + 0.42 * fs : bill - 0.45 * fs - rise, "text-anchor": room ? "start" : "end" });
      write(lane.endText, clock && room && lane.name === "naive" ? `ends at ${amount(lane.total)}` : "");
      scoreOf(race, lane, clock).forEach((says, i) => write(i ? lane.outSays : lane.outText, says));
      tellTape(lane, clock, race);
      if (lane.flagText) judge(race, lane, mark, over, data().titles[lane.name]);
      if (lane.leastText) write(lane.leastText, clock ? `thin: at least ${bytesText(Math.round(lane.least0))} of it must cross HBM` : "thin: what of it must cross HBM");
      if (lane.seen) renew(lane.seen, { visibility: clock ? "visible" : "hidden" });
      write(lane.statusText, !clock ? "" : lane.current ? doing(lane, lane.current, get("caches") ? race.box.lw : lane.statusW, race.box.lw < 500 ? fs : 1.15 * fs) : over ? "done" : "");
      for (const [t, node] of Object.entries(lane.wearText)) {
        const times = race.timesOf(lane, t);
        const many = times < 10 ? Number(times.toFixed(1)) : short(times, 3);
        write(node, !clock || t === "o" || (t === "s" && times < 0.05) ? "" : t === "s" ? `${many} of ${lane.trips} trips` : `${t === "q" ? "read " : ""}${many} ×`);
      }
      write(lane.timesText, clock ? "" : `N = ${race.box.n}, d = ${race.box.d}${race.box.lw < 500 ? "" : `, ${b()} bytes each`}`);
      if (lane.deskText) write(lane.deskText, lane.name === "naive" && lane.current ? `a tile of ${lane.current.tensor.toUpperCase()}` : "");
    }
    const other = race.lanes[1];
    if (race.difference != null && other.events[race.difference]?.t0 <= clock) outline(other.differs, other, other.events[race.difference]);
    else if (other) renew(other.differs, { visibility: "hidden" });
    write(head, raceTitle(race, clock, get));
    write(words, sentence());
    write(rate, raceRate(race, clock, get));
    seekBar.value = clock / race.end;
    seekBar.style.setProperty("--fac-at", clock / race.end);
    for (const [node, name] of [[seekBar, "aria-valuetext"], [over, "aria-label"]]) node.setAttribute(name, spoken());
  }
  function outline(node, lane, e) {
    const p = e && place(lane, e);
    renew(node, p ? { visibility: "visible", x: p.x - 2, y: p.y - 2, width: p.w + 4, height: p.h + 4 } : { visibility: "hidden" });
  }
  /** Point at the event of a tape's byte, if it has been laid down. */
  function point(lane, byte) {
    let i = byte < 0 || byte > lane.moved ? -1 : lane.from.findIndex((from, j) => byte < from + lane.events[j].bytes);
    if (i >= lane.done) i = -1;
    outline(lane.mark, lane, lane.events[i]);
    write(words, i < 0 ? sentence() : `${data().titles[lane.name]}, event ${i + 1} of ${lane.events.length}: ${says(lane, lane.events[i])}, ${bytesText(lane.events[i].bytes)}.`);
  }
  const sentence = () => raceSays(race, clock, get);
  const spoken = () => `${head.textContent}. ${clock && clock < race.end ? `${race.lanes.map((lane) => `${data().titles[lane.name]}: ${lane.statusText.textContent}`).join(" · ")}. ` : ""}${words.textContent}`;

  // Time
  const keep = () => {
    put(model, { at: clamp(clock / race.end) });
    voice.say(spoken());
  };
  const show = (time) => {
    const began = clock > 0;
    clock = Math.max(0, Math.min(race.end, time));
    if (began !== clock > 0) plant();
    draw();
  };
  const seek = (time) => {
    stop();
    show(time);
    keep();
  };
  function step(way) {
    seek(nextEnd(race, clock, way));
  }
  function stop() {
    if (!playing) return;
    cancelAnimationFrame(playing);
    playing = 0;
    button.textContent = "▶ Play";
    button.setAttribute("aria-pressed", "false");
    draw(); // nothing is in flight any more: what is under way is outlined
    keep();
  }
  function start() {
    if (clock >= race.end) show(0);
    button.textContent = "❚❚ Pause";
    button.setAttribute("aria-pressed", "true");
    let last = null, waited = 0;
    const tick = (now) => {
      if (!el.isConnected) return;
      playing = requestAnimationFrame(tick);
      const passed = last === null ? 0 : Math.min(100, now - last);
      last = now;
      if (!visible) return; // off the screen nothing moves and nothing is drawn
      waited += passed;
      if (reducedMotion() && waited < 500) return;
      show(clock + (waited / 64000) * get("speed") * race.end);
      waited = 0;
      if (clock >= race.end) stop();
    };
    playing = requestAnimationFrame(tick);
  }
  const toggle = () => (playing ? stop() : start());
  const button = h("button", { type: "button", class: "fac-race-go", "aria-pressed": "false", onclick: toggle }, "▶ Play");
  const seekBar = h("input", { type: "range", class: "fac-seek", min: 0, max: 1, step: "any", "aria-label": "Tape", oninput: () => seek(Number(seekBar.value) * race.end) });
  seekBar.addEventListener("keydown", (e) => {
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[e.key];
    if (way) step(way);
    else if (e.key === " ") toggle();
    else return;
    e.preventDefault();
  });

  // Controls: play, tape and N; the rest under "more"
  const count = (trait, label_, places) => field(label_, places, () => get(trait), (value) => {
    if (!Number.isInteger(value) || value < 1 || value > data().limits[trait]) return `A whole number from 1 to ${data().limits[trait]}, please.`;
    set({ [trait]: value });
  });
  const fields = { n: count("n", "N, rows", SIZES), block_q: count("block_q", "B_q, rows of a Q tile", TILES), block_k: count("block_k", "B_k, rows of a K tile", TILES), d: count("d", "d", DIMS), at_once: count("at_once", "programs at once", PROGRAMS) };
  const flagField = field("your flag, % of the tape", Array.from({ length: 101 }, (_, i) => i), () => (get("flag") < 0 ? 0 : Math.round(100 * get("flag"))), (value) => {
    if (!(value >= 0 && value <= 100)) return "A number from 0 to 100, please.";
    put(model, { flag: value / 100 });
  });
  const gpus = select("shared memory of GPU", Object.entries(data().gpus).map(([name, c]) => [name, `${name}, ${c.shared / 1024} KiB`]), (gpu) => set({ gpu }));
  const speed = select("speed", SPEEDS.map((x) => [x, `×${x}`]), (value) => put(model, { speed: Number(value) }));
  const causal = checkbox("causal", (value) => set({ causal: value })), decode = checkbox("decode: Q is one row", (value) => set({ decode: value })), caches = checkbox("show caches and shared memory", (value) => put(model, { caches: value }));
  const mine = (node) => (fixed ? null : node);
  const rate = h("p", { class: "fac-soft fac-race-rate" });
  const rest = more(fixed ? "steps, speed, GPU, caches" : "steps, speed, GPU, caches, tiles, causal, decode",
    h("div", { class: "fac-row" }, h("button", { type: "button", onclick: () => step(-1) }, "◀ Step"), h("button", { type: "button", onclick: () => step(1) }, "Step ▶"), speed.row, gpus.row, mine(causal.row), mine(decode.row), caches.row),
    h("div", { class: "fac-fields" }, mine(fields.block_q.node), mine(fields.block_k.node), fields.at_once.node, mine(fields.d.node), flagField.node), rate);
  for (const trait of ["block_q", "block_k"]) fields[trait].node.querySelector("input[type=text]").setAttribute("aria-label", fields[trait].node.textContent), fields[trait].node.querySelector("label").replaceChildren("B", h("sub", {}, trait.at(-1)), `, rows of a ${trait.at(-1).toUpperCase()} tile`);
  const play = part("race-tape", h("div", { class: "fac-row fac-race-play" }, button, mine(fields.n.node)));
  stage.append(seekBar, play);
  root(model, el, head, stage, words, rest, voice.node);

  function follow() {
    for (const f of [...Object.values(fields), flagField]) f.follow();
    gpus.node.value = get("gpu");
    speed.node.value = get("speed");
    causal.node.checked = get("causal");
    decode.node.checked = get("decode");
    caches.node.checked = get("caches");
    flagField.node.hidden = clock > 0 || race.lanes.length < 2;
  }
  const redraw = () => (stop(), build(), follow());
  onChanges(model, [...SETTINGS, "presenter"], redraw);
  onChanges(model, ["flag"], () => (plant(), draw(), follow()));
  onChanges(model, ["speed"], follow);
  onChanges(model, ["at"], () => {
    if (!playing && Math.abs(get("at") * race.end - clock) > race.end * 1e-9) show(get("at") * race.end);
    follow();
  });
  const size = new ResizeObserver(() => {
    if (!stage.clientWidth || stage.clientWidth === race.box?.width) return;
    width = stage.clientWidth;
    build();
  });
  size.observe(stage);
  const watch = new IntersectionObserver((seen) => {
    visible = seen.at(-1).isIntersecting;
    if (visible) draw();
  });
  watch.observe(stage);
  build();
  follow();
  return () => (stop(), clearTimeout(soon), size.disconnect(), watch.disconnect());
}

export default { render };
