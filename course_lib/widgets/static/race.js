// The Race's words, handles and clock (bytes over bandwidth, never measured time); see race_canvas.js.

const SIZES = powersOfTwo(64, 16384).flatMap((n) => (n < 16384 ? [n, 1.5 * n] : [n]));
const TILES = powersOfTwo(16, 256), DIMS = powersOfTwo(32, 256), SPEEDS = powersOfTwo(1, 64);
const PROGRAMS = [...powersOfTwo(1, 128), 132];
const SETTINGS = ["n", "d", "block_q", "block_k", "at_once", "causal", "decode", "gpu", "dtype", "lanes", "data"];
const clamp = (x) => Math.max(0, Math.min(1, x));

function render({ model, el }) {
  const get = (name) => model.get(name), race = raceCanvas(get), { canvas, data, b, chip, wall, slots, place, blank } = race;
  const fixed = Object.keys(data().replays).length > 0; // a replay has the sizes that it has
  let width = 0, clock = 0, playing = 0, visible = true;
  const over = s("svg", { class: "fac-race-over", role: "img" });
  const stage = part("race-picture", h("div", { class: "fac-race" }, canvas, over));
  const words = h("p", { class: "fac-race-words" }), voice = announcer();

  // Words, lines and handles stand above the canvas, in SVG
  const text = (x, y, cls, content = "", more = {}) => s("text", { x, y, class: cls, ...more }, content);
  function build() {
    race.prepare();
    race.arrange((width ||= stage.clientWidth) || 1000); // looked at once: a look costs a layout
    clock = get("at") * race.end;
    over.setAttribute("viewBox", `0 0 ${race.box.width} ${race.box.height}`);
    stage.style.height = `${race.box.height}px`;
    stage.parentElement?.classList.add("fac-race-laid");
    stage.parentElement?.classList.toggle("fac-race-stacked", race.box.stacked);
    over.replaceChildren(...race.lanes.flatMap(frame));
    race.lanes.forEach(marks);
    blank();
    draw();
  }
  function frame(lane, number) {
    const { fs, lw, shelf, H, deskH, tape, thin, scale, base, stacked } = race.box, { x, y, bill, l2, desk } = lane, naive = lane.name === "naive";
    const last = number === race.lanes.length - 1, tag = lane.name === "replay" || lane.name === "beside" ? "fac-race-tag fac-race-real" : "fac-race-tag";
    const nodes = [
      text(x, stacked ? y + 1.2 * fs : 1.2 * fs, "fac-race-head", [data().titles[lane.name], s("tspan", { class: tag, dx: 10 }, lane.badge)]),
      s("rect", { class: "fac-race-panel", x, y: y + shelf, width: lw, height: H + 4.8 * fs, rx: 6 }),
      text(x + lw - 0.9 * fs, y + shelf + 0.3 * fs, "fac-race-small fac-race-name", "HBM", { "text-anchor": "end" }), // Q stands at the left
    ];
    lane.wearText = {};
    for (const [t, p] of Object.entries(lane.at)) {
      const ghost = t === "s" && !naive;
      nodes.push(s("rect", { class: ghost ? "fac-race-ghost" : "fac-race-edge", x: p.x, y: p.y, width: p.w, height: p.h }));
      nodes.push(text(p.x + p.w / 2, p.y - 0.65 * fs, "fac-race-name", t === "s" ? (naive ? "S, then P" : "S") : t.toUpperCase(), { "text-anchor": "middle" }));
      nodes.push((lane.wearText[t] = text(p.x + p.w / 2, p.y + p.h + 1.1 * fs, "fac-race-wear", "", { "text-anchor": "middle" })));
      if (ghost) nodes.push(text(p.x + p.w / 2, p.y + (p.h > 2 * fs ? p.h / 2 : p.h + 1.3 * fs), "fac-race-never", p.w > 8 * fs ? "S is never here" : "never here", { "text-anchor": "middle" }));
    }
    nodes.push((lane.timesText = text(x + 0.9 * fs, lane.at.k.y + H + 2.3 * fs, "fac-race-soft")), (lane.deskText = text(x + 2, desk + deskH + 1.1 * fs, "fac-race-soft")));
    const bar = 2 ** Math.floor(Math.log2((4 * fs) / scale)), { s: S } = lane.at, by = S.y + H + 2.3 * fs;
    nodes.push(s("path", { class: "fac-race-line", d: `M${S.x} ${by - 5}v5h${bar * scale}v-5` }), text(S.x + bar * scale + 6, by, "fac-race-soft", `${bar} rows`));
    nodes.push(...l2Band(text, lane, race, get));
    // the desk: one wall, and what goes over it
    const w = wall(), at = slots(lane), used = at.s.x + at.s.w - x, lens = base / 512;
    nodes.push(s("rect", { class: "fac-race-desk", x, y: desk - 2, width: w, height: deskH + 4 }));
    nodes.push(text(x, desk - 0.55 * fs, "fac-race-soft", `desk: one SM's shared memory, ${chip().shared / 1024} KiB (${get("gpu")})${lens > 1 ? `, at ${lens} × the scale above` : ""}`));
    if (!naive) for (const [t, p] of Object.entries(at)) nodes.push(s("rect", { class: "fac-race-slot", x: p.x, y: desk, width: p.w, height: deskH }), p.w < 0.5 * fs ? "" : text(p.x + p.w / 2, desk + deskH + 1.1 * fs, "fac-race-soft", t.toUpperCase(), { "text-anchor": "middle" }));
    const full = used > w + 20, kib = Object.values(at).reduce((sum, p) => sum + p.w, 0) / w * chip().shared / 1024;
    if (!naive && full) nodes.push(s("rect", { class: "fac-race-spill", x: x + w, y: desk, width: Math.min(used, lw) - w, height: deskH }));
    const beside = naive ? ["one tile at a time,", "empty after each kernel"] : [`${short(kib, 3)} of ${chip().shared / 1024} KiB`, full ? "over the wall: does not fit" : "a program's tiles"];
    beside.forEach((line, i) => nodes.push(text(x + Math.max(w, naive ? 0 : Math.min(used, lw - 12 * fs)) + 14, desk + deskH / 2 + (i - 0.2) * 1.3 * fs, full && !naive ? "fac-race-small fac-race-bad" : "fac-race-soft", line)));
    if (lens > 2) nodes.push(s("rect", { class: "fac-race-desk", x: x + lw - w / lens - 4, y: desk + 4, width: w / lens, height: deskH / lens }), text(x + lw - w / lens - 10, desk + 1 * fs, "fac-race-soft", "true size", { "text-anchor": "end" }));
    // the bill
    const px = lw / race.axis;
    nodes.push(s("rect", { class: "fac-race-edge", x, y: bill, width: lw, height: tape }), s("rect", { class: "fac-race-panel", x, y: bill + tape + 4, width: lw, height: thin }), text(x, bill - 1.9 * fs, "", [(lane.odometer = s("tspan", { class: "fac-race-odometer" })), " moved"]), text(x + lw, bill - 1.9 * fs, "", [(lane.outText = s("tspan", { class: "fac-race-out" })), " of O written"], { "text-anchor": "end" }));
    const out = { x: x + lw - 11 * fs, y: bill - 1.65 * fs, width: 11 * fs, height: 0.4 * fs };
    nodes.push((lane.outBar = s("rect", { ...out, class: "fac-fill-o" })), s("rect", { ...out, class: "fac-race-edge" }));
    if (stacked) nodes.push(text(x, lane.says - 1.3 * fs, "fac-race-name", data().titles[lane.name]));
    nodes.push((lane.statusText = text(x, lane.says, "")));
    nodes.push(...tapeScale(text, lane, race.box, race.axis));
    lane.mark = s("rect", { class: "fac-race-mark", visibility: "hidden" });
    lane.differs = s("rect", { class: "fac-race-differs", visibility: "hidden" });
    const hit = hold("rect", { x, y: bill - 4, width: lw, height: tape + 8, class: "fac-race-scrub" }, (px2) => seek(((px2 - x) / lw) * (race.axis / (chip().gb_per_s * 1e9))));
    hit.addEventListener("pointermove", (e) => e.buttons || point(lane, (e.clientX - over.getBoundingClientRect().left - x) / px));
    hit.addEventListener("pointerleave", () => point(lane, -1));
    nodes.push(hit, lane.mark, lane.differs);
    if (!fixed) nodes.push(...handles(lane, naive, last));
    nodes.push((lane.marks = s("g")));
    return nodes;
  }
  /** What depends on the clock or on the flag: it may change while all else stays. */
  function marks(lane, number) {
    const { fs, lw, tape, thin } = race.box, { x, bill } = lane, px = lw / race.axis, nodes = [], low = bill + tape + thin + 2.45 * fs;
    const flagged = number === race.lanes.length - 1 && race.lanes.length > 1 && (!clock || get("flag") >= 0);
    nodes.push((lane.leastText = text(x, low, "fac-race-small")));
    stage.classList.toggle("fac-race-fresh", !clock);
    const seen = lane.name === "naive" || fixed || !clock ? null : data().recorded.find((r) => r.n === get("n") && r.d === get("d") && r.causal === get("causal") && !get("decode") && b() === 2);
    if (seen) nodes.push(s("path", { class: "fac-race-measured", d: `M${x + seen.bytes * px} ${bill + tape + 1}l5 5l-5 5l-5 -5z` }, s("title", {}, seen.label)), text(x + lw, low, "fac-race-small", `◆ ${bytesText(seen.bytes)} ${seen.short}`, { "text-anchor": "end" }));
    nodes.push(...(flagged ? flag(lane) : [text(x, bill - 0.45 * fs, "fac-race-soft", "the tape: all that loads and stores move, in order")]));
    lane.marks.replaceChildren(...nodes);
  }
  const hold = (tag, attributes, act) => grip(over, s(tag, attributes), act, stop);
  const set = (values) => put(model, { ...values, at: 0, flag: -1 });
  const knob = (x, y, kind, act, title) => {
    const shape = { cx: x, cy: y, r: race.box.fs * 0.5, class: `fac-knob fac-race-${kind}` }, node = hold("circle", shape, act);
    node.append(s("title", {}, title));
    return [node, s("path", way(shape))];
  };
  function handles(lane, naive, last) {
    const { s: S, q, k } = lane.at, { scale } = race.box, nodes = [];
    if (naive || race.lanes[0] === lane) {
      nodes.push(...knob(S.x + S.w, S.y + S.h, "corner", (x) => set({ n: nearest(SIZES, Math.max(1, x - S.x) / scale) }), "drag: N"));
    }
    if (!last || naive) return nodes;
    if (!get("decode")) {
      nodes.push(s("rect", { class: "fac-race-tile", x: q.x, y: q.y, width: q.w, height: get("block_q") * scale }));
      nodes.push(...knob(q.x + q.w / 2, q.y + Math.min(q.h, get("block_q") * scale), "rim", (_, y) => set({ block_q: nearest(TILES, Math.max(1, y - q.y) / scale) }), "drag: rows of a Q tile"));
    }
    nodes.push(s("rect", { class: "fac-race-tile", x: k.x, y: k.y, width: k.w, height: get("block_k") * scale }));
    nodes.push(...knob(k.x + k.w / 2, k.y + Math.min(k.h, get("block_k") * scale), "rim", (_, y) => set({ block_k: nearest(TILES, Math.max(1, y - k.y) / scale) }), "drag: rows of a K tile"));
    const chips = Object.entries(data().gpus), side = race.box.zoom ** 2 / race.box.deskH / b();
    nodes.push(...knob(lane.x + wall(), lane.desk + race.box.deskH / 2, "wall", (x) => {
      const near = nearest(chips.map(([, c]) => c.shared), Math.max(1, x - lane.x) / side);
      if (near !== chip().shared) set({ gpu: chips.find(([, c]) => c.shared === near)[0] });
    }, "drag: the desk's wall, another GPU"));
    return nodes;
  }
  /** The prediction, above the tape: it waits at the left end, where no tape stops. */
  function flag(lane) {
    const { lw, tape, fs } = race.box, planted = get("flag") >= 0, x = lane.x + Math.max(0, get("flag")) * lw, y = lane.bill;
    const left = x - lane.x > 0.45 * lw, wide = (left ? -2.2 : 2.2) * fs, tall = 1.2 * fs, fy = y - tall - 4;
    const cloth = { class: "fac-race-grab", d: `M${x} ${fy}h${wide}l${-0.2 * wide} ${tall / 2}l${0.2 * wide} ${tall / 2}h${-wide}z` };
    const grab = clock ? s("path", cloth) : hold("path", cloth, (px) => put(model, { flag: clamp((px - lane.x) / lw) }));
    lane.flagText = text(x + 1.2 * wide, y - 0.45 * fs, `fac-race-small${planted ? "" : " fac-race-name"}`, "", { "text-anchor": left ? "end" : "start" });
    return [s("path", { class: "fac-race-flag", d: `M${x} ${y + tape + 4}V${fy}` }), grab, s("path", way({ cx: x + 0.42 * wide, cy: fy + tall / 2, class: "" })), lane.flagText];
  }
  function draw() {
    if (!visible || !race.box) return;
    race.draw(clock, !playing || reducedMotion());
    label();
  }
  function label() {
    for (const lane of race.lanes) {
      write(lane.odometer, bytesText(Math.round(lane.now)));
      const ends = lane.events.at(-1).t1, over = ends <= clock, mark = Math.round(get("flag") * race.axis);
      lane.outBar.setAttribute("width", (11 * race.box.fs * lane.written) / (lane.outs || 1));
      write(lane.outText, `${Math.floor((100 * lane.written) / (lane.outs || 1))} %`);
      if (lane.flagText) write(lane.flagText, mark < 0 ? "drag your flag to where this tape will end" : `your flag: ${bytesText(mark)}${lane.now > mark ? ": too low" : ""}`);
      write(lane.leastText, `thin: of this, HBM carries at least ${clock ? bytesText(Math.round(lane.least0)) : "so much"}${over || !clock ? "" : " so far"}`);
      write(lane.statusText, !clock ? "nothing has moved yet" : lane.current ? says(lane, lane.current) : over ? `done after ${timeText(ends)} of traffic clock` : "");
      for (const [t, node] of Object.entries(lane.wearText)) {
        const size = t === "s" ? lane.scores : race.box.n * race.box.d * b() * ("qo".includes(t) && get("decode") ? 1 / race.box.n : 1), times = (lane.reads[t] ?? 0) / size;
        write(node, times && (t !== "s" || lane.name === "naive") ? `×${times < 10 ? times.toFixed(1) : short(times, 3)}` : "");
      }
      write(lane.timesText, clock && !get("decode") ? `×: times moved${Object.values(lane.wear).some((times) => times > 1) && lane.at.s.x - lane.x > 15.5 * race.box.fs ? "; fringe: re-read" : ""}` : "");
      write(lane.deskText, lane.name === "naive" && lane.current ? `a tile of ${lane.current.tensor.toUpperCase()}` : "");
    }
    const other = race.lanes[1];
    if (race.difference != null && other.events[race.difference]?.t0 <= clock) outline(other.differs, other, other.events[race.difference]);
    else other?.differs.setAttribute("visibility", "hidden");
    write(words, sentence());
    seekBar.value = clock / race.end;
    for (const [node, name] of [[seekBar, "aria-valuetext"], [over, "aria-label"]]) node.setAttribute(name, spoken());
  }
  function outline(node, lane, e) {
    const p = e && place(lane, e);
    node.setAttribute("visibility", p ? "visible" : "hidden");
    if (p) fill(node, { x: p.x - 2, y: p.y - 2, width: p.w + 4, height: p.h + 4 }, []);
  }
  /** Point at the event of a tape's byte, if it has been laid down. */
  function point(lane, byte) {
    let i = byte < 0 || byte > lane.moved ? -1 : lane.from.findIndex((from, j) => byte < from + lane.events[j].bytes);
    if (i >= lane.done) i = -1;
    outline(lane.mark, lane, lane.events[i]);
    write(words, i < 0 ? sentence() : `${data().titles[lane.name]}, event ${i + 1} of ${lane.events.length}: ${says(lane, lane.events[i])}, ${bytesText(lane.events[i].bytes)}.`);
  }
  /** What can be dragged here. */
  function handled() {
    const last = race.lanes.at(-1), tiled = last.name !== "naive";
    return `To drag: the corner of S${tiled ? `, the edge of the ${get("decode") ? "" : "Q tile or of the "}K tile, the desk's wall (another GPU)` : ""}.`;
  }
  const sentence = () => raceSays(race, clock, get);
  const spoken = () => (clock && clock < race.end ? `${race.lanes.map((lane) => `${data().titles[lane.name]}: ${lane.statusText.textContent}`).join(" · ")}. ` : "") + words.textContent;

  // Time
  const keep = () => {
    put(model, { at: clamp(clock / race.end) });
    voice.say(spoken());
  };
  const show = (time) => {
    const began = clock > 0;
    clock = Math.max(0, Math.min(race.end, time));
    if (began !== clock > 0) reframe();
    else draw();
  };
  const reframe = () => {
    race.lanes.forEach(marks);
    draw();
  };
  const seek = (time) => {
    stop();
    show(time);
    keep();
  };
  function step(way) {
    const times = race.lanes.flatMap((lane) => lane.events.map((e) => e.t1)), tiny = race.end * 1e-9;
    const ahead = way > 0 ? Math.min(...times.filter((t) => t > clock + tiny)) : Math.max(0, ...times.filter((t) => t < clock - tiny));
    seek(Number.isFinite(ahead) ? ahead : race.end);
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
  const button = h("button", { type: "button", "aria-pressed": "false", onclick: toggle }, "▶ Play");
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
  const gpus = select("desk's wall, GPU", Object.entries(data().gpus).map(([name, c]) => [name, `${name}, ${c.shared / 1024} KiB`]), (gpu) => set({ gpu }));
  const speed = select("speed", SPEEDS.map((x) => [x, `×${x}`]), (value) => put(model, { speed: Number(value) }));
  const causal = checkbox("causal", (value) => set({ causal: value })), decode = checkbox("decode: Q is one row", (value) => set({ decode: value }));
  const mine = (node) => (fixed ? null : node);
  const hint = h("p", { class: "fac-soft fac-race-hint" });
  const rest = more(fixed ? "single steps, speed, GPU" : "single steps, speed, GPU, tiles, causal, decode", mine(hint),
    h("div", { class: "fac-row" }, h("button", { type: "button", onclick: () => step(-1) }, "◀ Step"), h("button", { type: "button", onclick: () => step(1) }, "Step ▶"), speed.row, gpus.row, mine(causal.row), mine(decode.row)),
    h("div", { class: "fac-fields" }, mine(fields.block_q.node), mine(fields.block_k.node), fields.at_once.node, mine(fields.d.node), flagField.node));
  root(model, el, stage, words, h("div", { class: "fac-race-controls" }, part("race-tape", h("div", { class: "fac-row fac-race-play" }, button, h("label", { class: "fac-race-time" }, h("span", {}, "Tape"), seekBar))), mine(fields.n.node), rest), voice.node);

  function follow() {
    for (const f of [...Object.values(fields), flagField]) f.follow();
    gpus.node.value = get("gpu");
    speed.node.value = get("speed");
    causal.node.checked = get("causal");
    decode.node.checked = get("decode");
    write(hint, handled());
    flagField.node.hidden = clock > 0 || race.lanes.length < 2;
  }
  const redraw = () => (stop(), build(), follow());
  onChanges(model, [...SETTINGS, "presenter"], redraw);
  onChanges(model, ["flag"], () => (reframe(), follow()));
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
  return () => (stop(), size.disconnect(), watch.disconnect());
}

export default { render };
