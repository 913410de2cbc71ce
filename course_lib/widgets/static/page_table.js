// Requests on pages: tables above, memory below, the same memory reserved below that.
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
const percent = (part, all) => `${short((100 * part) / Math.max(1, all), 2)} %`;
const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

function render({ model, el }) {
  const get = (name) => model.get(name), replayed = get("frames").length > 0;
  let last = { key: [] }; // a picture asks more than once
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
  const title = h("p", { class: "fac-pages-title" }), words = h("p", { class: "fac-stage-words" }), said = h("p", { class: "fac-said" }), voice = announcer();
  words.classList.toggle("fac-pages-words", replayed);
  const marks = key(["fac-key-waste", "held, but empty"], ["fac-key-free", "free pages"], ["fac-key-mark", "newest token"]);
  root(model, el, title, picture.node, marks, words, said, walker ? walker.node : [h("div", { class: "fac-fields" }, h("div", { class: "fac-row" }, buttons[3]), part("pages-size", size.node)), more("append, fork and end by keyboard", part("pages-acts", h("div", { class: "fac-row" }, request.row, buttons.slice(0, 3))))], voice.node);
  let held = null, dragged = false, refusal = "", told = null;
  picture.svg.addEventListener("letgo", () => (held = null));

  const chosen = ({ tables }) => (get("chosen") in tables ? get("chosen") : (Object.keys(tables)[0] ?? ""));
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
    const now = frame(), names = Object.keys(now.tables), name = chosen(now);
    if (!replayed && now !== told && JSON.stringify(now) !== JSON.stringify(get("frame"))) put(model, { frame: now });
    told = now;
    size.follow();
    if ([...request.node.options].map((x) => x.value).join() !== names.join()) request.node.replaceChildren(...names.map((x) => h("option", { value: x }, x)));
    request.node.value = name;
    for (const button of buttons) button.disabled = button === buttons[3] ? !fresh() : !name || (button === buttons[1] && !fresh());
    const c = counts(now, get("page_size"), get("reserve"));
    write(title, copyTold(now) || `In pages ${percent(c.empty, c.slots)} of the held memory is empty; in one block each, ${percent(c.unused, c.reserved)}`);
    write(words, told_(now, c)[0].join(" "));
    write(said, now.error || refusal || (now.refused ? `${plural(now.refused, "token")} found no free page.` : ""));
    if (walker) walker.follow(now.says);
    picture.draw();
    voice.say(`${tell(now)} ${said.textContent}`);
  }

  const copyTold = (now) => (now.copied ? `Page ${now.copied[0]} was shared: ${now.wrote?.[0] ?? "a request"} writes to a copy, page ${now.copied[1]}` : "");

  /** What the last operation did, and what it all takes. */
  function told_(now, c) {
    const last = [], shared = c.tokens - c.slots + c.empty;
    if (now.says) last.push(`Step ${get("step")} of ${get("frames").length - 1}: ${now.says}.`);
    if (now.wrote) last.push(`The newest token of ${now.wrote[0]} went to slot ${now.wrote[2]} of page ${now.wrote[1]}.`);
    return [last, `${plural(c.tokens, "token")}${shared ? ` (${shared} shared)` : ""} of ${plural(Object.keys(now.tables).length, "request")} on ${plural(c.pages, "page")} of ${get("page_size")}: ${c.empty} of ${plural(c.slots, "slot")} empty.`];
  }
  const tell = (now) => {
    const [last, all] = told_(now, counts(now, get("page_size"), get("reserve"))), copy = copyTold(now);
    return [copy && `${copy}.`, ...last, all].filter(Boolean).join(" ");
  };

  function drawPicture(width, fs) {
    const now = frame(), c = counts(now, get("page_size"), get("reserve")), name = chosen(now);
    picture.svg.setAttribute("aria-label", `Tables: ${Object.entries(now.tables).map(([x, table]) => `${x} has pages ${table.join(", ")}`).join("; ")}. ${tell(now)} With ${get("reserve")} reserved for each: ${c.unused} of ${c.reserved} empty.`);
    const roomy = replayed || width > 50 * fs;
    marks.children[2].hidden = !now.wrote;
    const lines = get("slots") > 512 ? 8 : 4, across = Math.ceil(get("slots") / lines), slot = width / across;
    const numbered = get("page_size") * slot <= 4 * fs; // no room in a page: numbers above, and at the left of a row
    const tall = (lines > 4 ? 1.2 : fs > 20 ? 1.5 : 1.8) * fs, gap = lines > 4 ? 2 : (numbered ? 1.15 : 2.3) * fs;
    let y = 0;
    cards((add) => {
      y = drawWaste(add, now, c, name, width, fs);
      drawTables(add, now, name, width, y, fs, roomy);
      y += (2.4 + 2 * Object.keys(now.tables).length + (roomy ? 0 : 2)) * fs;
      add("head memory", "text", { class: "fac-t-name", x: 1, y: y + 1.2 * fs }, "3 the memory, page by page");
    });
    const left = numbered ? wide(`page ${pages()}`, 0.8 * fs) + 0.5 * fs : 1;
    memory((add) => {
      y = drawPages(add, now, c, name, { left, top: y + (numbered ? 4.8 : 3.2) * fs, tall, gap, slot: (width - left - 1) / across, across }, fs);
    });
    return y + 1.6 * fs;
  }

  const colour = (now, name) => `fac-pages-${(NAMES.includes(name) ? NAMES.indexOf(name) : Object.keys(now.tables).indexOf(name)) % 6}`;

  /** A row for each request: its name, its table, and what can be done with it. */
  function drawTables(add, now, name, width, top, fs, roomy) {
    const row = 2 * fs, left = 10.4 * fs, chips_ = ["+ 1 token", "fork: share its pages", "end: free its pages"], each = chips_.map((text) => wide(text, 0.87 * fs) + 0.6 * fs), cell = 2.3 * fs, plate = cell - 0.5 * fs;
    const most = Math.min(8, Math.floor((width - left) / cell)), names = Object.keys(now.tables), { holders } = counts(now, get("page_size"), get("reserve"));
    add("head tables", "text", { class: "fac-t-name", x: 1, y: top + 1.4 * fs }, `2 page tables: whose pages, in order${replayed || names.length < 2 ? "" : " (press a request)"}`);
    Object.entries(now.tables).forEach(([x, table], i) => {
      const y = top + 2.2 * fs + i * row + (roomy || i <= names.indexOf(name) ? 0 : row), bar = { y, height: 1.6 * fs }, text = y + 1.15 * fs, wrong = now.wrong?.[x] ?? [];
      const choose = () => put(model, { chosen: x });
      add(`row ${x}`, "rect", { class: x === name ? "fac-pages-chosen" : "fac-grab", x: 1, width: left - 0.6 * fs, ...bar }, `choose ${x}`, choose);
      add(`colour ${x}`, "rect", { class: `fac-edge ${colour(now, x)}`, x: 0.4 * fs, y: y + 0.25 * fs, width: 1.1 * fs, height: 1.1 * fs });
      add(`name ${x}`, "text", { class: wrong.length ? "fac-t-bad" : "fac-t-name", x: 1.9 * fs, y: text }, `${x} ${wrong.length ? `${wrong.length} wrong` : plural(now.lengths[x], "token")}`);
      const shown = table.length > most ? [...table.slice(0, most - 2).keys(), -1, table.length - 1] : [...table.keys()];
      shown.forEach((place, k) => {
        const at = left + k * cell, bad = wrong.some((token) => Math.floor(token / get("page_size")) === place);
        if (place >= 0) add(`cell ${x} ${place}`, "rect", { class: `fac-pages-cell${bad ? " fac-pages-wrong" : x === name ? " fac-pages-own" : ""}`, x: at, width: plate, ...bar }, "", choose);
        if (holders[table[place]] > 1) names.filter((who) => now.tables[who].includes(table[place])).forEach((who, j) => // in the colours of all who share it
          add(`share ${x} ${place} ${j}`, "rect", { class: `fac-pages-shared ${colour(now, who)}`, x: at + 2 + (j * (plate - 4)) / holders[table[place]], y: y + 1.2 * fs, width: (plate - 4) / holders[table[place]], height: 0.3 * fs }, "shared"));
        add(`page ${x} ${place}`, "text", { class: "fac-t-small fac-t-chip", x: at + plate / 2, y: text, "text-anchor": "middle" }, place < 0 ? "…" : String(table[place]));
      });
      if (replayed || x !== name) return; // what can be done stands at the chosen one
      let at = roomy ? left + shown.length * cell + 0.6 * fs : 1;
      const low = roomy ? 0 : row, chips = [[`press: a token more for ${x}; drag: more of them`, pull(x, 0.5 * fs)], [`fork ${x}`, once(() => fork(x))], [`end ${x}`, once(() => change(["free", x]))]];
      chips.forEach(([title, does], j) => {
        add(`${j} ${x}`, "rect", { class: `fac-pages-chip${j ? "" : " fac-pages-plus"}`, x: at, width: each[j], rx: 4, y: y + low, height: bar.height }, title, does);
        add(`says ${j} ${x}`, "text", { class: "fac-t-small fac-t-chip", x: at + each[j] / 2, y: text + low, "text-anchor": "middle" }, chips_[j]);
        at += each[j] + 0.5 * fs;
      });
    });
  }

  /** What is held by either way, to one scale: whose tokens they are, and what is held but empty. */
  function drawWaste(add, now, c, name, width, fs) {
    const reserve = get("reserve"), px = (width - 2) / Math.max(c.slots, c.reserved, 1), tall = 1.5 * fs;
    const sizes = (many, each, none) => `${many} × ${each} = ${many * each} slots held, ${none} empty (${percent(none, many * each)})`, fits = (text) => wide(text, 0.87 * fs) < width;
    const whats = [`one block of ${reserve} each, room for the longest text`, `one block of ${reserve} each`], blocks = c.reserved % reserve ? `${plural(c.reserved, "slot")} held, ${c.unused} empty (${percent(c.unused, c.reserved)})` : sizes(c.reserved / reserve, reserve, c.unused), all = `${whats[0]}: ${blocks}`;
    const says = [[`in pages: ${sizes(c.pages, get("page_size"), c.empty)}`], fits(all) ? [all] : [`${whats.find(fits) ?? whats[1]}:`, blocks]], tops = [3.1, says[1].length > 1 ? 7.4 : 6.3].map((n) => n * fs);
    add("head held", "text", { class: "fac-t-name", x: 1, y: 1.2 * fs }, "1 held memory (a slot: one token’s K and V)");
    says.forEach((lines, i) => lines.forEach((text, j) => add(`waste ${i} says ${j}`, "text", { class: "fac-t-small", x: 1, y: tops[i] - (0.4 + 1.1 * (lines.length - 1 - j)) * fs }, text)));
    const block = (key, who, slots, from, y) => who.forEach((x, i) => add(`${key} ${i}`, "rect", { class: `fac-pages-share ${colour(now, x)}`, x: from, y: y + (i * tall) / who.length, width: slots * px, height: tall / who.length }, `${who.join(", ")}: ${plural(slots, "slot")}`));
    const empty = (key, slots, from, y) => {
      add(`${key} ground`, "rect", { class: "fac-waste", x: from, y, width: slots * px, height: tall }, `${plural(slots, "slot")} held, but empty`);
      add(`${key} stripes`, "path", { class: "fac-waste-stripes", d: hatching(from, y, slots * px, tall, slots * px < 8 ? 5 : 10) });
    };
    const outline = (key, slots, from, y) => add(key, "rect", { class: "fac-outline", x: from, y, width: slots * px, height: tall });
    const own = new Map(); // whose the filled slots are, shared ones once
    for (const [page, full] of Object.entries(c.filled)) {
      const who = Object.keys(now.tables).filter((x) => now.tables[x].includes(Number(page)));
      own.set(who.join(" "), (own.get(who.join(" ")) ?? 0) + full);
    }
    let from = 1;
    for (const who of [...own.keys()].sort()) {
      block(`held ${who}`, who.split(" "), own.get(who), from, tops[0]);
      from += own.get(who) * px;
    }
    empty("held", c.empty, from, tops[0]);
    outline("waste 0", c.slots, 1, tops[0]);
    let at = 1, slots = 0;
    const without = [];
    for (const [x, n] of Object.entries(now.lengths)) {
      const room = Math.max(reserve, n), tag = at + n * px + 0.75 * fs;
      slots += room;
      if (slots > get("slots")) without.push(x);
      block(`block ${x}`, [x], n, at, tops[1]);
      empty(`block ${x}`, room - n, at + n * px, tops[1]);
      outline(`block ${x} edge`, room, at, tops[1]);
      add(`block ${x} name`, "text", { class: x === name ? "fac-t-name" : "fac-t-small", x: Math.min(tag, at + room * px - 0.7 * fs), y: tops[1] + 0.75 * fs + 0.32 * fs, "text-anchor": "middle" }, x);
      at += room * px;
    }
    if (without.length) add("without", "text", { class: "fac-t-bad", x: width - 1, y: tops[1] - 0.4 * fs, "text-anchor": "end" }, `${without.join(", ")}: no room`);
    return tops[1] + tall + 0.5 * fs;
  }

  /** Once a press, though the pointer moves. */
  const once = (does) => () => {
    if (held) return;
    held = {};
    does();
  };

  /** The memory: used pages in the colours of who holds them, empty slots hatched. */
  function drawPages(add, now, c, name, { left, top, tall, gap, slot, across }, fs) {
    const size = get("page_size"), each = Math.max(1, Math.floor(across / size)), wide = Math.min(size, across) * slot;
    const last = Math.max(-1, ...Object.keys(c.filled).map(Number)), used = Math.floor(last / each) + 1, whole = Math.ceil(pages() / each);
    const high = (row) => top + row * (tall + gap) - (row < used ? 0 : (row - used + Math.min(1, used)) * (gap - 2)); // rows without a page in use have no names
    const place = (page) => [left + (page % each) * wide, high(Math.floor(page / each))];
    add("ground", "path", { class: "fac-pages-ground", d: Object.keys(c.filled).map((page) => box(...place(page), wide, tall)).join("") });
    const holding = {}, copyAt = (i) => now.copied && place(now.copied[i])[1];
    for (const [x, table] of Object.entries(now.tables)) for (const page of table) (holding[page] ??= []).push(x);
    // Of a large pool: the rows in use, and one more.
    const rows = Math.min(whole, Math.max(2, used + 1)), shown = Math.min(pages(), rows * each);
    const bottom = high(rows - 1) + tall;
    const every = nearest(SIZES, (8 * fs) / wide); // pages from one number to the next, where not all have room
    let edges = "", free = "", ticks = "", stripes = "", wastes = "", mine = "";
    for (let page = 0; page < shown; page += each) {
      const cells = row(...place(page), Math.min(each, shown - page), wide, tall);
      if (Array.from({ length: each }, (_, i) => holding[page + i]).some(Boolean)) edges += cells;
      else free += cells;
    }
    // Pages too narrow for a number: full ones of one request that lie side by side are one piece.
    const alike = (page, next) => wide < 4 * fs && next % each && c.filled[page] === size && c.filled[next] === size && String(holding[page]) === String(holding[next]);
    for (let page = 0, many = 1; page < shown; page += many, many = 1) {
      const who = holding[page];
      if (!who) continue;
      while (alike(page, page + many)) many += 1;
      const [x, y] = place(page), full = (many - 1) * wide + Math.max(3, c.filled[page] * (wide / size)), band = tall / who.length;
      const says = `page${many > 1 ? `s ${page} to ${page + many - 1}` : ` ${page}`}: ${many > 1 ? "all" : `${c.filled[page]} of ${size}`} slots, ${who.join(", ")}`;
      who.forEach((holder, i) => add(`${page} ${i}`, "rect", { class: `fac-pages-slots ${colour(now, holder)}`, x, y: y + i * band, width: full, height: band }, says));
      const rest = many * wide - full;
      if (rest > 1) [stripes, wastes] = [stripes + hatching(x + full, y, rest, tall, rest < 8 ? 5 : 10), wastes + box(x + full, y, rest, tall)];
      if (wide > 4 * fs) {
        const text = wide > 10 * fs ? `page ${page}: ${who.join(", ").replace(/, (?=\w$)/, " and ")}${who.length > 1 ? " share it" : ""}` : `${page}: ${who.join(" + ")}`, passed = now.copied && copyAt(0) !== copyAt(1); // the arrow of a copy goes through one of them
        add(`number ${page}`, "text", { class: "fac-t-small", x: x + (passed ? slot / 2 + 0.8 * fs : 1), y: y - 0.35 * fs }, text);
      }
    }
    if (wide <= 4 * fs) {
      // whose the pages are, above the first row; a later row that one fills has its letter at the right
      const firsts = {};
      for (let page = 0; page < Math.min(each, shown); page += 1) for (const who of holding[page] ?? []) firsts[who] ??= place(page)[0] + wide / 2;
      const names = Object.keys(firsts), places = spread(names.map((x) => firsts[x]), names.map(() => 1.5 * fs), left, left + each * wide);
      names.forEach((x, i) => {
        add(`lead ${x}`, "path", { class: "fac-pages-lead", d: `M${places[i]} ${top - 0.85 * fs}L${firsts[x]} ${top - 1}` });
        add(`letter ${x}`, "text", { class: x === name ? "fac-t-name" : "fac-t-small", x: places[i], y: top - 1.05 * fs, "text-anchor": "middle" }, x);
      });
      for (let page = 0; page < Math.min(each, shown); page += every) add(`above ${page / every}`, "text", { class: "fac-t-soft", x: place(page)[0] + wide / 2, y: top - 2.25 * fs, "text-anchor": "middle" }, String(page));
      add("axis", "text", { class: "fac-t-soft", x: left - 0.4 * fs, y: top - 2.25 * fs, "text-anchor": "end" }, "page");
      for (let page = each; page < shown; page += each) add(`row ${page / each}`, "text", { class: "fac-t-soft", x: left - 0.4 * fs, y: place(page)[1] + tall / 2 + 0.3 * fs, "text-anchor": "end" }, `page ${page}`);
    }
    if (slot >= 8) for (const [page, full] of Object.entries(c.filled)) for (let i = 1; i < full; i += 1) ticks += `M${(place(page)[0] + i * slot).toFixed(1)} ${place(page)[1]}v${tall}`;
    const own = [...(now.tables[name] ?? [])].sort((a, b) => a - b);
    while (own.length) {
      const first = own.shift();
      let many = 1; // pages too narrow for a number share an outline
      while (wide < 4 * fs && own[0] === first + many && own[0] % each) many += own.splice(0, 1).length;
      mine += box(...place(first), many * wide, tall);
    }
    add("slots", "path", { class: "fac-pages-ticks", d: ticks });
    add("free", "path", { class: "fac-pages-edges fac-pages-free", d: free });
    add("edges", "path", { class: "fac-pages-edges", d: edges });
    add("mine", "path", { class: "fac-pages-mine", d: mine });
    add("wastes", "path", { class: "fac-waste", d: wastes });
    add("stripes", "path", { class: "fac-waste-stripes", d: stripes });
    drawSize(add, bottom, left, wide, slot, across, fs);
    if (used < rows) chip(add, "unused", `${rows < whole ? "… " : ""}${plural(pages() - c.pages, "free page")} in all${rows < whole ? " …" : ""}`, left + (each * wide) / 2, (high(used) + bottom) / 2, fs); // rows without any page in use
    if (now.wrote) {
      const [, page, at] = now.wrote, [x, y] = place(page);
      add("wrote", "rect", { class: wide / size > 5 ? "fac-pages-wrote" : "fac-pages-tip", x: x + at * (wide / size), y, width: Math.max(3, wide / size), height: tall });
    }
    if (now.copied) {
      // between the rows, from slot 0 of one page to slot 0 of the other, over no page
      const [[x1, y1], [x2, y2]] = now.copied.map(place).map(([x, y]) => [x + wide / size / 2, y]), down = y2 > y1, edge = down ? y2 : y2 + tall;
      const from = y2 < y1 ? y1 : y1 + tall, lane = edge + Math.min(gap / 2, 0.62 * fs) - (down ? gap : 0), tip = edge + (down ? 5 : -5);
      add(`copy ${now.copied}`, "path", { class: "fac-pages-copy", pathLength: 1, d: `M${x1} ${from}V${lane}H${x2}V${tip}` });
      add("tip", "path", { class: "fac-pages-tip", d: "M0 0L-9 -5V5z", transform: `translate(${x2} ${tip}) rotate(${down ? 90 : -90})` });
      const op = get("operations").at(-1), many = replayed ? now.wrote?.[2] : op?.[0] === "append" && (now.lengths[op[1]] - op[2]) % size, one = many > 0 ? `${plural(many, "slot")} copied` : "copied";
      if (many > 0) add("copies", "rect", { class: "fac-pages-copies", x: place(now.copied[1])[0], y: y2, width: (many * wide) / size, height: tall }, one);
      if (gap > 0.7 * fs) chip(add, "copied", slot * across > 55 * fs && now.wrote ? `${one}, then ${now.wrote[0]} wrote` : one, (x1 + x2) / 2, lane, fs);
    }
    return bottom;
  }

  /** A measure below the first page of the last row: how many slots it has. */
  function drawSize(add, top, from, wide, slot, across, fs) {
    const size = get("page_size"), says = `a page: ${plural(size, "slot")}${replayed || dragged ? "" : " (drag)"}`, y = top + 0.8 * fs, end = from + wide;
    const left = end + 10 * fs > slot * across; // no room for the words behind it
    add("measure", "path", { class: "fac-pages-measure", d: `M${from} ${top}V${y + 0.35 * fs}M${from} ${y}H${end}V${top}` });
    add("size", "text", { class: "fac-t-small", x: end + (left ? -0.8 : 0.8) * fs, y: y + 0.3 * fs, "text-anchor": left ? "end" : "start" }, says);
    if (!replayed) add("knob", "circle", { class: "fac-knob fac-across", cx: end, cy: y, r: 0.42 * fs }, "drag: slots per page", (x) => (dragged = true) && put(model, { page_size: nearest(SIZES, Math.max(1, x - from) / slot) }));
  }

  onChanges(model, ["operations", "frames", "page_size", "slots", "reserve", "step", "chosen"], draw);
  draw();
}

export default { render };
