// What one tile needs on the chip; the buffers are monomials sent as data.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** Bytes of each buffer. */
export function bufferBytes(terms, values) {
  return Object.fromEntries(Object.entries(terms).map(([name, term]) => [name, termBytes(term, values)]));
}

const sum = (bytes) => Object.values(bytes).reduce((a, b) => a + b, 0);

/** The largest B with B x B tiles in `limit` bytes. */
export function largestTile(terms, values, limit) {
  let low = 0, high = 2 ** 20;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (sum(bufferBytes(terms, { ...values, block_q: middle, block_k: middle })) <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

const KIB = 1024;
const lettered = (name) => (name === "m, l" ? "other" : name[0].toLowerCase());

function render({ model, el }) {
  const data = model.get("data");
  const get = (name) => model.get(name);
  const COUNTS = { block_q: ["B_q, query rows", 16, 256], block_k: ["B_k, key rows", 16, 256], d: ["d, head dimension", 16, 512], stages: ["stages, K/V tiles in flight", 1, 8], warps: ["warps of a program", 1, 16], n: ["N, for the re-reads", 256, 2 ** 18] };
  const fields = Object.fromEntries(Object.entries(COUNTS).map(([trait, [label, least]]) => [trait, countField(model, trait, label, least, data.limits[trait])]));
  const layout = select("Layout", [["paper", "paper: all in shared memory"], ["kernel", "real: S, O in registers"]], (value) => put(model, { buffers: value }));
  const dtype = select("dtype", Object.keys(data.dtypes).map((name) => [name, name]), (value) => put(model, { dtype: value }));
  const tiles = powersOfTwo(16, data.limits.block_q);
  const walls = [...new Set(Object.values(data.gpus))].map((limit) => ({ limit, names: Object.keys(data.gpus).filter((name) => data.gpus[name] === limit) }));
  const layers = [s("g"), part("sram-gpus", s("g")), s("g")];
  const [block, chips, hands] = layers.map(scene);
  const picture = stage(model, "sram-block", drawPicture, ...layers);
  const words = h("p", { class: "fac-stage-words" }), voice = announcer();
  let room = 256 * KIB;
  root(model, el, picture.node, words, h("div", { class: "fac-fields" }, fields.block_q.node, fields.block_k.node, part("sram-layout", layout.row)),
    more("dtype, d, stages, warps, N", h("div", { class: "fac-row" }, dtype.row), h("div", { class: "fac-fields" }, ["d", "stages", "warps", "n"].map((name) => fields[name].node))), voice.node);

  /** What the picture shows: bytes of each buffer, all of them, and what the wall of the registers is. */
  function counted() {
    const values = { block_q: get("block_q"), block_k: get("block_k"), d: get("d"), stages: get("stages"), b: data.dtypes[get("dtype")] };
    const terms = data.layouts[get("buffers")];
    const shared = bufferBytes(terms.shared, values), registers = bufferBytes(terms.registers, values);
    return { values, terms: terms.shared, shared, registers, total: sum(shared), spilled: data.registers_per_thread * 4 * 32 * get("warps") };
  }

  function draw() {
    for (const f of Object.values(fields)) f.follow();
    layout.node.value = get("buffers");
    dtype.node.value = get("dtype");
    fields.stages.node.hidden = fields.warps.node.hidden = get("buffers") !== "kernel";
    picture.draw();
    voice.say(words.textContent);
  }

  function drawPicture(width, fs) {
    const now = counted(), { shared, registers, total } = now;
    const names = Object.keys(data.gpus).filter((name) => total <= data.gpus[name]);
    const times = (rows) => `${Math.ceil(get("n") / rows)} ${get("n") <= rows ? "time" : "times"}`;
    const perThread = sum(registers) / 4 / (32 * get("warps"));
    words.textContent = `This tile takes ${bytesText(total, KIB)} of shared memory: it fits on ${names.length ? names.join(", ") : "none of these GPUs"}. At N = ${get("n")} K and V are read ${times(get("block_q"))}.`
      + (perThread ? ` ${short(perThread, 3)} registers a thread for these buffers alone, of ${data.registers_per_thread}${perThread > data.registers_per_thread ? ": the rest spills to slow memory." : "."}` : "")
      + get("compiled").map((c) => ` ◆ ${c.gpu}, ${c.label}: ${bytesText(c.shared, KIB)} shared${c.registers == null ? "" : `, ${c.registers} registers a thread`}${c.spills ? `, ${c.spills} B spilled` : ""}.`).join("")
      + (get("compiled").length ? " Trust the compiler's own figure over the formula." : "");
    picture.svg.setAttribute("aria-label", `${Object.entries(shared).map(([name, bytes]) => `${name} ${bytesText(bytes, KIB)}`).join(", ")} in shared memory. ${words.textContent}`);

    if (!picture.svg.facHeld) room = 256 * KIB; // the axis grows by two, and its walls come closer
    while (!picture.svg.facHeld && room < 1.02 * Math.max(total, sum(registers), perThread ? now.spilled : 0, ...get("compiled").map((c) => c.shared))) room *= 2;
    const right = width - 2 * fs, px = (bytes) => 1 + (bytes / room) * (right - 1);
    const top = 3.4 * fs, tall = 5.2 * fs, narrow = width < 640, lane = 2.7 * fs, bar = 1.35 * fs, under = top + tall + 6.6 * fs;
    const y = under + walls.length * lane + (perThread ? 1.9 * fs : 0);
    block((add) => hands((over) => {
      axis(add, room, px, top + tall, fs);
      const spans = slide(add, over, shared, "shared", top, tall, px, fs);
      const most = walls.at(-1).limit;
      if (total > most) {
        const w = px(total) - px(most), too = bytesText(total - most, KIB), text = [`${too} past the last wall`, `${too} too much`, too].find((words) => wide(words, 0.87 * fs) + fs < w);
        over("spill", "rect", { class: "fac-sram-spill", x: px(most), y: top, width: w, height: tall });
        if (text) chip(over, "spills", text, px(most) + w / 2, top + tall / 2, fs);
      }
      if (perThread) registerFile(add, over, now, px, y, fs);
      handles(over, spans, now, px, top, tall, fs, width);
    }));
    chips((add) => {
      const titles = walls.map(({ limit, names: all }) => (narrow ? all.join(", ") : `${all.join(", ")}: ${limit / KIB} KiB`));
      const places = spread(walls.map(({ limit }) => px(limit)), titles.map((t) => wide(t, fs) + fs), 0, width);
      // What the block goes through ends above it; below it are the handles.
      const post = (x, y, height) => `M${x - 1.5} ${y}h3v${height}h-3z`;
      walls.forEach(({ limit }, i) => add(`wall ${i}`, "path", { class: "fac-sram-wall", d: post(px(limit), top - 1.3 * fs, (total > limit ? 0 : tall) + 1.3 * fs) }));
      const columns = narrow ? [1, 16.5 * fs, 24.5 * fs] : [1, 18 * fs, 28 * fs];
      ["with this tile", "largest tile", "then K, V read"].forEach((words, i) => add(`head ${i}`, "text", { class: "fac-t-soft", x: columns[i], y: under - 0.6 * fs }, words));
      walls.forEach(({ limit, names: all }, i) => {
        const fits = total <= limit, at = under + i * lane, best = largestTile(now.terms, now.values, limit), cls = `fac-t-small${fits ? "" : " fac-sram-no"}`;
        add(`lead ${i}`, "path", { class: "fac-sram-lead", d: `M${places[i]} ${1.2 * fs}L${px(limit)} ${top - 1.3 * fs}` });
        add(`name ${i}`, "text", { class: cls, x: places[i], y: 0.95 * fs, "text-anchor": "middle" }, titles[i]);
        if (!fits) {
          const box = [px(limit), at + bar, px(total) - px(limit), 0.6 * fs];
          add(`over ${i}`, "rect", { class: "fac-sram-over", x: box[0], y: box[1], width: box[2], height: box[3] });
          add(`hatch ${i}`, "path", { class: "fac-sram-hatch", d: hatching(...box, 6) });
        }
        add(`used ${i}`, "rect", { class: "fac-sram-used", x: px(0), y: at + bar, width: px(Math.min(total, limit)) - px(0), height: 0.6 * fs });
        add(`edge ${i}`, "rect", { class: "fac-outline", x: px(0), y: at + bar, width: px(limit) - px(0), height: 0.6 * fs });
        add(`says ${i}`, "text", { class: cls, x: columns[0], y: at + 0.9 * fs }, `${all.join(", ")} ${fits ? `✓ ${bytesText(limit - total, KIB)} left` : `✗ ${bytesText(total - limit, KIB)} too much`}`);
        add(`best ${i}`, "text", { class: "fac-t-small", x: columns[1], y: at + 0.9 * fs }, best ? `${best} × ${best}` : "not one row");
        add(`reads ${i}`, "text", { class: "fac-t-small", x: columns[2], y: at + 0.9 * fs }, best ? times(best) : "–");
        get("compiled").filter((c) => all.includes(c.gpu)).forEach((c, j) => add(`mark ${i} ${j}`, "path", { class: "fac-measured", d: `M${px(c.shared)} ${at + bar - 0.4 * fs}l${0.7 * fs} ${0.7 * fs}l${-0.7 * fs} ${0.7 * fs}l${-0.7 * fs} ${-0.7 * fs}z` }, `${c.label}: ${bytesText(c.shared, KIB)}`));
      });
    });
    return y + (perThread ? 4.2 * fs : 0);
  }

  /** The same KiB for the registers, whose wall is what a thread may have. */
  function registerFile(add, over, { registers, spilled }, px, y, fs) {
    slide(add, over, registers, "registers", y, 2.6 * fs, px, fs);
    const all = sum(registers), spills = all > spilled;
    add("register wall", "rect", { class: "fac-sram-wall", x: px(spilled) - 1.5, y: y - 0.4 * fs, width: 3, height: 3.4 * fs });
    if (spills) over("register spill", "rect", { class: "fac-sram-spill", x: px(spilled), y, width: px(all) - px(spilled), height: 2.6 * fs });
    add("registers", "text", { class: `fac-t-small${spills ? " fac-sram-no" : ""}`, x: 1, y: y + 3.8 * fs }, `registers of ${get("warps")} ${get("warps") > 1 ? "warps" : "warp"}: ${bytesText(all, KIB)} of ${bytesText(spilled, KIB)}${spills ? ", the rest spills" : ""}`);
  }

  /** The widest part of a buffer that no wall cuts: its ends. */
  const gap = (x, w, cuts) => {
    const ends = [x, ...cuts.filter((cut) => cut > x && cut < x + w), x + w];
    return ends.slice(1).map((end, i) => [ends[i], end]).reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a));
  };

  /** Lay buffers side by side from the left wall; their names above. Returns where each one is. */
  function slide(add, over, buffers, where, y, tall, px, fs) {
    const spans = {}, names = [];
    let from = 0;
    for (const [name, bytes] of Object.entries(buffers)) {
      const x = px(from), w = px(from + bytes) - x, kind = lettered(name), staged = name.includes("stages") ? get("stages") : 1;
      spans[kind] = { from, x, w };
      add(`${where} ${kind}`, "rect", { class: `fac-sram-buffer fac-fill-${kind}`, x, y, width: w, height: tall }, `${name}: ${bytesText(bytes, KIB)}`);
      for (let i = 1; i < staged; i += 1) add(`${where} ${kind} ${i}`, "path", { class: "fac-sram-stage", d: `M${x + (i * w) / staged} ${y}v${tall}` });
      const letter = name.split(",")[0] + (staged > 1 ? ` ×${staged}` : ""), long = `${letter} ${bytesText(bytes, KIB)}`;
      const [left, right] = gap(x, w, where === "shared" ? walls.map(({ limit }) => px(limit)) : []), free = right - left; // no wall through a name
      if (kind !== "other") names.push({ kind, letter, long, free, x: (left + right) / 2 });
      from += bytes;
    }
    const roomy = names.every(({ long, free }) => wide(long, fs) + 0.5 * fs < free); // all say how much, or none
    for (const { kind, letter, long, free, x } of names) {
      if (roomy || wide(letter, fs) < free) over(`${where} ${kind} name`, "text", { class: "fac-t-name", x, y: y - 0.35 * fs, "text-anchor": "middle" }, roomy ? long : letter);
    }
    return spans;
  }

  /** KiB, right under the block. */
  function axis(add, room, px, y, fs) {
    add("ruler", "path", { class: "fac-outline", d: `M${px(0)} ${y}H${px(room)}` });
    for (let i = 0; i <= 4; i += 1) {
      const bytes = (i * room) / 4;
      add(`grid ${i}`, "path", { class: "fac-outline", d: `M${px(bytes)} ${y}v${0.4 * fs}` });
      add(`tick ${i}`, "text", { class: "fac-t-soft", x: px(bytes), y: y + 1.6 * fs, "text-anchor": i ? "middle" : "start" }, i && i < 4 ? String(bytes / KIB) : `${bytes / KIB} KiB`);
    }
  }

  /** The edges of Q and of K are the handles: what is dragged is the number of rows. */
  function handles(add, spans, now, px, top, tall, fs, width) {
    const row = px(now.values.d * now.values.b) - px(0), many = get("buffers") === "kernel" ? get("stages") : 1;
    const edges = [["block_q", spans.q, 1], ["block_k", spans.k, many]];
    const says = [...edges.map(([trait]) => `${trait === "block_q" ? "B_q" : "B_k"} = ${get(trait)}`), bytesText(now.total, KIB)];
    const sizes = says.map((text, i) => wide(text, i < 2 ? fs : 1.35 * fs) + 1.2 * fs);
    const ends = [...edges.map(([, span]) => span.x + span.w), px(now.total)];
    const places = spread(ends, sizes, 0, width);
    edges.forEach(([trait, span, rows], i) => {
      const act = (x) => put(model, { [trait]: nearest(tiles, Math.max(1, x - span.x) / row / rows) });
      add(`hold ${trait}`, "path", { class: "fac-sram-hold", d: `M${ends[i]} ${top + tall / 2}v${tall / 2}` });
      add(`grab ${trait}`, "rect", { class: "fac-grab fac-across", x: ends[i] - 0.8 * fs, y: top + (i ? tall / 2 : 0), width: 1.6 * fs, height: tall / 2 }, "", act);
      add(`knob ${trait}`, "circle", { class: `fac-knob fac-across fac-knob-${trait}`, cx: ends[i], cy: top + tall, r: 0.5 * fs }, `drag: ${COUNTS[trait][0]}`, act);
    });
    const marks = now.shared["m, l"], note = marks ? `grey: ${bytesText(marks, KIB)} of m, ℓ` : "", half = wide(note, 0.87 * fs) / 2;
    add("end", "path", { class: "fac-sram-lead", d: `M${ends[2]} ${top + tall}v${0.5 * fs}` });
    add("note", "text", { class: "fac-t-soft", x: Math.max(half, Math.min(width - half, places[2])), y: top + tall + 4.3 * fs, "text-anchor": "middle" }, note);
    says.forEach((text, i) => add(`says ${i}`, "text", { class: i < 2 ? "fac-t-name" : "fac-t-big", x: places[i], y: top + tall + 3 * fs, "text-anchor": "middle" }, text));
  }

  onChanges(model, [...Object.keys(COUNTS), "buffers", "dtype", "compiled"], draw);
  draw();
}

export default { render };
