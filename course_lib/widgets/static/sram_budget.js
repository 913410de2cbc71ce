// What one tile needs on the chip; the buffers are monomials sent as data.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** Bytes of each buffer. */
export function bufferBytes(terms, values) {
  return Object.fromEntries(Object.entries(terms).map(([name, term]) => [name, termBytes(term, values)]));
}

const sum = (bytes) => Object.values(bytes).reduce((a, b) => a + b, 0);

const LEAST = 48; // rows of Q: at so small a tile the reads reach the top of their picture
const TILE = 16; // rows: tensor cores take them so
/** The largest B of whole tensor-core tiles with B x B tiles in `limit` bytes. */
export function largestTile(terms, values, limit) {
  let low = 0, high = 2 ** 16;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (sum(bufferBytes(terms, { ...values, block_q: TILE * middle, block_k: TILE * middle })) <= limit) low = middle;
    else high = middle - 1;
  }
  return TILE * low;
}

const KIB = 1024, AXIS = 408 * KIB; // two tiles of 256 rows of 128 numbers, and some room
/** The round number below x: 1, 2 or 5 times a power of ten, at least 1. */
const round = (x) => Math.max(1, ...[1, 2, 5].map((of) => of * 10 ** Math.floor(Math.log10(x / of))).filter((at) => at <= x));
/** B_q with its q below the line. */
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
  const layers = [s("g"), s("g"), s("g"), s("g")];
  const [block, chips, hands, buys] = layers.map(scene);
  const picture = stage(model, "sram-block", drawPicture, ...layers);
  const title = h("p", { class: "fac-sram-title" }), words = h("p", { class: "fac-stage-words" }), voice = announcer();
  const rows = walls.map(({ names }) => ({ node: h("tr", {}, h("th", { scope: "row" }, names.join(", ")), h("td"), h("td"), h("td")) }));
  const table = part("sram-gpus", h("table", { class: "fac-sram-table" }, h("thead", {}, h("tr", {}, ["GPU", "these tiles", "largest square tile (steps of 16)", "K and V then read"].map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows.map(({ node }) => node))));
  let zoom = 1, pulled = ""; // the edge that was dragged last
  root(model, el, title, picture.node, words, h("div", { class: "fac-fields" }, fields.block_q.node, fields.block_k.node, part("sram-layout", layout.row)),
    more("the largest tile for each GPU", table), more("dtype, d, stages, warps, N", h("div", { class: "fac-row" }, dtype.row), h("div", { class: "fac-fields" }, ["d", "stages", "warps", "n"].map((name) => fields[name].node))), voice.node);

  /** What the picture shows: bytes of each buffer, all of them, and what the wall of the registers is. */
  function counted() {
    const values = { block_q: get("block_q"), block_k: get("block_k"), d: get("d"), stages: get("stages"), b: data.dtypes[get("dtype")] };
    const terms = data.layouts[get("buffers")];
    const shared = bufferBytes(terms.shared, values), registers = bufferBytes(terms.registers, values);
    return { values, terms: terms.shared, shared, registers, total: sum(shared), spilled: data.registers_per_thread * 4 * 32 * get("warps") };
  }

  /** The largest tile for each limit; the tiles of now do not count. */
  let allowedOf = "", allowed_ = [];
  function allowed({ terms, values }) {
    const key = [values.d, values.b, values.stages, get("buffers")].join();
    if (key !== allowedOf) [allowedOf, allowed_] = [key, walls.map(({ limit }) => largestTile(terms, values, limit))];
    return allowed_;
  }

  function draw() {
    for (const f of Object.values(fields)) f.follow();
    layout.node.value = get("buffers");
    dtype.node.value = get("dtype");
    fields.stages.node.hidden = fields.warps.node.hidden = get("buffers") !== "kernel";
    picture.draw();
    voice.say(`${title.textContent} ${words.textContent}`);
  }

  function drawPicture(width, fs) {
    const now = counted(), { shared, registers, total } = now;
    const names = Object.keys(data.gpus).filter((name) => total <= data.gpus[name]);
    const times = (rows) => `${Math.ceil(get("n") / rows)} ${get("n") <= rows ? "time" : "times"}`;
    const perThread = sum(registers) / 4 / (32 * get("warps"));
    const most = walls.at(-1).limit, out = Object.keys(data.gpus).filter((name) => total > data.gpus[name]), narrow = width < 640;
    const sides = [...new Set([get("block_q"), get("block_k")])].join(" and ");
    write(title, `Tiles of ${sides} rows need ${bytesText(total, KIB)}: ${names.length ? `they fit ${names.join(", ")}${out.length ? `; not ${out.join(", ")}` : ""}` : `${bytesText(total - most, KIB)} more than even ${walls.at(-1).names.join(" and ")} ha${walls.at(-1).names.length > 1 ? "ve" : "s"}`}`);
    const { block_q, block_k, d, b } = now.values;
    write(words, `Rows × d: Q${now.shared.O ? " and O" : ""} ${block_q} × ${d} numbers, K and V ${block_k} × ${d}${now.shared.S ? `; S ${block_q} × ${block_k}` : ""}; ${b} bytes each.`
      + (perThread ? ` ${short(perThread, 3)} registers a thread for these buffers alone, of ${data.registers_per_thread}${perThread > data.registers_per_thread ? ": the rest spills to slow memory." : "."}` : "")
      + get("compiled").map((c) => ` ◆ ${c.gpu}, ${c.label}: ${bytesText(c.shared, KIB)} shared${c.registers == null ? "" : `, ${c.registers} registers a thread`}${c.spills ? `, ${c.spills} B spilled` : ""}.`).join("")
      + (get("compiled").length ? " Trust the compiler's own figure over the formula." : ""));
    picture.svg.setAttribute("aria-label", `${title.textContent}. ${Object.entries(shared).map(([name, bytes]) => `${name} ${bytesText(bytes, KIB)}`).join(", ")} in shared memory. K and V are read ${times(get("block_q"))}.`);
    const largest = allowed(now);
    walls.forEach(({ limit }, i) => {
      const best = largest[i], fits = total <= limit;
      const cells = [`${fits ? "✓" : "✗"} ${bytesText(Math.abs(limit - total), KIB)} ${fits ? "left" : "over"}`, best ? `${best} × ${best}` : "none", best ? times(best) : "–"];
      rows[i].node.classList.toggle("fac-sram-out", !fits);
      cells.forEach((cell, j) => write(rows[i].node.children[j + 1], cell));
    });

    // The axis holds still, that a limit stays where it is; what needs more halves its scale, and that is said.
    const needs = Math.max(total, sum(registers), perThread ? now.spilled : 0, ...get("compiled").map((c) => c.shared));
    if (!picture.svg.facHeld) zoom = 2 ** Math.max(0, Math.ceil(Math.log2(needs / AXIS)));
    const room = zoom * AXIS, right = width - 1.5 * fs, px = (bytes) => 1 + (bytes / room) * (right - 1);
    const top = 3.2 * fs, tall = 5.2 * fs, over_ = total > most ? bytesText(total - most, KIB) : "", y = top + tall + 4.9 * fs;
    // Where limits are too near to be named, those between are left to the table; the largest stays.
    const named = walls.map((wall, i) => ({ ...wall, best: largest[i], x: px(wall.limit) })).reduce((kept, wall) => {
      const near = kept.length && wall.x - kept.at(-1).x < ([...kept.at(-1).names, ...wall.names].join("").length < 5 ? 2 : 4) * fs;
      return !near ? [...kept, wall] : wall.limit === most ? [...kept.slice(0, -1), wall] : kept;
    }, []), axis = y + (perThread ? 4.7 : 0.1) * fs, end = axis + 2.9 * fs, base = end + 10.9 * fs;
    block((add) => hands((over) => {
      const edges = [shared.Q, shared.Q + (shared.K ?? shared["K, all stages"])]; // a limit that stands at a handle ends above it
      for (const { limit, x } of named) over(`limit ${limit}`, "path", { class: "fac-sram-limit", d: `M${x} ${top}v${edges.some((edge) => Math.abs(px(edge) - x) < fs) ? tall - 3.4 * fs : tall}` });
      if (total > most) over("spill", "rect", { class: "fac-sram-spill", x: px(most), y: top, width: px(total) - px(most), height: tall }); // hatched over: each part keeps its length and its colour
      if (total > most) over("spill hatch", "path", { class: "fac-sram-hatch", d: hatching(px(most), top, px(total) - px(most), tall, 12) });
      if (over_) over("last", "path", { class: "fac-sram-last fac-sram-floor", d: `M${px(most) - 2.5} ${top - 0.7 * fs}h5v${tall + 1.1 * fs}h-5z` }); // over which it spills
      const spans = slide(add, over, shared, "shared", top, tall, px, fs, named.filter(({ limit }) => limit < total).map(({ x }) => x)); // a name hides no limit
      if (perThread) registerFile(add, over, now, px, y, fs);
      add("ruler", "path", { class: "fac-outline", d: `M${px(0)} ${top + tall}H${px(room)}` });
      handles(over, spans, now, px, top, tall, fs, width, narrow, over_ ? { from: px(most), text: `${over_} too much` } : null);
      get("compiled").forEach((c, j) => over(`mark ${j}`, "path", { class: "fac-measured", d: `M${px(c.shared)} ${top + tall - 0.7 * fs}l${0.7 * fs} ${0.7 * fs}l${-0.7 * fs} ${0.7 * fs}l${-0.7 * fs} ${-0.7 * fs}z` }, `${c.gpu}, ${c.label}: ${bytesText(c.shared, KIB)}`));
    }));
    chips((add) => {
      drawAxis(add, axis, { px, room, zoom, fs, narrow });
      const long = ({ names: all, limit }) => [all.join(", "), `${limit / KIB}${narrow ? "" : " KiB"}: ${total <= limit ? "yes" : "no"}${narrow || total > limit ? "" : `, ${short((limit - total) / KIB, 3)} left`}`];
      const rows = named.map(long), sizes = rows.map(([name, size]) => Math.max(wide(name, (narrow ? 1.1 : 1.02) * fs), wide(size, 0.87 * fs)) + (narrow ? 0.4 : 0.7) * fs), at = spread(named.map(({ x }) => x - (narrow ? 0.5 * fs : 0)), sizes, 0, width); // near ones push to the right
      if (zoom > 1) add("zoom", "text", { class: "fac-t-name", "text-anchor": "end", x: width, y: 2.1 * fs }, `zoomed out ${zoom} ×, to ${bytesText(room, KIB)}`);
      if (narrow && at[0] - sizes[0] / 2 > 2.4 * fs) add("unit", "text", { class: "fac-t-soft", x: 1, y: 2.1 * fs }, "KiB:");
      named.forEach(({ limit, x }, i) => {
        add(`wall ${limit}`, "path", { class: "fac-sram-wall", d: `M${x - 1.5} ${top - 0.7 * fs}h3v${(limit > total ? 0.7 * fs + tall : 0.7 * fs).toFixed(1)}h-3z` }); // through a block it is thin, and below the names
        add(`through ${limit}`, "path", { class: "fac-sram-through", d: `M${x} ${end + 1.6 * fs}V${base}` }); // below the names: the same place again
        if (Math.abs(at[i] - x) > sizes[i] / 2) add(`lead ${limit}`, "path", { class: "fac-sram-lead", d: `M${at[i]} ${top - 0.95 * fs}L${x} ${top - 0.7 * fs}` });
        rows[i].forEach((text, j) => add(`${j ? "size" : "name"} ${limit}`, "text", { class: j ? "fac-t-small" : "fac-t-name fac-sram-gpu", x: at[i], y: (1 + 1.1 * j) * fs, "text-anchor": "middle" }, text));
      });
    });
    buys((add) => drawReads(add, end, base, { now, px, room, total, width, fs, narrow, named, over_ }));
    return base + 0.6 * fs;
  }

  /** The memory that both pictures are drawn on, between them. */
  function drawAxis(add, y, { px, room, zoom, fs, narrow }) {
    const step = zoom * (narrow ? 200 : 100), last = Math.floor(room / KIB / step) * step, place = (kib) => px(kib * KIB);
    const ticks = Array.from({ length: Math.floor((2 * room) / KIB / step) + 1 }, (_, i) => (i * step) / 2);
    add("axis", "path", { class: "fac-outline fac-sram-axis", d: `M${px(0)} ${y}H${px(room)}${ticks.map((kib) => `M${place(kib)} ${y}v${(kib % step ? 0.25 : 0.4) * fs}`).join("")}` });
    for (let kib = 0; kib <= last; kib += step) add(`axis ${kib}`, "text", { class: "fac-t-soft fac-sram-kib", x: place(kib), y: y + 1.3 * fs, "text-anchor": kib ? "middle" : "start" }, `${kib}`);
    const gap = place(step) - place(0), says = ["KiB of on-chip memory", "KiB on chip", "KiB"].find((text) => wide(text, 0.87 * fs) < gap - 2 * fs) ?? "KiB";
    add("axis says", "text", { class: "fac-t-small", x: place(last) - gap / 2, y: y + 1.3 * fs, "text-anchor": "middle" }, says);
  }

  /**
   * What memory buys, on the axis of the block above: how often K and V are read. The line is the fewest reads in so much
   * memory, with square tiles; each GPU's limit meets it at what it allows.
   */
  function drawReads(add, y, base, { now, px, room, total, width, fs, narrow, named, over_ }) {
    const n = get("n"), of = (rows) => Math.ceil(n / rows), many = of(get("block_q")), tick = round(of(LEAST) / 3), most = tick * Math.ceil(of(LEAST) / tick), top = y + 1.9 * fs;
    const Y = (reads) => base - Math.min(1, reads / most) * (base - top), need = (rows) => sum(bufferBytes(now.terms, { ...now.values, block_q: rows, block_k: rows }));
    const { best, names } = named.at(-1), often = `${many} time${many > 1 ? "s" : ""}`, here = [px(total), Y(many)], least = best && of(best);
    add("reads", "text", { class: "fac-t-name", x: 1, y }, `K and V ${over_ ? "would be" : "are"} read ${often}${over_ && least > many ? `; ${names[0]} allows ${least}` : `${narrow ? "" : ", once for each tile of Q,"} at N = ${n}`}`);
    for (let at = 0; at <= most; at += tick) {
      add(`tick ${at}`, "path", { class: at ? "fac-axis" : "fac-outline", d: `M1 ${Y(at)}H${px(room)}` });
      add(`tick ${at} says`, "text", { class: "fac-t-soft", x: 1, y: Y(at) - 0.2 * fs }, `${at}${at + tick > most ? " times" : ""}`);
    }
    if (many > most) add("reads more", "text", { class: "fac-t-small", x: px(total) + 0.5 * fs, y: top + fs }, `↑ ${many}`);
    const d = stairs([n, room, width, top, base, now.values.d, now.values.b, get("stages"), get("buffers")].join(), (rows) => px(need(rows)), (rows) => need(rows) <= room, of, most, top, Y);
    if (d) add("reads line", "path", { class: "fac-sram-line", d: `${d}H${px(room)}` });
    let least_ = TILE;
    while (of(least_) > most) least_ += TILE;
    if (d && least_ > TILE) { // where the line leaves the picture: what comes next
      const x = px(need(least_));
      add("reads off", "path", { class: "fac-sram-off", d: `M${x - 0.3 * fs} ${top + 0.45 * fs}L${x} ${top - 1}L${x + 0.3 * fs} ${top + 0.45 * fs}z` });
      add("reads off says", "text", { class: "fac-t-small fac-sram-off-says", x: Math.max(x + 0.5 * fs, 1 + wide(`${most} times`, 0.95 * fs)), y: top - 0.45 * fs }, `↑ ${of(least_ - TILE)} times, ${least_ - TILE} rows`);
    }
    let free = 0; // where words may begin
    named.forEach(({ limit, best: rows, x }, i) => {
      const reads = rows ? of(rows) : 0, off = reads > most, until = named[i + 1]?.x ?? width;
      if (reads && !off) add(`floor ${limit}`, "circle", { class: "fac-sram-least", cx: x, cy: Y(reads), r: 3.5 });
      const says = reads ? [`${off ? "↑ " : ""}${reads} times, ${rows} rows`, `${off ? "↑ " : ""}${reads}`] : ["no tile fits", "none"], words_ = says.find((text) => !narrow && wide(text, 0.87 * fs) < until - x - 0.6 * fs) ?? says[1];
      free = x + 1.4 * fs + wide(words_, 0.87 * fs);
      add(`floor ${limit} says`, "text", { class: "fac-t-small fac-sram-allows", x: x + 0.3 * fs, y: reads && !off ? Y(reads) - 0.35 * fs : top + (many > most ? 1.2 : 1) * fs + 1.1 * fs * (i % 2) }, words_);
    });
    const key = ["fewest possible, with square tiles", "fewest (square tiles)", "fewest"].find((text) => wide(text, 0.87 * fs) < width - free) ?? "";
    add("reads key", "text", { class: "fac-t-small fac-t-name", x: free, y: Y(of(largestTile(now.terms, now.values, (room * free) / px(room)) || TILE)) - 0.7 * fs }, key);
    // The mark of these tiles; its words stand left of its stem, where there is room.
    const says = [over_ ? "you would be here" : "you are here", "here"], before = named.filter(({ x }) => x < here[0] - 4).at(-1)?.x ?? 2 * fs, left = says.find((text) => wide(text, 0.87 * fs) + 1.2 * fs < here[0] - before);
    add("here stem", "path", { class: "fac-sram-read", d: `M${here[0]} ${base}V${here[1].toFixed(2)}` });
    add("here", "circle", { class: `fac-sram-here${over_ ? " fac-sram-not" : ""}`, cx: here[0], cy: here[1], r: 0.42 * fs });
    add("here says", "text", { class: "fac-t-small fac-t-name", x: here[0] + (left ? -0.6 : 0.6) * fs, y: base - 0.4 * fs, "text-anchor": left ? "end" : "start" }, left ?? "here");
  }

  /** The line of the fewest reads: it is the same while a tile's edge is dragged. */
  let stairsOf = "", stairs_ = "";
  function stairs(key, x, fits, of, most, top, y) {
    if (key === stairsOf) return stairs_;
    let d = "", rows = TILE;
    while (of(rows) > most) rows += TILE;
    for (; fits(rows) && rows < 2 ** 12; rows += TILE) d += `${d ? `H${x(rows).toFixed(1)}V` : `M${x(rows).toFixed(1)} ${top}V`}${y(of(rows)).toFixed(1)}`;
    [stairsOf, stairs_] = [key, d];
    return d;
  }

  /** The same KiB for the registers, whose wall is what a thread may have. */
  function registerFile(add, over, { registers, spilled }, px, y, fs) {
    const all = sum(registers), spills = all > spilled;
    add("register wall", "rect", { class: "fac-sram-wall", x: px(spilled) - 1.5, y: y - 0.4 * fs, width: 3, height: 3.4 * fs });
    if (spills) over("register spill", "rect", { class: "fac-sram-spill", x: px(spilled), y, width: px(all) - px(spilled), height: 2.6 * fs });
    slide(add, over, registers, "registers", y, 2.6 * fs, px, fs, [px(spilled)]); // its names stand on the spill
    add("registers", "text", { class: `fac-t-small${spills ? " fac-sram-no" : ""}`, x: 1, y: y + 3.8 * fs }, `registers of ${get("warps")} ${get("warps") > 1 ? "warps" : "warp"}: ${bytesText(all, KIB)} of ${bytesText(spilled, KIB)}${spills ? ", the rest spills" : ""}`);
  }

  /** The place nearest the middle of a part where plates with these words lie on no fence. */
  function clear({ x, w }, rows, fences, fs) {
    const size = Math.max(...rows.map((text) => Math.max(1.2 * fs, wide(text, 0.87 * fs) + 0.5 * fs) + 2)), mid = x + w / 2, ends = [x, ...fences.flatMap((at) => [at - 6, at + 6].map((edge) => Math.max(x, Math.min(x + w, edge)))), x + w];
    return ends.flatMap((a, i) => (i % 2 || ends[i + 1] - a < size ? [] : [Math.max(a + size / 2, Math.min(ends[i + 1] - size / 2, mid))])).sort((a, b) => Math.abs(a - mid) - Math.abs(b - mid))[0];
  }

  /** Lay buffers side by side from the left wall, each with its name on no fence. Returns where each one is. */
  function slide(add, over, buffers, where, y, tall, px, fs, fences) {
    const spans = {}, names = [];
    let from = 0;
    for (const [name, bytes] of Object.entries(buffers)) {
      const x = px(from), w = px(from + bytes) - x, kind = lettered(name), staged = name.includes("stages") ? get("stages") : 1;
      spans[kind] = { from, x, w };
      add(`${where} ${kind}`, "rect", { class: `fac-sram-buffer fac-fill-${kind}`, x, y, width: w, height: tall }, `${name}: ${bytesText(bytes, KIB)}`);
      for (let i = 1; i < staged; i += 1) add(`${where} ${kind} ${i}`, "path", { class: "fac-sram-stage", d: `M${x + (i * w) / staged} ${y}v${tall}` });
      const letter = name.split(",")[0] + (staged > 1 ? ` ×${staged}` : "");
      if (kind !== "other") names.push({ kind, letter, x, w, sizes: [bytesText(bytes, KIB), short(bytes / KIB, 3)] });
      from += bytes;
    }
    const free = (part, rows) => clear(part, rows, fences, fs), all = (row) => names.every((one) => free(one, row(one)) != null), high = tall > 4 * fs;
    const long = ({ letter, sizes }) => [`${letter} ${sizes[0]}`], unit = ({ letter, sizes }) => [letter, sizes[0]], number = ({ letter, sizes }) => [letter, sizes[1]];
    const forms = all(long) || !high ? [long] : all(unit) ? [unit] : [number]; // all with their unit, or none
    for (const one of names) {
      const rows = [...forms.map((form) => form(one)), [one.letter], [one.letter[0]]].find((rows) => free(one, rows) != null), key = `${where} ${one.kind} name`, middle = y + tall / 2;
      if (!rows && one.w > 0.5 * fs) over(key, "text", { class: "fac-t-small fac-sram-letter", x: one.x + one.w / 2, y: middle + 0.3 * fs, "text-anchor": "middle" }, one.letter[0]); // too thin for a plate
      rows?.forEach((row, i) => chip(over, i ? `${key} size` : key, row, free(one, rows), rows.length > 1 ? middle - (1.55 - 1.15 * i) * fs : middle, fs)); // two stand above the stems of the handles
    }
    return spans;
  }

  /** The edges of Q and of K are the handles: what is dragged is the number of rows. */
  function handles(add, spans, now, px, top, tall, fs, width, narrow, over) {
    const row = px(now.values.d * now.values.b) - px(0), many = get("buffers") === "kernel" ? get("stages") : 1;
    const edges = [["block_q", spans.q, 1], ["block_k", spans.k, many]];
    const ends = [...edges.map(([, span]) => span.x + span.w), px(now.total)], base = top + tall, low = base + 2.4 * fs;
    edges.forEach(([trait, span, rows], i) => {
      const act = (x) => put(model, { [(pulled = trait)]: nearest(tiles, Math.max(1, x - span.x) / row / rows) }), moves = [span, i ? spans.v : spans.o].filter(Boolean);
      if (pulled === trait && picture.svg.facHeld) moves.forEach(({ x, w }, j) => add(`pair ${trait} ${j}`, "rect", { class: "fac-sram-pair", x: x + 1.5, y: top + 1.5, width: Math.max(0, w - 3), height: tall - 3 })); // what this hand makes longer
      add(`grab ${trait}`, "rect", { class: "fac-grab fac-across", x: ends[i] - 0.8 * fs, y: top + (i ? tall / 2 : 0), width: 1.6 * fs, height: tall / 2 }, "", act);
      add(`edge ${trait}`, "path", { class: "fac-sram-edge", d: `M${ends[i]} ${base - 2 * fs}v${2.2 * fs}` }); // over a wall that stands at the same place
      add(`knob ${trait}`, "circle", { class: `fac-knob fac-across fac-knob-${trait}`, cx: ends[i], cy: base + 0.6 * fs, r: 0.5 * fs, "data-handle": trait }, `drag: ${COUNTS[trait][0]}`, act);
    });
    // Each handle's name: that of K beside its knob, that of Q below its own.
    const says = edges.map(([trait], i) => handleSays(picture.svg, trait, Infinity, `${i ? "K and V" : spans.o ? "Q and O" : "Q"}, ${get(trait)} rows`)), sizes = says.map((text) => wide(text, 0.87 * fs)), right = ends[1] + 0.9 * fs + sizes[1] < width, until = right ? ends[1] + 0.9 * fs + sizes[1] : ends[1] + fs;
    add("stem block_q", "path", { class: "fac-sram-stem", d: `M${ends[0]} ${base + 1.1 * fs}V${low - 0.85 * fs}` });
    add("says block_q", "text", { class: "fac-t-hand", "data-names": "block_q", x: Math.min(width - sizes[0] / 2, Math.max(sizes[0] / 2, ends[0])), y: low, "text-anchor": "middle" }, says[0]);
    add("says block_k", "text", { class: "fac-t-hand", "data-names": "block_k", x: right ? ends[1] + 0.9 * fs : ends[0] - 0.9 * fs, y: base + 0.9 * fs, "text-anchor": right ? "start" : "end" }, says[1]);
    if (over) { // below what it counts, on no name
      const size = Math.max(0.87 * fs, Math.min(1.2 * fs, (ends[2] - over.from) / 12)), half = wide(over.text, size / 2), mid = Math.min(width - half, Math.max(half, (over.from + ends[2]) / 2)), above = mid - half > until + fs;
      const x = above ? mid : Math.min(width - half, Math.max(mid, ends[0] + sizes[0] / 2 + half + fs));
      add("too much", "text", { class: "fac-t-big fac-sram-too", style: `font-size:${size}px`, x, y: above ? base + 1.4 * fs : low, "text-anchor": "middle" }, over.text);
    }
    const marks = now.shared["m, l"], note = over ? `${Object.entries(now.shared).map(([name, bytes]) => `${name.split(",")[0] === "m" ? "m and ℓ" : name.split(",")[0]} ${short(bytes / KIB, 3)}`).join(" + ")} KiB` : marks ? `grey: ${bytesText(marks, KIB)}, each row’s maximum m and sum ℓ, 4 bytes each` : "", beside = !narrow && !over && ends[2] > until && ends[2] + wide(note, 0.85 * fs) + 2 * fs < width;
    const past = Math.max(ends[2] + 0.5 * fs, until + 0.6 * fs, ends[0] + sizes[0] / 2 + 0.6 * fs, sizes[0] + 0.6 * fs); // of the handles' names
    if (marks && !over && (beside || past < Math.min(width, wide(note, 0.85 * fs)))) add("note lead", "path", { class: "fac-sram-lead fac-sram-note-lead", d: beside ? `M${ends[2] - 1} ${base}v${1.3 * fs}h${0.6 * fs}` : `M${ends[2] - 1} ${base - 0.4 * fs}H${past}V${base + 3.1 * fs}` });
    add("note", "text", { class: "fac-t-soft", x: beside ? ends[2] + 0.8 * fs : 1, y: base + (beside ? 1.6 : 3.9) * fs }, note);
  }

  onChanges(model, [...Object.keys(COUNTS), "buffers", "dtype", "compiled"], draw);
  draw();
}

export default { render };
