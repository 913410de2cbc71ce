// Requests on pages: their tables, and the memory in pages beside the same memory in blocks.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/**
 * Where everything lies after the operations ["append", request, tokens], ["fork", parent, child] and
 * ["free", request]. The lowest free page is taken; tokens that find none are counted as refused.
 */
export function walk(operations, pages, size) {
  const held = Array(pages).fill(0), tables = {}, lengths = {};
  const frame = { page_size: size, tables, lengths, wrote: null, copied: null, refused: 0 };
  const take = () => {
    const page = held.indexOf(0);
    if (page >= 0) held[page] = 1;
    return page;
  };
  const append = (name) => {
    const table = (tables[name] ??= []), slot = (lengths[name] ??= 0) % size, last = table.at(-1);
    if (!slot || held[last] > 1) {
      const page = take();
      if (page < 0) return false;
      if (slot) {
        table.pop();
        held[last] -= 1;
        frame.copied = [last, page];
      }
      table.push(page);
    }
    frame.wrote = [name, table.at(-1), slot];
    lengths[name] += 1;
    return true;
  };
  for (const [what, name, other] of operations) {
    frame.wrote = frame.copied = null;
    if (what === "append") for (let left = other; left > 0; left -= 1) if (!append(name)) {
      frame.refused += left;
      break;
    }
    if (what === "fork" && tables[name] && !tables[other]) {
      [tables[other], lengths[other]] = [[...tables[name]], lengths[name]];
      for (const page of tables[name]) held[page] += 1;
    }
    if (what === "free") {
      for (const page of tables[name] ?? []) held[page] -= 1;
      delete tables[name];
      delete lengths[name];
    }
  }
  return frame;
}

/** Pages and slots in use, and what the same requests take with `reserve` slots for each. */
export function counts({ tables, lengths }, size, reserve) {
  const filled = {}, holders = {}, all = Object.values(lengths);
  for (const [name, table] of Object.entries(tables)) table.forEach((page, i) => {
    filled[page] = Math.max(filled[page] ?? 0, Math.min(size, Math.max(0, lengths[name] - i * size)));
    holders[page] = (holders[page] ?? 0) + 1;
  });
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const pages = Object.keys(filled).length, tokens = sum(all), reserved = sum(all.map((n) => Math.max(n, reserve)));
  return { filled, holders, pages, slots: pages * size, empty: pages * size - sum(Object.values(filled)), tokens, reserved, unused: reserved - tokens };
}

const NAMES = [..."ABCDEF"], SIZES = powersOfTwo(1, 64);
const box = (x, y, w, h) => `M${x.toFixed(1)} ${y.toFixed(1)}h${w.toFixed(1)}v${h}h${-w.toFixed(1)}z`;
/** A box with `many` cells. */
const row = (x, y, many, w, h) => box(x, y, many * w, h) + (w < 4 ? "" : Array.from({ length: many - 1 }, (_, i) => `M${(x + (i + 1) * w).toFixed(1)} ${y.toFixed(1)}v${h}`).join(""));
/** Stripes as before cost a look: most of a picture stays as it is while one thing moves. */
const striped = new Map();
const stripesOf = (...place) => {
  const key = place.join();
  if (!striped.has(key)) striped.size > 400 && striped.clear(), striped.set(key, hatching(...place));
  return striped.get(key);
};
const percent = (part, all) => `${short((100 * part) / Math.max(1, all), 2)} %`;
const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

function render({ model, el }) {
  const get = (name) => model.get(name), replayed = get("frames").length > 0;
  let last = { key: [] }; // a picture asks more than once
  let tallied = {};
  const tally = (now, size = get("page_size"), reserve = get("reserve")) => (tallied.now === now && tallied.size === size && tallied.reserve === reserve ? tallied : (tallied = { now, size, reserve, c: counts(now, size, reserve) })).c;
  const walked = (...key) => (key.every((x, i) => x === last.key[i]) ? last : (last = { key, frame: walk(...key) })).frame;
  const pages = () => Math.floor(get("slots") / get("page_size"));
  const frame = () => (replayed ? get("frames")[Math.min(get("step"), get("frames").length - 1)] : walked(get("operations"), pages(), get("page_size")));
  const size = field("slots per page", SIZES, () => get("page_size"), (value) => {
    if (!Number.isInteger(value) || value < 1 || value > 64) return "A whole number from 1 to 64, please.";
    put(model, { page_size: value });
  });
  const request = select("Request", [], (name) => put(model, { chosen: name }));
  const act = (text, what) => h("button", { type: "button", onclick: () => what(chosen(frame())) }, text);
  const buttons = [act("Append a token", (name) => change(["append", name, 1])), act("Fork", fork), act("End", (name) => change(["free", name])), act("New request", () => change(["append", fresh(), 1]))];
  const walker = replayed ? player(model, el, { last: () => get("frames").length - 1, move: (by) => get("step") + by, every: () => 700 }) : null;
  const layers = [s("g"), s("g")], [cards, memory] = layers.map(scene);
  const picture = stage(model, "pages-memory", drawPicture, ...layers);
  const title = h("p", { class: "fac-finding" }), words = h("p", { class: "fac-stage-words" }), said = h("p", { class: "fac-said" }), voice = announcer();
  words.hidden = !replayed;
  root(model, el, title, picture.node, words, said, walker ? walker.node : [h("div", { class: "fac-fields" }, part("pages-size", size.node)), more("all of it by keyboard", part("pages-acts", h("div", { class: "fac-row" }, request.row, buttons)))], voice.node);
  let held = null, dragged = false, refusal = "", told = null, lit = null;
  const light = (e) => { // what the pointer is at: a place of a table and its page show each other
    const page = e.type === "pointerleave" ? null : (e.target.dataset?.page ?? null);
    if (page === lit || held) return;
    lit = page;
    picture.draw();
  };
  for (const event of ["pointerover", "pointerleave"]) el.addEventListener(event, light);
  picture.svg.addEventListener("letgo", () => (held = null));

  const chosen = ({ tables }) => (get("chosen") in tables ? get("chosen") : (named({ tables })[0] ?? ""));
  const named = ({ tables }) => (replayed ? Object.keys(tables) : Object.keys(tables).sort());
  const fresh = () => NAMES.find((name) => !(name in frame().tables)) ?? "";

  /** Do one more operation, unless no page is left for it. */
  function change(operation, before = get("operations")) {
    const operations = [...before, operation], room = [pages(), get("page_size")], now = walk(operations, ...room);
    refusal = now.refused > walk(before, ...room).refused ? "No page is free: free a request, or choose smaller pages." : "";
    if (refusal) draw();
    else put(model, { operations, frame: now, chosen: operation[0] === "fork" ? operation[2] : operation[1] });
  }

  function fork(name) {
    const child = fresh();
    if (child) change(["fork", name, child]);
  }

  /** A token when it is pressed, and more of them as far as it is dragged. */
  const pull = (name, step) => (x) => {
    held ??= { x, name, before: get("operations"), more: 0 };
    const more = 1 + Math.max(0, Math.floor((x - held.x) / step));
    if (more !== held.more) change(["append", held.name, more], held.before);
    held.more = more;
  };

  function draw() {
    const now = frame(), names = named(now), name = chosen(now);
    if (!replayed && now !== told && JSON.stringify(now) !== JSON.stringify(get("frame"))) put(model, { frame: now });
    told = now;
    size.follow();
    if ([...request.node.options].map((x) => x.value).join() !== names.join()) request.node.replaceChildren(...names.map((x) => h("option", { value: x }, x)));
    request.node.value = name;
    for (const button of buttons) button.disabled = button === buttons[3] ? !fresh() : !name || (button === buttons[1] && !fresh());
    const c = tally(now);
    write(title, copyTold(now) || compared(now, c));
    write(words, told_(now, c)[0].join(" "));
    write(said, now.error || refusal || (now.refused ? `${plural(now.refused, "token")} found no free page.` : ""));
    if (walker) walker.follow(now.says);
    picture.draw();
    voice.say(`${tell(now)} ${said.textContent}`);
  }

  /** Who has a block where each request is given one, who has none, and how many blocks are left. */
  function inBlocks(now) {
    let used = 0, unused = 0;
    const without = named(now).filter((x) => {
      const room = Math.max(get("reserve"), now.lengths[x]), fits = used + room <= get("slots");
      if (fits) [used, unused] = [used + room, unused + room - now.lengths[x]];
      return !fits;
    });
    return { used, unused, without, free: Math.floor((get("slots") - used) / get("reserve")) };
  }

  /** The same memory, either way: what is left in it for the next. */
  function compared(now, c) {
    const { without, free } = inBlocks(now), left = pages() - c.pages, many = named(now).length;
    if (without.length) return `The same ${get("slots")} slots: pages hold all ${many} requests, blocks have no room for ${without.join(" and ")}`;
    if (!left && !free) return `The same ${get("slots")} slots: pages and blocks are both full`;
    return `The same ${get("slots")} slots: pages have ${left || "none"} free for a new request, blocks ${free ? `have room for ${free}` : "are full"}`;
  }

  const copyTold = (now) => {
    if (!now.copied) return "";
    const [old, page] = now.copied, others = named(now).filter((x) => now.tables[x].includes(old));
    return now.wrote && others.length ? `${now.wrote[0]} shared page ${old} with ${others.join(" and ")}. To write, it got a copy: page ${page}` : `Page ${old} was copied to page ${page}`;
  };

  /** What the last operation did, and what it all takes. */
  function told_(now, c) {
    const last = [], shared = c.tokens - c.slots + c.empty;
    if (now.says) last.push(`Step ${get("step")} of ${get("frames").length - 1}: ${now.says}.`);
    if (now.wrote) last.push(`The newest token of ${now.wrote[0]} went to slot ${now.wrote[2]} of page ${now.wrote[1]}.`);
    return [last, `${plural(c.tokens, "token")}${shared ? ` (${shared} shared)` : ""} of ${plural(Object.keys(now.tables).length, "request")} on ${plural(c.pages, "page")} of ${get("page_size")}: ${c.empty} of ${plural(c.slots, "slot")} empty.`];
  }
  const tell = (now) => {
    const [last, all] = told_(now, tally(now)), copy = copyTold(now);
    return [copy && `${copy}.`, ...last, all].filter(Boolean).join(" ");
  };

  function drawPicture(width, fs) {
    const now = frame(), c = tally(now), name = chosen(now), names = named(now), size = get("page_size");
    picture.svg.setAttribute("aria-label", `Tables: ${names.map((x) => `${x} has pages ${now.tables[x].join(", ")}`).join("; ")}. ${tell(now)} With ${get("reserve")} reserved for each: ${c.unused} of ${c.reserved} empty.`);
    // The tables and what is held for nothing, beside the same memory in pages and in blocks, at one scale, where there is room.
    const large = get("slots") > 512, beside = !large && width > 62 * fs, lines = large ? 8 : 4, across = Math.ceil(get("slots") / lines), gutter = 1.2 * fs;
    const column = beside ? Math.min(27 * fs, 0.33 * width) : width, room = beside ? width - column - gutter : width;
    const slotIn = (left) => (room - left - 6) / across, narrow = size * slotIn(gutter) <= (large ? 4 : 1.9) * fs; // no room in a page: numbers above, and at the left of a row
    const inset = narrow ? wide(`page ${pages()}`, 0.9 * fs) + 0.5 * fs : gutter + 5, slot = slotIn(inset), left = (beside ? column : 0) + inset;
    const lane = now.copied && !large ? 1.5 * fs : 0, tall = (large ? 1.2 : beside ? 2.6 : fs > 20 ? 1.5 : 1.8) * fs - lane / lines, gap = large ? 2 : fs, over = narrow ? 4 : 1.3 * fs; // a copy's arrow takes its room from the rows
    const low = large ? tall : (beside ? 1.5 : 1.1) * fs, r = get("reserve"), shared = Object.keys(c.holders).filter((page) => c.holders[page] > 1);
    let y = 0;
    cards((add) => {
      const frame_ = (key, top, high) => add(key, "rect", { class: "fac-pages-pool", x: left - 4, y: top, width: slot * across + 8, height: high, rx: 3 }, `${get("slots")} slots`);
      const ends = left + slot * across + 4, head = (key, at, text, note) => {
        add(key, "text", { class: "fac-t-name", x: left - 4, y: at }, text);
        if (wide(text, fs) + wide(note, 0.87 * fs) < slot * across) add(`${key} note`, "text", { class: "fac-t-soft", x: ends, y: at, "text-anchor": "end" }, note);
      };
      const table = drawTables(add, now, name, names, { width: column, indent: beside || narrow ? 1 : gutter, beside }, fs), top = beside ? 0 : table.y, first = top + (narrow ? 4.7 : 2 + over / fs) * fs;
      head("in pages", top + 1.2 * fs, `${get("slots")} slots, pages of ${size}`, "a slot: one token’s K and V");
      const pool = inMemory(now, c, name, names, { left, top: first, tall, gap, slot, across, large, lines, narrow, lane }, fs), down = pool.high(pool.rows - 1) + tall;
      frame_("pool of pages", first - over, down - first + over + 4);
      if (!narrow) drawWay(add, table, pool, { colour: colour(now, name), left, gap, beside, fs });
      const foot = down + 2.9 * fs, counted = shared.length ? [`${shared.length > 1 ? `${shared.length} pages are` : `page ${shared[0]} is`} shared, and counted once`] : [`${plural(pages() - c.pages, "page")} free`];
      add("held", "text", { class: "fac-t-small", x: left - 4, y: foot }, counted[0]);
      if (now.wrote) add("newest says", "text", { class: "fac-t-small", x: ends, y: foot, "text-anchor": "end" }, "▼ newest token");
      const at = foot + 1.9 * fs, begin = at + 0.6 * fs, high_ = lines * (low + 0.35 * fs) + 5, bottom = begin + high_ - 4, pitch = (high_ - 5) / lines;
      head("in blocks", at, `${get("slots")} slots, blocks of ${r}`, "each has room for the longest text");
      frame_("pool of blocks", begin, high_);
      const { used, unused, without, free } = drawBlocks(add, now, { left, high: (line) => bottom - (lines - 1 - line) * pitch - low, tall: low, slot, across }, bottom, fs);
      const under = bottom + (without.length ? 2.4 : 0.6) * fs;
      const result = beside ? Math.max(table.y + fs, at - 1.2 * fs) : under + 0.5 * fs;
      drawResult(add, [["pages", c.slots, c.empty, pages() - c.pages, "page"], ["blocks", used, unused, free, "block"]], { x: beside ? 1 : left - 4, y: result, width: beside ? column - gutter : ends - left + 4 }, fs);
      y = Math.max(beside ? under : 0, result + 7.2 * fs);
    });
    return y + 0.3 * fs;
  }

  /** What all of it is for, on one scale of all slots: what is held, what of it is empty, and what is free after it. */
  function drawResult(add, ways, { x, y, width }, fs) {
    const from = x + 3.8 * fs, words = 0.6 * fs + Math.max(4.8 * fs, ...ways.map(([, held, none]) => wide(`${none} of ${held}`, 0.83 * fs))), long = width - 3.8 * fs - words, px = (slots) => (slots / get("slots")) * long;
    empty(add, "result key", x, y + 0.25 * fs, 1.6 * fs, 1.1 * fs);
    add("result", "text", { class: "fac-t-name", x: x + 2.1 * fs, y: y + 1.2 * fs }, "held, but empty");
    add("result scale", "text", { class: "fac-t-soft", x: from + long, y: y + 1.2 * fs, "text-anchor": "end" }, `${get("slots")} slots`);
    ways.forEach(([way, held, none, free, frees]) => {
      const top = y + (way === ways[0][0] ? 1.9 : 4.8) * fs, tall = 2.1 * fs, room = long - px(held), behind = from + long + 0.6 * fs;
      add(`result ${way}`, "text", { x, y: top + 1.35 * fs }, way);
      add(`result ${way} all`, "rect", { class: "fac-pages-unheld", x: from, y: top, width: long, height: tall }, `${get("slots")} slots`);
      add(`result ${way} full`, "rect", { class: "fac-pages-full", x: from, y: top, width: px(held - none), height: tall }, `${held - none} slots in use`);
      empty(add, `result ${way} none`, from + px(held - none), top, px(none), tall, `${none} of ${held} are empty`);
      add(`result ${way} held`, "rect", { class: "fac-pages-held", x: from, y: top, width: px(held), height: tall }, `${held} slots held`);
      const says = free > 0 && [`${plural(free, frees)} free`, `${free} free`].find((text) => wide(text, 0.83 * fs) < room);
      if (says) add(`result ${way} free`, "text", { class: "fac-t-small", x: from + px(held) + room / 2, y: top + 1.35 * fs, "text-anchor": "middle" }, says);
      add(`result ${way} share`, "text", { class: "fac-t-big fac-pages-result", x: behind, y: top + 1.15 * fs }, percent(none, held));
      add(`result ${way} says`, "text", { class: "fac-t-small", x: behind, y: top + 2.15 * fs }, `${none} of ${held}`);
    });
  }

  /** The memory in pages, in a layer below the tables' words. */
  function inMemory(...how) {
    let pool = null;
    memory((add) => (pool = drawPages(add, ...how)));
    return pool;
  }

  /**
   * From each page of the chosen table to the same page of the memory, beside the pool and between its rows, so that no line lies on
   * another page. Side by side they are alike: all are faint but one, that of the page that is pointed at, or else the newest.
   */
  function drawWay(add, { from = [] }, { own, at }, { colour: of, left, gap, beside, fs }) {
    const many = from.length, step = Math.min(4, (0.6 * fs) / Math.max(1, many - 1)), bus = left - 4 - 0.6 * fs;
    const far = own.map((_, i) => i).sort((a, b) => own[b][0] - own[a][0]); // the farthest goes above the others of its row
    const d = from.map(([place, x, y]) => {
      const [middle, top] = own[place], lane = top - 0.85 * gap + far.indexOf(place) * Math.min(3, (0.4 * gap) / Math.max(1, many - 1)), k = far.indexOf(place), side = bus - (beside ? many - 1 - k : k) * step * 0.75;
      return `M${x} ${y}V${y + 3 + (beside ? k : many - 1 - k) * step}H${side}V${lane}H${middle}V${top - 1}`;
    });
    if (!many) return;
    const one = Math.max(from.findIndex(([place]) => place === at), at < 0 ? many - 1 : -1);
    add("way", "path", { class: `fac-pages-way ${of}`, d: d.join("") });
    if (one < 0) return; // its place is among those that a long table leaves out
    const [place, x, y] = from[one];
    add("way told", "path", { class: `fac-pages-way-told ${of}`, "data-place": place, d: d[one] });
    [[x, y], own[place]].forEach(([cx, cy], i) => add(`way end ${i}`, "circle", { class: "fac-pages-way-end", cx, cy: cy - i * 0.3 * fs, r: 0.27 * fs }));
  }

  const colour = (now, name) => `fac-pages-${(NAMES.includes(name) ? NAMES.indexOf(name) : Object.keys(now.tables).indexOf(name)) % 6}`;
  const empty = (add, key, x, y, w, h_, says = "held, but empty") => {
    add(`${key} ground`, "rect", { class: "fac-waste", x, y, width: w, height: h_ }, says);
    add(`${key} stripes`, "path", { class: "fac-waste-stripes", d: stripesOf(x, y, w, h_, w < 8 ? 5 : 10) });
  };

  /** A row for each request: its name, its pages as they lie in memory, and what can be done with it. */
  function drawTables(add, now, name, names, { width, indent, beside }, fs) {
    const says = (x, wrong = now.wrong?.[x]?.length) => `${x} ${wrong ? `${wrong} wrong` : plural(now.lengths[x], "token")}`, longest = Math.max(0, ...names.map((x) => says(x).length));
    const row = 2.3 * fs, left = indent + (2.6 + 0.63 * Math.max(10, longest)) * fs, cell = 3 * fs, plate = cell - 0.3 * fs, size = get("page_size"), { filled } = tally(now);
    const most = Math.min(8, Math.floor((width - left) / cell));
    let y = 1, from = [];
    const button = (key, text, title, does, at, cls = "") => {
      const w = wide(text, 0.87 * fs) + 0.8 * fs;
      add(key, "rect", { class: `fac-pages-chip ${cls}`, x: at, width: w, rx: 4, y, height: 1.6 * fs }, title, does);
      add(`${key} says`, "text", { class: `fac-t-small fac-t-chip ${cls && `${cls}-says`}`, x: at + w / 2, y: y + 1.12 * fs, "text-anchor": "middle" }, text);
      return at + w + 0.5 * fs;
    };
    const acts = () => { // below the table, whose rows stay together
      const grow = (at) => button("0", `+ 1 token for ${name}`, `press: a token more for ${name}; drag: more of them`, pull(name, 0.5 * fs), at, "fac-pages-plus");
      const more = (at) => fresh() && button("new", "+ request", "a new request", once(() => change(["append", fresh(), 1])), at);
      const others = (at) => button("2", `end ${name}: free pages`, `end ${name}`, once(() => change(["free", name])), button("1", `fork ${name}: share pages`, `fork ${name}`, once(() => fork(name)), at));
      y += 0.3 * fs;
      more(name ? grow(indent) : indent);
      y += row;
      if (!name) return;
      others(indent);
      y += row;
    };
    add("head tables", "text", { class: "fac-t-name", x: indent, y: 1.2 * fs }, ["Each request’s table: its pages, in order", "Each table: its pages, in order"].find((text, i) => i || wide(text, 1.1 * fs) < width - indent));
    y = 2 * fs;
    for (const x of names) {
      const table = now.tables[x], text = y + 1.15 * fs, wrong = now.wrong?.[x] ?? [], choose = () => put(model, { chosen: x });
      add(`row ${x}`, "rect", { class: x === name ? "fac-pages-chosen" : "fac-grab", x: indent, y, width: left - indent - 0.4 * fs, height: 1.6 * fs }, `choose ${x}`, choose);
      add(`colour ${x}`, "rect", { class: colour(now, x), x: indent + 0.35 * fs, y: y + 0.25 * fs, width: 1.1 * fs, height: 1.1 * fs });
      add(`name ${x}`, "text", { class: wrong.length ? "fac-t-bad" : x === name ? "fac-t-name fac-t-chip" : "", x: indent + 1.85 * fs, y: text }, says(x));
      const fresh_ = now.wrote?.[0] === x && now.copied ? table.indexOf(now.copied[1]) : -1, room = most - (fresh_ >= 0 ? 1 : 0);
      const shown = (table.length > room ? [...table.slice(0, room - 2).keys(), -1, table.length - 1] : [...table.keys()]).flatMap((place) => (place === fresh_ && place >= 0 ? [-2, place] : [place]));
      shown.forEach((place, k) => {
        const at = left + k * cell, page = table[place], bad = wrong.some((token) => Math.floor(token / size) === place);
        if (place === -2) { // what the table said before
          add(`was ${x}`, "rect", { class: "fac-pages-was", x: at, width: plate, y, height: 1.6 * fs }, `page ${now.copied[0]} until now`);
          add(`was says ${x}`, "text", { class: "fac-t-small fac-pages-was-says", x: at + plate / 2, y: text, "text-anchor": "middle" }, String(now.copied[0]));
          return void add(`was struck ${x}`, "path", { class: "fac-pages-struck", d: `M${at + 0.35 * fs} ${y + 1.15 * fs}L${at + plate - 0.35 * fs} ${y + 0.45 * fs}` });
        }
        if (place < 0) return void add(`gap ${x}`, "text", { x: at + plate / 2, y: text, "text-anchor": "middle" }, "…");
        const moved = place === fresh_, who = names.filter((other) => now.tables[other].includes(page)), full = (plate * filled[page]) / size;
        if (full < plate) empty(add, `mini ${x} ${place}`, at + full, y, plate - full, 1.6 * fs);
        who.forEach((other, j) => add(`mini ${x} ${place} ${j}`, "rect", { class: `fac-pages-mini ${colour(now, other)}`, x: at, y: y + (j * 1.6 * fs) / who.length, width: full, height: (1.6 * fs) / who.length }));
        add(`cell ${x} ${place}`, "rect", { class: `fac-pages-cell${bad ? " fac-pages-wrong" : moved ? " fac-pages-changed" : x === name ? " fac-pages-own" : ""}${lit === String(page) ? " fac-pages-lit" : ""}`, "data-page": page, x: at, width: plate, y, height: 1.6 * fs }, `page ${page}`, choose);
        chip(add, `page ${x} ${place}`, String(page), at + plate / 2, y + 0.8 * fs, fs, x === name ? "fac-pages-own-chip" : "");
      });
      if (x === name) from = shown.flatMap((place, k) => (place < 0 ? [] : [[place, left + k * cell + plate / 2, y + 1.6 * fs]]));
      y += row;
    }
    if (!replayed) acts();
    return { y: y + 0.3 * fs, from };
  }

  /** The same requests with a block reserved for each, as far as the memory goes; who has no room stands before the door. */
  function drawBlocks(add, now, { left, high, tall, slot, across }, bottom, fs) {
    const all = inBlocks(now), { without, free } = all, reserve = get("reserve");
    let at = 0;
    const runs = (from, many, does) => {
      for (let i = 0, end = from + many; from < end; i += 1) {
        const line = Math.floor(from / across), some = Math.min(end, (line + 1) * across) - from;
        does(left + (from - line * across) * slot, high(line), some * slot, i);
        from += some;
      }
    };
    for (const x of named(now).filter((x) => !without.includes(x))) {
      const n = now.lengths[x], room = Math.max(reserve, n), from = at;
      at += room;
      runs(from, n, (x_, y, w, i) => add(`block ${x} ${i}`, "rect", { class: `fac-pages-share ${colour(now, x)}`, x: x_, y, width: w, height: tall }, `${x}: ${plural(n, "slot")}`));
      runs(from + n, room - n, (x_, y, w, i) => empty(add, `rest ${x} ${i}`, x_, y, w, tall, `${plural(room - n, "slot")} held, but empty`));
      runs(from, room, (x_, y, w, i) => add(`edge ${x} ${i}`, "rect", { class: "fac-outline", x: x_, y, width: w, height: tall }));
      runs(from, 1, (x_, y) => chip(add, `letter ${x}`, x, x_ + (n * slot > 1.6 * fs ? Math.max(0.9 * fs, Math.min(n, across) * slot * 0.5) : n * slot + 0.9 * fs), y + tall / 2, fs, x === chosen(now) ? "fac-pages-own-chip" : ""));
      const none = `${room - n} empty`, last = Math.min(room - n, (from + room - 1) % across + 1);
      if (last * slot > wide(none, 0.87 * fs) + 2.4 * fs) runs(from + room - last, 1, (x_, y) => chip(add, `none ${x}`, none, x_ + 0.5 * last * slot, y + tall / 2, fs));
    }
    for (let i = 0; i < free; i += 1) runs(at + i * reserve, reserve, (x, y, w, j) => add(`free ${i} ${j}`, "rect", { class: "fac-outline", x, y, width: w, height: tall }, "a free block"));
    if (without.length) {
      add("refused", "rect", { class: "fac-pages-refused", x: left, y: bottom + 0.5 * fs, width: Math.min(reserve, across) * slot, height: 1.4 * fs }, `no room for ${without.join(", ")}`);
      add("refused says", "text", { class: "fac-t-small fac-pages-refused-says", x: left + 0.5 * fs, y: bottom + 1.5 * fs }, `✗ full: ${without.join(" and ")} must wait for ${reserve} slots`);
    }
    return all;
  }

  /** Once a press, though the pointer moves. */
  const once = (does) => () => {
    if (held) return;
    held = {};
    does();
  };

  /** The memory: used pages in the colours of who holds them, empty slots hatched. */
  function drawPages(add, now, c, name, names, { left, top, tall, gap, slot, across, large, lines, narrow, lane: lane_ }, fs) {
    const size = get("page_size"), each = Math.max(1, Math.floor(across / size)), broad = Math.min(size, across) * slot;
    const last = Math.max(-1, ...Object.keys(c.filled).map(Number)), used = Math.floor(last / each) + 1, whole = Math.ceil(pages() / each);
    const high = (row) => top + row * (tall + gap) + (row < used ? 0 : lane_);
    const place = (page) => [left + (page % each) * broad, high(Math.floor(page / each))];
    add("ground", "path", { class: "fac-pages-ground", d: Object.keys(c.filled).map((page) => box(...place(page), broad, tall)).join("") });
    const holding = {};
    for (const x of names) for (const page of now.tables[x]) (holding[page] ??= []).push(x);
    const rows = Math.max(whole, lines), shown = pages(), inUse = new Set(Object.keys(holding).map((page) => Math.floor(page / each)));
    const every = nearest(SIZES, (8 * fs) / broad); // pages from one number to the next, where not all have room
    let edges = "", seams = "", free = "", ticks = "", stripes = "", wastes = "", mine = "";
    for (let page = 0; page < shown; page += each) {
      const cells = row(...place(page), Math.min(each, shown - page), broad, tall);
      if (inUse.has(page / each)) edges += cells;
      else free += cells;
    }
    // Pages too narrow for a number: full ones of one request that lie side by side are one piece.
    const alike = (page, next) => narrow && next % each && c.filled[page] === size && c.filled[next] === size && holding[page].length === holding[next].length && holding[page].every((x, i) => x === holding[next][i]);
    for (let page = 0, many = 1; page < shown; page += many, many = 1) {
      const who = holding[page];
      if (!who && !narrow && !large) add(`number ${page}`, "text", { class: "fac-t-soft", x: place(page)[0] + broad / 2, y: place(page)[1] + tall / 2 + 0.3 * fs, "text-anchor": "middle" }, String(page));
      if (!who) continue;
      while (alike(page, page + many)) many += 1;
      const [x, y] = place(page), full = (many - 1) * broad + Math.max(3, c.filled[page] * (broad / size)), band = tall / who.length;
      const says = `page${many > 1 ? `s ${page} to ${page + many - 1}` : ` ${page}`}: ${many > 1 ? "all" : `${c.filled[page]} of ${size}`} slots, ${who.join(", ")}`;
      who.forEach((holder, i) => add(`${page} ${i}`, "rect", { class: `fac-pages-slots ${colour(now, holder)}`, "data-page": page, x, y: y + i * band, width: full, height: band }, says));
      const rest = many * broad - full;
      if (rest > 1) [stripes, wastes] = [stripes + stripesOf(x + full, y, rest, tall, rest < 8 ? 5 : 10), wastes + box(x + full, y, rest, tall)];
    }
    if (slot >= 5 && size > 1) for (const page of Object.keys(holding).map(Number)) if ((page + 1) % each && page + 1 in holding) seams += `M${(place(page)[0] + broad).toFixed(1)} ${place(page)[1]}v${tall}`; // two pages are two, though one request has both: where slots have ticks
    if (narrow) {
      // whose the pages are, above the first row
      const firsts = {};
      for (let page = 0; page < Math.min(each, shown); page += 1) for (const who of holding[page] ?? []) firsts[who] ??= place(page)[0] + broad / 2;
      const whose = Object.keys(firsts), places = spread(whose.map((x) => firsts[x]), whose.map(() => 1.5 * fs), left, left + each * broad);
      whose.forEach((x, i) => {
        add(`lead ${x}`, "path", { class: "fac-pages-lead", d: `M${places[i]} ${top - 0.85 * fs}L${firsts[x]} ${top - 1}` });
        add(`letter ${x}`, "text", { class: x === name ? "fac-t-name" : "fac-t-small", x: places[i], y: top - 1.05 * fs, "text-anchor": "middle" }, x);
      });
      for (let page = 0; page < Math.min(each, shown); page += every) add(`above ${page / every}`, "text", { class: "fac-t-soft", x: place(page)[0] + broad / 2, y: top - 2.25 * fs, "text-anchor": "middle" }, String(page));
      add("axis", "text", { class: "fac-t-soft", x: left - 0.4 * fs, y: top - 2.25 * fs, "text-anchor": "end" }, "page");
      for (let page = each; page < shown; page += each) add(`row ${page / each}`, "text", { class: "fac-t-soft", x: left - 0.4 * fs, y: place(page)[1] + tall / 2 + 0.3 * fs, "text-anchor": "end" }, `page ${page}`);
    }
    if (slot >= 5) for (const page of Object.keys(c.filled)) for (let i = 1; i < size; i += 1) ticks += `M${(place(page)[0] + i * slot).toFixed(1)} ${place(page)[1]}v${tall}`;
    const own = [...(now.tables[name] ?? [])].sort((a, b) => a - b);
    while (own.length) {
      const first = own.shift();
      let many = 1; // pages too narrow for a number share an outline
      while (narrow && own[0] === first + many && own[0] % each) many += own.splice(0, 1).length;
      mine += box(...place(first), many * broad, tall);
    }
    add("free", "path", { class: "fac-pages-edges fac-pages-free", d: free });
    add("wastes", "path", { class: "fac-waste", d: wastes });
    add("stripes", "path", { class: "fac-waste-stripes", d: stripes });
    add("slots", "path", { class: "fac-pages-ticks", d: ticks });
    add("seams", "path", { class: "fac-pages-seams", "stroke-width": Math.min(5, 0.15 * broad), d: seams });
    add("edges", "path", { class: "fac-pages-edges", d: edges });
    add("mine", "path", { class: "fac-pages-mine", d: mine });
    const bottom = high(rows - 1) + tall, cell = broad / size;
    drawSize(add, bottom + 4, left, broad, slot, across, fs);
    if (lit in holding) add("lit", "path", { class: "fac-pages-lit", d: box(...place(lit), broad, tall) });
    if (!narrow) for (const [page, who] of Object.entries(holding)) { // the number by which a table names it
      const [x, y] = place(page);
      chip(add, `number ${page}`, page, x + broad / 2, y + tall / 2, fs, who.includes(name) ? "fac-pages-own-chip" : "");
    }
    if (now.copied) {
      // between the rows, from slot 0 of one page to slot 0 of the other, over no page
      const [[x1, y1], [x2, y2]] = now.copied.map(place).map(([x, y]) => [x + cell / 2, y]), down = y2 > y1, edge = down ? y2 : y2 + tall;
      const last_ = !down && Math.floor(now.copied[1] / each) === used - 1, from = y2 < y1 ? y1 : y1 + tall, lane = edge + (last_ && lane_ ? 1.3 * fs : Math.min(gap / 2, 0.5 * fs)) - (down ? gap : 0), tip = edge + (down ? -1 : 1), head = Math.min(0.8 * fs, Math.abs(lane - tip));
      add(`copy ${now.copied}`, "path", { class: "fac-pages-copy", pathLength: 1, d: `M${x1} ${from}V${lane}H${x2}V${tip + (down ? -head : head)}` });
      add("tip", "path", { class: "fac-pages-copy-tip", d: `M0 0L${-head} ${-0.7 * head}V${0.7 * head}z`, transform: `translate(${x2} ${tip}) rotate(${down ? 90 : -90})` });
      const op = get("operations").at(-1), many = replayed ? now.wrote?.[2] : op?.[0] === "append" && (now.lengths[op[1]] - op[2]) % size;
      if (many > 0) now.copied.forEach((page, i) => add(`copies ${i}`, "rect", { class: "fac-pages-copies", x: place(page)[0] - 1.5, y: place(page)[1] - 2, width: many * cell + 3, height: tall + 4 }, `${plural(many, "slot")} copied`));
      if (many > 0 && last_ && lane_) {
        const right = Math.max(x1, x2) + fs, has = (text) => right + wide(text, fs) < left + slot * across, brief = `${plural(many, "slot")} copied`, long = now.wrote ? `${brief}; ${now.wrote[0]}’s table: ${now.copied[0]} → ${now.copied[1]}` : brief, says = has(long) ? long : brief, fits = has(says);
        add("copied says", "text", { class: "fac-t-small fac-pages-copied-says", x: fits ? right : Math.min(x1, x2) - fs, y: lane + 0.3 * fs, "text-anchor": fits ? "start" : "end" }, says);
      }
    }
    if (now.wrote) {
      const [, page, at] = now.wrote, [x, y] = place(page);
      const half = Math.max(4.5, Math.min(6, cell / 2 - 1)), mid = x + (at + 0.5) * cell, [from, to] = narrow || large ? [y - 2, y + Math.min(9, 0.35 * tall)] : [y - 0.55 * gap, y - 1]; // above its page: an arrow of a copy may end in the slot
      add("wrote", "path", { class: "fac-pages-tip", d: `M${(mid - half).toFixed(1)} ${from.toFixed(1)}h${2 * half}L${mid.toFixed(1)} ${to.toFixed(1)}z` }, `the newest token: slot ${at}`);
    }
    const table = now.tables[name] ?? [], told = [lit, now.wrote?.[0] === name ? now.wrote[1] : null].filter((page) => page !== null).map((page) => table.indexOf(Number(page))).find((i) => i >= 0) ?? -1;
    const beside = (page) => (now.wrote?.[1] === page && Math.abs((now.wrote[2] + 0.5) * cell - broad / 2) < fs ? 0.3 : 0.5); // not where the newest token is pointed at
    return { high, rows, at: told, own: table.map((page) => [place(page)[0] + beside(page) * broad, place(page)[1]]) };
  }

  /** A measure below the first page of the last row: how many slots it has. */
  function drawSize(add, top, from, broad, slot, across, fs) {
    const size = get("page_size"), says = `${replayed || dragged ? "" : "drag: "}a page of ${plural(size, "slot")}`, y = top + 0.8 * fs, end = from + broad;
    const left = broad + 10 * fs > slot * across; // no room for the words behind it
    add("measure", "path", { class: "fac-pages-measure", d: `M${from} ${top}V${y + 0.35 * fs}M${from} ${y}H${end}V${top}` });
    add("size", "text", { class: "fac-t-hand", x: end + (left ? -0.8 : 0.8) * fs, y: y + 0.3 * fs, "text-anchor": left ? "end" : "start" }, says);
    if (!replayed) add("knob", "circle", { class: "fac-knob fac-across", cx: end, cy: y, r: 0.42 * fs }, "drag: slots per page", (x) => (dragged = true) && put(model, { page_size: nearest(SIZES, Math.max(1, x - from) / slot) }));
  }

  onChanges(model, ["operations", "frames", "page_size", "slots", "reserve", "step", "chosen"], draw);
  draw();
}

export default { render };
