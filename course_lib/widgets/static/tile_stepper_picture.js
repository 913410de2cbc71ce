// The picture of the stepper, which is its handle too: scores in tiles, what is on the desk, ℓ, O and O / ℓ.

const finiteOr0 = (x) => (Number.isFinite(x) ? x : 0);
const middle = { "text-anchor": "middle" };
const ADDED = { l: "sum of p", o: "sum of p · V" };

/** "a → b" in as many digits that the a printed times the α printed (four digits) is the b printed. */
function shrunk(total, alpha) {
  const cut = (x, digits) => Number(x.toPrecision(digits)), holds = ([a, b]) => cut(cut(total, a) * cut(alpha, 4), b) === cut(total * alpha, b);
  const [a, b] = [[4, 3], [5, 3], [4, 2]].find(holds) ?? [4, 1];
  return `${short(total, a)} → ${short(total * alpha, b)}`;
}

/** "s − m" and what it is, in as many decimals that exp of the number printed is the weight printed (three digits). */
function under(score, m) {
  const same = (x) => Number(Math.exp(x).toPrecision(3)) === Number(Math.exp(score - m).toPrecision(3));
  const [s_, m_, d] = [2, 3, 4, 5, 6].map((n) => [score, m].map((x) => Number(x.toFixed(n))).concat(n)).map(([a, b, n]) => [a, b, Number((a - b).toFixed(n))]).find(([, , d]) => same(d)) ?? [score, m, score - m];
  const minus = (x) => String(x).replace("-", "−");
  return { from: `${minus(s_)} − ${m_ < 0 ? `(${minus(m_)})` : m_}`, is: minus(d) };
}

/** A weight in two decimals, to stand under its bar. */
const weight = (value) => (value ? value.toFixed(2).replace(/^0(?=\.)|\.00$/, "") : "0");

/** `now()` is all that is shown of the row, `says()` the sentence about it. */
function stepperPicture(model, data, now, says) {
  const values = data.values, nTiles = data.tiles.length, last = LINES.length * nTiles + 1;
  const letter = (tile) => (nTiles <= 26 ? String.fromCharCode(65 + tile) : "");
  const HUES = ["#5d8392", "#c2ad8d", "#7d5a4a", "#9db3a5", "#7b5d6e", "#d9a08b"]; // of their own: the palette's are those of Q, K, V, S and O
  const paint = (tile) => nTiles <= HUES.length ? `fill:${HUES[tile]}` : `fill:color-mix(in srgb, var(--fac-step-deep) ${nTiles > 1 ? Math.round(100 - (92 * tile) / (nTiles - 1)) : 100}%, var(--fac-step-pale))`;
  const given = Object.values(data.scores).flat().map(num).filter(Number.isFinite), least = Math.min(0, ...given), most = Math.max(0, ...given); // a bar starts at 0
  const spreadOf = most - least || 2, high = most + 0.4 * spreadOf, low = least < 0 ? least - (values.length > 12 ? 0.1 : 0.55) * spreadOf : 0; // few bars have a handle and a number below
  const notch = 10 ** Math.floor(Math.log10(spreadOf / 8)); // scores are dragged from one of its multiples to the next
  const round = (score) => Number((Math.round(Math.max(low, Math.min(high, score)) / notch) * notch).toPrecision(12));

  const layers = [part("stepper-tiles", s("g")), s("g"), part("stepper-notes", s("g"))], [piles, desk, notes] = layers.map(scene);
  const picture = stage(model, "stepper-picture", drawPicture, ...layers);
  picture.svg.setAttribute("role", "group"); // it holds sliders: the scores
  let held = null;
  const heldKey = () => held ?? tallest(); // the key whose score Tab comes to
  function tallest() { // of the pile on the desk
    const { scores, sequence } = now(), { place } = position(Math.min(model.get("step"), last), nTiles), [first, stop] = data.tiles[sequence[Math.max(0, Math.min(place, nTiles - 1))]];
    const best = Math.max(...scores.slice(first, stop));
    return best > -Infinity ? scores.indexOf(best, first) : scores.findIndex((x) => x !== -Infinity);
  }
  let follow = false; // a node that is moved loses the focus

  function drawPicture(width, fs) {
    const all = now(), { place, line } = position(Math.min(model.get("step"), last), nTiles), two = width < 45 * fs;
    const share = values.length > 12 ? 0.53 : 0.43; // of the width: many bars get it
    const at = { all, place, line, fs, two, tall: (two ? 7.3 : model.get("presenter") ? 12.6 : 16.6) * fs, end: place >= nTiles, ...pileWidths(all, two ? width : share * width, fs) };
    const gaps = [two ? 1.9 : 2.4, two ? 1.6 : 2, two ? 2 : 2.6, two ? 1 : 2].map((n) => n * fs), room = two ? width - 1 : (0.97 - share) * width, foot = Math.max(two ? 0 : at.low + 2.05 * fs, 3.9 * fs), head = (two ? 2.3 : 2.6) * fs;
    picture.svg.classList.toggle("fac-held", Boolean(picture.svg.facHeld));
    const parts = two ? [1.75, 0.4, 0.85, 0.88, 1.95] : [1.4, 0.42, 0.92, 0.92, 2.05], unit = (room - sum(gaps)) / sum(parts), y = two ? head + at.tall + at.low + 4.4 * fs : head;
    let x = width - room - 1; // its frame stays whole
    const places = parts.map((size, i) => {
      const box = { x, w: size * unit, y };
      x += size * unit + gaps[i];
      return box;
    });
    if (two) [places[0].x, places[0].w] = [places[0].x + 2.3 * fs, places[0].w - 2.3 * fs]; // its axis is at its left
    at.tied = tied(at);
    const here = all.right.p[Math.max(0, place)] ?? [];
    at.heap = 0.24 * places[0].w; // beside the weights they stand as what ℓ gets: one on the other
    at.named = Math.max(...here.map((value) => wide(weight(value), 0.87 * fs))) < 0.7 * places[0].w / here.length - 2; // a number under each bar
    const goes = places[0].x + 0.7 * places[0].w * (!two && at.tied >= 0 ? (at.tied + 0.5) / here.length : 0.5);
    drawPiles({ ...at, x: 0, w: two ? width : share * width, y: head, link: (cx, low) => (two ? `M${cx} ${low}V${y - 3.3 * fs}H${0.5 * fs}V${y + 0.5 * at.tall}h${fs}m-6 -5l6 5l-6 5` : `M${cx} ${low}v${0.5 * fs}H${goes}V${y + at.tall + (at.named ? 1.6 : 0.4) * fs}m-5 6l5 -6l5 6`) }); // to the weights, never through a word
    const scale = scaleOf(all, "l", at.tall); // of the weights too: what lands on ℓ is as tall as it was
    at.flies = places[0].x + places[0].w - at.heap - places[2].x;
    desk((add) => drawDesk(add, { ...at, ...places[0], scale: { unit: scale.unit, deep: 0 } }));
    notes((add) => {
      const [, m, l, o, mean] = places, from = m.x - 0.6 * fs, to = o.x + o.w + Math.max(0.5 * fs, (wide(ADDED.o, 0.87 * fs) - o.w) / 2 + 0.3 * fs);
      add("kept", "rect", { class: "fac-step-band fac-step-kept", x: from, y: y - 2.5 * fs, width: to - from, height: at.tall + 6.7 * fs, rx: 6 });
      add("kept says", "text", { class: "fac-t-small fac-t-name", x: (from + to) / 2, y: y + at.tall + 3.8 * fs, ...middle }, fits(["kept from tile to tile", "kept"], o.x + o.w - from, 0.87 * fs));
      drawKept(add, { ...at, ...m });
      drawSum(add, "l", "ℓ", { ...at, ...l, scale });
      drawSum(add, "o", "O", { ...at, ...o, scale: scaleOf(all, "o", at.tall) });
      drawMean(add, { ...at, ...mean });
    });
    picture.svg.setAttribute("aria-label", `Scores in tiles, and the notes m, ℓ and O. ${says()}`);
    if (follow) picture.svg.querySelector(`[data-key="${held}"]`).focus();
    follow = false;
    return y + at.tall + foot + 0.7 * fs;
  }

  /** The pixels of a key and between tiles; whether V has room for its numbers below the scores (else bars); how far the tiles' names are below. */
  function pileWidths({ sequence }, w, fs) {
    const label = 5.1 * fs, keys = sum(sequence.map((i) => data.tiles[i][1] - data.tiles[i][0])), apart = keys > 12 ? 0.8 : 0.75, unit = (w - label) / (keys + apart * nTiles);
    const told = data.columns === 1 && values.every(([v]) => wide(`V = ${short(v, 3)}`, 0.87 * fs) < unit + 2);
    return { label, apart, unit, told, low: (told ? 2.25 : 4.2) * fs };
  }

  /** Pixels for one of ℓ or of O, with room for what lies below 0; a slip has room as far as 1.6 times the right one. */
  function scaleOf({ right, slip }, what, tall) {
    const ends = (run) => run.parts[what].map((parts) => [sum(parts.filter((x) => x > 0)), sum(parts.filter((x) => x < 0))]);
    const mine = ends(right), up = Math.max(1e-9, ...mine.map(([a]) => a)), down = -Math.min(0, ...mine.map(([, b]) => b));
    const wrong = slip ? ends(slip).flat().filter(Number.isFinite) : [], most = 1.6 * (up + down);
    const [high, deep] = [Math.max(up, Math.min(most, ...[Math.max(0, ...wrong)])), Math.max(down, Math.min(most, -Math.min(0, ...wrong)))];
    return { unit: tall / (1.12 * (high + deep)), deep };
  }

  /** The key of the tile here that is followed from its score to its weight: the highest one under m; -1 where there is none. */
  function tied({ all: { scores, sequence, right }, place, line }) {
    if (line !== DONE.p || !data.tiles[sequence[place]]) return -1;
    const [first, stop] = data.tiles[sequence[place]], under = scores.slice(first, stop).map((s) => (s < right.m[place] ? s : -Infinity)), best = Math.max(...under);
    return best > -Infinity ? under.indexOf(best) : -1;
  }

  /** The highest and the lowest value of a column: between them every average lies. */
  const bounds = (column) => [Math.max(...values.map((v) => v[column])), Math.min(...values.map((v) => v[column]))];

  /** At most three round numbers well inside a range. */
  const levels = (a, b) => {
    const unit = 10 ** Math.floor(Math.log10((b - a) / 2 || 1)), every = [1, 2, 5, 10].map((x) => x * unit).find((x) => (b - a) / x <= 4);
    return Array.from({ length: 5 }, (_, i) => (Math.ceil(a / every) + i) * every).filter((v) => v > a + (b - a) / 6 && v < b - (b - a) / 6);
  };

  /** The first of some words that has room, else the last. */
  const fits = (words, room, size = 15) => words.find((text) => wide(text, size) < room) ?? words.at(-1);
  const heading = (add, key, text, { x, y, fs }) => add(`${key} name`, "text", { class: "fac-t-name", x, y: y - 1.3 * fs }, text);

  /** The scores tile by tile in the order visited, and the line of the maximum so far. */
  function drawPiles({ all, place, line, fs, x, w, y, tall, end, link, tied, label, apart, unit, told, low: low_V }) {
    const { scores, sequence, right, slip } = all, lengths = sequence.map((i) => data.tiles[i][1] - data.tiles[i][0]);
    const base = y + tall, rise = tall / (high - low), ground = -low * rise;
    const [topV, lowV] = bounds(all.column).map((v, i) => (i ? Math.min(0, v) : Math.max(0, v)));
    const riseV = (2.2 * fs) / (topV - lowV || 1), zeroV = base + 0.8 * fs + topV * riseV;
    const thin = unit < 30 ? 0.06 : 0.12, slots = [], knobs = [], labels = [], unders = [], numbers = scores.every((x) => x === -Infinity || wide(short(x, 3), 0.87 * fs) < unit + 2);
    const m = stateAt(right, Math.min(model.get("step"), last), nTiles, -Infinity).m;
    let left = x + label + 0.2 * unit + 1.5;
    piles((add) => {
      const title = `scores of query ${model.get("row")}`;
      heading(add, "scores", title, { x, y, fs });
      if (!data.fixed) add("drag", "text", { class: "fac-t-small fac-t-hand", x: x + wide(title, 1.12 * fs) + fs, y: y - 1.3 * fs }, "↕ drag any bar");
      if (!told) add("v says", "text", { class: "fac-t-small", x: x + label - 0.5 * fs, y: zeroV + 0.3 * fs, "text-anchor": "end" }, data.columns > 1 ? `V, col. ${all.column}` : "V");
      if (!told) add("v zero", "path", { class: "fac-axis", d: `M${x + label} ${zeroV}h${w - label}` });
      if (ground) add("zero", "path", { class: "fac-axis", d: `M${x + label} ${base - ground}h${w - label}` });
      sequence.forEach((tile, i) => {
        const [first, stop] = data.tiles[tile], highest = scores.indexOf(Math.max(...scores.slice(first, stop)), first), long = lengths[i] * unit, here = i === place, gone = i < place, next = place < 0 && !i, near = here || next || end;
        slots.push([left, left + long]);
        add(`plate ${tile}`, "rect", { class: `fac-step-plate ${here ? "fac-now" : gone ? "fac-folded" : next ? "fac-next" : ""}`, x: left - 0.2 * unit, y: y - 0.4 * fs, width: long + 0.4 * unit, height: tall + 0.9 * fs + low_V, rx: 6 });
        for (let k = 0; k < lengths[i]; k += 1) {
          const key = first + k, score = scores[key], bx = left + (k + thin) * unit, bw = (1 - 2 * thin) * unit, cx = bx + bw / 2;
          const small = (name, text, cls, at) => wide(text, 0.87 * fs) < unit + 2 && add(`${name} ${tile} ${k}`, "text", { class: cls, x: cx, y: at, ...middle }, text);
          if (score === -Infinity) add(`key ${tile} ${k}`, "rect", { class: "fac-step-masked", x: bx, y, width: bw, height: tall }, `key ${key}: masked`);
          else {
            const top = Math.max(0, Math.min(tall, (score - low) * rise));
            add(`key ${tile} ${k}`, "rect", { class: `fac-step-score fac-step-bar ${here && line >= 2 ? "fac-known" : gone ? "fac-gone" : near ? "" : "fac-later"} ${here && k === tied && !numbers ? "fac-step-tied" : ""}`, style: paint(tile), x: bx, y: base - Math.max(top, ground), width: bw, height: Math.max(1.5, Math.abs(top - ground)) });
            const up = top >= ground ? 1 : -1, knob = !data.fixed && bw > 24, alone = !data.fixed && !knob && key === heldKey(); // where bars are thin, one of them has a handle, as wide as a finger
            if (knob || alone) knobs.push({ key: `knob ${tile} ${k}`, cx, cy: base - top - (alone ? 0 : up * 8) });
            if (alone) labels.unshift(() => add("grab knob", "circle", { class: "fac-grab fac-down", cx, cy: base - top, r: 13 }, `score of key ${key}`, (_, py) => setScore(key, low + (base - py) / rise)));
            if (!numbers && near && key === highest && !(here && tied >= 0)) labels.push((crossed) => { // above its handle; beside it, where m's line is
              const text = short(score, 3), long = wide(text, 0.87 * fs), y = base - top - 0.75 * fs - (alone ? 4 : 0), right = cx + 0.7 * fs + long < slots[i][1];
              if (!crossed(y)) add(`s ${tile}`, "text", { class: "fac-t-small", x: Math.max(slots[i][0] + long / 2, Math.min(slots[i][1] - long / 2, cx)), y, ...middle }, text);
              else add(`s ${tile}`, "text", { class: "fac-t-small", x: cx + (right ? 0.7 : -0.7) * fs, y: base - top + 0.35 * fs, "text-anchor": right ? "start" : "end" }, text);
            });
            if (numbers && (near || gone)) labels.push((crossed) => { // above its handle; beside it, where a line of m is
              const at = base - top + (up > 0 ? -0.35 * fs : fs) - (knob ? up * 15 : 0), text = short(score, 3), cls = near ? "fac-t-small" : "fac-t-soft", beside = base - top + 0.3 * fs - up * 8;
              if (crossed(at) && knob && !crossed(beside) && wide(text, 0.87 * fs) < bw / 2 - 9) add(`s ${tile} ${k}`, "text", { class: cls, x: cx + 11, y: beside }, text);
              else small("s", text, cls, at);
            });
            if (here && line === DONE.p && all.right.m[place] > -Infinity) unders.push({ score, end: base - top, at: numbers ? bx + 0.8 * bw : cx, plate: slots[i], tied: k === tied });
          }
          if (told) small("v", `V = ${short(values[key][0], 3)}`, "fac-t-soft", base + fs);
          else add(`v ${tile} ${k}`, "rect", { class: `fac-fill-v fac-step-v ${gone ? "fac-gone" : near ? "" : "fac-later"}`, x: bx, y: zeroV - Math.max(0, values[key][all.column]) * riseV, width: bw, height: Math.max(1, Math.abs(values[key][all.column]) * riseV) });
          if (!data.fixed && score !== -Infinity) handle(add, { tile, k, key, score, x: left + k * unit, y, w: unit, tall, base, rise });
        }
        const name = letter(tile), sign = gone ? " ✓" : "", line_ = base + low_V;
        const text = [`tile ${name}${sign}`, `${name}${sign}`].find((words) => wide(words, 0.87 * fs) + 1.6 * fs < long + 0.3 * unit) ?? "", from = left + (long - wide(text, 0.87 * fs) + 1.2 * fs) / 2;
        add(`colour ${tile}`, "circle", { class: "fac-edge", style: paint(tile), cx: text ? from - 0.7 * fs : left + long / 2, cy: line_ - 0.32 * fs, r: 0.36 * fs });
        add(`name ${tile}`, "text", { class: here ? "fac-t-small fac-t-name" : "fac-t-small", x: from, y: line_ }, text);
        if (!data.fixed && nTiles > 1) {
          add(`move ${tile}`, "rect", { class: "fac-grab fac-across", "data-tile": tile, x: left, y: base + 0.2 * fs, width: long, height: low_V + 0.3 * fs }, `tile ${name}: drag it to another place`, (px) => {
            const to = slots.findIndex(([a, b]) => px >= a && px <= b);
            if (to >= 0) moveTile(tile, to);
          });
        }
        if (here && line >= DONE.p) add("link", "path", { class: "fac-step-link", d: link(tied < 0 || numbers ? left + long / 2 : left + (tied + 0.5) * unit, base + 0.5 * fs + low_V) });
        left += long + apart * unit;
      });
      const level = (v) => base - Math.max(0, Math.min(tall, (v - low) * rise)), edge = x + label - 0.4 * fs;
      if (m > -Infinity) add("m", "rect", { class: "fac-step-m", x: edge, y: level(m) - 1, width: w - label + 0.4 * fs, height: 2 });
      if (m > -Infinity) add("m says", "text", { class: "fac-t-small fac-t-name", x: edge - 0.2 * fs, y: level(m) + 0.3 * fs, "text-anchor": "end" }, fits([`m = ${short(m, 3)}`, `m ${short(m, 3)}`], label - 0.4 * fs, 0.87 * fs));
      const old = place > 0 && line >= 2 && line <= DONE.alpha ? right.m[place - 1] : m, [now_, before] = [level(m), level(old)];
      if (old < m && old > -Infinity) { // what α is made of
        add("m old", "path", { class: "fac-step-m-old", d: `M${edge} ${before}H${x + w}` });
        if (before - now_ > 1.3 * fs) add("m rises", "path", { class: "fac-step-under", d: `M${edge + 0.3 * fs} ${before}V${now_ + 2}m-4 6l4 -6l4 6` });
        if (before - now_ > 2.1 * fs) add("m rises says", "text", { class: "fac-t-small fac-t-name", x: edge - 0.2 * fs, y: (before + now_) / 2 + 0.3 * fs, "text-anchor": "end" }, `+ ${short(m - old, 3)}`);
        if (before - now_ > 1.3 * fs) add("m old says", "text", { class: "fac-t-soft", x: edge - 0.2 * fs, y: before + 0.3 * fs, "text-anchor": "end" }, fits([`m was ${short(old, 3)}`, `was ${short(old, 3)}`], label - 0.4 * fs, 0.87 * fs));
      }
      // what the weights are made of: how far each score lies under m
      const below = unders.filter(({ score }) => score < m);
      below.forEach(({ at, end, tied }, i) => end > level(m) && add(`under ${i}`, "path", { class: `fac-step-under ${tied || numbers ? "" : "fac-step-quiet"}`, d: `M${at} ${level(m)}V${end}m-2.5 0h5` }));
      for (const [i, { score, at, end, tied, plate: [a, b] }] of below.entries()) {
        const text = short(score - m, 3), tells = under(score, m), half = wide(tells.from, 0.95 * fs) / 2, has = 2 * half < b - a + 4, says = (i_, words, place_) => add(`under says ${i} ${i_}`, "text", { class: "fac-t-small fac-t-name", ...place_ }, words);
        if (numbers) says(0, text, { x: at + 5, y: (level(m) + end) / 2 + 0.3 * fs });
        else if (tied) [has ? tells.from : "s − m", `= ${tells.is}`].forEach((words, row) => says(row, words, { x: has ? Math.max(a + half - 2, Math.min(b - half + 2, at)) : at, y: level(m) - (1.3 - 0.95 * row) * fs, ...middle }));
      }
      const other = slip && stateAt(slip, Math.min(model.get("step"), last), nTiles, all.start).m;
      if (slip && other !== m && other >= low && other <= high) {
        const apart = Math.max(1.2 * fs, Math.abs(level(other) - level(m))) * (other > m ? -1 : 1); // one label does not lie on the other
        add("m wrong", "rect", { class: "fac-step-m fac-step-bad", x: edge, y: level(other) - 1, width: w - label + 0.4 * fs, height: 2 });
        add("m wrong says", "text", { class: "fac-t-bad", x: edge - 0.2 * fs, y: (m === -Infinity ? level(other) : level(m) + apart) + 0.3 * fs, "text-anchor": "end" }, `✗ ${short(other, 3)}`);
      }
      for (const write of labels) write((y) => [m, ...(old < m ? [old] : [])].some((v) => v > -Infinity && y > level(v) - 2 && y - 0.75 * fs < level(v) + 2)); // on the lines, which would strike them out
      for (const { key, cx, cy } of knobs) add(key, "circle", { class: "fac-knob fac-knob-down", cx, cy, r: 7 });
    });
  }

  /** A score is its own handle: a slider for pointer and keyboard. */
  function handle(add, { tile, k, key, score, x, y, w, tall, base, rise }) {
    const node = add(`grab ${tile} ${k}`, "rect", {
      class: "fac-grab fac-down", "data-key": key, "data-lm-suppress-shortcuts": "true", role: "slider", tabindex: key === heldKey() ? 0 : -1,
      "aria-label": `score of key ${key}, tile ${letter(tile)}`, "aria-orientation": "vertical", "aria-valuemin": round(low), "aria-valuemax": round(high), "aria-valuenow": score,
      x, y: y - 4, width: w, height: tall + 4,
    }, "", (_, py) => setScore(key, low + (base - py) / rise));
    node.facKey = key;
    node.onkeydown ??= (event) => keyOn(event, key, tile);
  }

  function setScore(key, score) {
    held = key;
    put(model, { changed: { ...model.get("changed"), [`${model.get("row")}:${key}`]: round(score) } });
  }

  function keyOn(event, key, tile) {
    const up = { ArrowUp: 1, PageUp: 5, ArrowDown: -1, PageDown: -5 }[event.key], side = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!up && !side) return;
    event.preventDefault();
    const { scores, sequence } = now();
    if (up) return setScore(key, scores[key] + up * notch);
    [held, follow] = [key, true];
    if (event.shiftKey) return moveTile(tile, sequence.indexOf(tile) + side);
    const keys = sequence.flatMap((i) => Array.from({ length: data.tiles[i][1] - data.tiles[i][0] }, (_, j) => data.tiles[i][0] + j)).filter((i) => scores[i] !== -Infinity);
    held = keys[keys.indexOf(key) + side] ?? key;
    picture.draw();
  }

  function moveTile(tile, to) {
    const sequence = [...now().sequence], from = sequence.indexOf(tile);
    if (from === to || to < 0 || to >= nTiles) return;
    sequence.splice(to, 0, ...sequence.splice(from, 1));
    put(model, { order: model.get("reverse") ? sequence.reverse() : sequence });
  }

  /** What the tile's keys count against m, from 0 to 1, and their sum, which ℓ gets. */
  function drawDesk(add, { all, place, line, fs, two, x, w, y, tall, end, scale, heap, tied, named, low: low_ }) {
    const { sequence, right, slip } = all, base = y + tall, here = Math.max(0, place), tile = sequence[here], shown = place >= 0 && line >= DONE.p, one = base - scale.unit;
    heading(add, "desk", fits(["weights p", "weights"], w + fs), { x, y, fs }); // not into the heading of ℓ
    add("desk base", "path", { class: "fac-step-base", d: `M${x} ${base}h${w}` });
    const p = right.p[here] ?? [], unit = (0.7 * w) / p.length, total = sum(p), wrong = slip?.p[here], waits = [["p = exp(s − m)", "exp(s − m)"], end ? ["forgotten"] : line < DONE.m ? ["once m is known", "after m"] : ["still to come", "to come"]];
    if (!shown) waits.forEach((words, i) => add(`desk waits ${i}`, "text", { class: "fac-t-soft", x: x + w / 2, y: base - 0.5 * tall + 1.2 * i * fs, ...middle }, fits(words, w, 0.87 * fs)));
    if (end) return;
    add("desk says", "text", { class: "fac-t-small", x: shown ? x + w + 0.6 * fs : x + w / 2, y: base + (two ? 2.3 * fs : low_ + 2.05 * fs), "text-anchor": shown ? "end" : "middle" }, fits([...(shown ? [`sum ${short(total, 3)}, then forgotten`, `sum ${short(total, 3)}`] : [`tile ${letter(tile)}’s, then forgotten`]), "then forgotten", "forgotten"], w + 2.2 * fs, 0.87 * fs));
    axis(add, "p", x, base, Math.min(tall, 1.2 * scale.unit), scale, fs); // no weight is above 1
    if (shown && scale.unit > 1.2 * fs) add("desk one", "path", { class: "fac-step-m-old", d: `M${x} ${one}h${w}` });
    if (shown && !named) add("desk scale", "text", { class: "fac-t-soft", x: x + w / 2, y: y + 0.45 * fs, ...middle }, fits(["same scale as ℓ", "scale of ℓ"], w + 1.6 * fs, 0.87 * fs));
    let free = !two && !named && one - y > 2.5 * fs; // over the line at 1
    for (let k = 0, from = base, gone = line > DONE.p; shown && k < p.length; k += 1) { // once it has landed, its outline
      const up = p[k] * scale.unit;
      add(`heap ${tile} ${k}`, "rect", { class: `${gone ? "fac-step-flown" : "fac-edge"} fac-step-heap`, style: gone ? "" : paint(tile), x: x + w - heap, y: (from -= up), width: heap, height: up });
    }
    p.forEach((value, k) => {
      const bx = x + (k + 0.15) * unit, bw = 0.7 * unit, up = Math.min(tall, value * scale.unit), text = weight(value);
      if (!shown) return;
      const here_ = k === tied && !named;
      add(`p ${tile} ${k}`, "rect", { class: `fac-edge fac-step-bar ${here_ ? "fac-step-tied" : ""}`, style: paint(tile), x: bx, y: base - up, width: bw, height: up }, `p of key ${data.tiles[tile][0] + k}: ${short(value, 5)}`);
      if (wrong && wrong[k] !== value) add(`p wrong ${tile} ${k}`, "rect", { class: "fac-step-ghost fac-step-bad", x: bx, y: base - Math.min(tall, finiteOr0(wrong[k]) * scale.unit), width: bw, height: Math.min(tall, finiteOr0(wrong[k]) * scale.unit) });
      if (here_) {
        const says = [`exp(${under(all.scores[data.tiles[tile][0] + k], right.m[here]).is})`, `= ${short(value, 3)}`], rows = wide(says.join(" "), 0.87 * fs) < w ? [says.join(" ")] : says, half = wide(rows[0], 0.87 * fs) / 2, over = Math.max(up, half + bx + bw / 2 > x + w - heap ? total * scale.unit : 0) + 0.4 * fs, low = over < scale.unit + 2 && over + 1.1 * rows.length * fs > scale.unit ? one - 0.4 * fs : base - over; // not on the line at 1
        free &&= low > one;
        rows.forEach((row, i) => add(`tied says ${i}`, "text", { class: "fac-t-small fac-t-name", x: Math.max(x + half - 1, Math.min(x + w - half, bx + bw / 2)), y: low - 1.1 * (rows.length - 1 - i) * fs, ...middle }, row));
      }
      if (named) add(`p says ${tile} ${k}`, "text", { class: "fac-t-small", x: bx + bw / 2, y: base + 1.1 * fs, ...middle }, text);
    });
    if (shown && free && scale.unit > 1.2 * fs) add("desk one says", "text", { class: "fac-t-soft", x: x + w, y: one - 0.35 * fs, "text-anchor": "end" }, fits(["1: a score at m", "a score at m", "at m"], w, 0.87 * fs));
  }

  /** The m that is kept, at its height among the scores: it rises with the line that rescales, and stands still where no larger score came. */
  function drawKept(add, { all: { right, slip, start }, place, line, fs, x, w, y, tall, end }) {
    const now_ = Math.min(model.get("step"), last), m = stateAt(right, now_, nTiles, -Infinity).kept, wrong = slip && stateAt(slip, now_, nTiles, start).kept;
    const old = place > 0 && !end && line === DONE.alpha ? right.m[place - 1] : m, level = (v) => y + tall - Math.max(0, Math.min(tall, ((v - low) * tall) / (high - low))), rises = old < m && old > -Infinity;
    heading(add, "kept m", "m", { x: x + w / 2 - 0.45 * fs, y, fs });
    add("kept track", "rect", { class: "fac-step-band fac-step-track", x, y, width: w, height: tall });
    if (rises) add("kept old", "path", { class: "fac-step-m-old", d: `M${x} ${level(old)}h${w}` });
    if (rises && level(old) - level(m) > fs) add("kept rises", "path", { class: "fac-step-under", d: `M${x + w / 2} ${level(old)}V${level(m) + 3}m-4 6l4 -6l4 6` });
    if (m > -Infinity) add("kept line", "rect", { class: "fac-step-m", x, y: level(m) - 1.5, width: w, height: 3 });
    if (slip && wrong !== m && wrong >= low && wrong <= high) add("kept wrong", "rect", { class: "fac-step-m fac-step-bad", x, y: level(wrong) - 1.5, width: w, height: 3 });
    const text = (v) => short(v, 3).replace("Infinity", "∞"), says = (key, words, dy, cls) => add(`kept ${key}`, "text", { class: cls, x: x + w / 2, y: y + tall + dy * fs, ...middle }, words);
    says("m says", text(m), 1.1, "fac-t-small fac-t-name");
    if (rises && wide(`was ${text(old)}`, 0.87 * fs) < w + 1.7 * fs) says("was", `was ${text(old)}`, 2.3, "fac-t-soft");
    if (place > 0 && !end && line >= DONE.m && right.m[place] === right.m[place - 1]) says("stays", "stays", 2.3, "fac-t-small");
  }

  /** ℓ or O as a stack, a segment a tile; the outline is its height before this tile, which shrank by α. */
  function drawSum(add, what, name, { all, place, line, fs, x, w, y, tall, end, scale, flies }) {
    const { right, slip, sequence, column } = all, land = what === "l" ? `;--fac-from:${flies}px` : "", base = y + tall - scale.deep * scale.unit, floor = y + tall;
    const last_ = end ? nTiles - 1 : line >= DONE[what] ? place : place - 1, fresh = !end && last_ === place && place >= 0;
    const value = (run, i) => (i < 0 ? 0 : what === "l" ? run.l[i] : run.o[i][column]);
    const by = (run) => (place > 0 && !end && line >= DONE.alpha ? run.by[what][place] : 1), alpha = by(right), shrunk_ = what === "l" && line === DONE.p && !slip, shrinks = alpha < 1 && !fresh && !shrunk_; // the new part is laid on what is left
    const title = fits(what === "o" && data.columns > 1 ? [`O, column ${column}`, `O, col. ${column}`] : [name], w + 0.4 * fs, fs);
    heading(add, what, title, { x, y, fs });
    add(`${what} base`, "path", { class: "fac-step-base", d: `M${x} ${base}h${w}` });
    axis(add, what, x, base, tall, scale, fs, what === "l" ? [1] : []);
    const says = (key, text, dy, cls = "fac-t-small fac-t-name", at = x + w / 2) => add(`${what} ${key}`, "text", { class: cls, x: at, y: floor + dy * fs, ...middle }, text);
    const change = shrinks && !slip ? shrunk(value(right, last_), alpha) : "", tight = wide(change, 0.87 * fs) > w; // then in two lines
    if (!slip && !tight) says("means", ADDED[what], 2.3, "fac-t-soft");
    if (last_ < 0) return add(`${what} waits`, "text", { class: "fac-t-soft", x: x + w / 2, y: base - 0.5 * tall, ...middle }, "still 0");
    const pillar = (run, bx, bw, bad) => {
      let up = 0, down = 0, top = base;
      const factor = fresh ? 1 : by(run); // what is right is hatched down to it
      run.parts[what][last_].map((share) => (bad || shrunk_ ? factor * share : share)).forEach((share, i) => {
        const size = finiteOr0(Math.abs(share)) * scale.unit, from = share >= 0 ? (up += size) : -down;
        if (share < 0) down += size;
        const y0 = Math.max(y - 0.6 * fs, base - from), y1 = Math.min(floor, base - from + size), tile = sequence[i];
        if (bad) return add(`${what} bad ${tile}`, "rect", { class: "fac-step-slip fac-step-bar", x: bx, y: y0, width: bw, height: Math.max(0, y1 - y0) });
        add(`${what} ${tile}`, "rect", { class: `fac-edge fac-step-bar ${fresh && i === place ? "fac-step-land" : ""}`, style: paint(tile) + land, x: bx, y: y0, width: bw, height: Math.max(0, y1 - y0) }, `tile ${letter(tile)}: ${short(share, 5)}`);
        if (shrinks) return; // its words are said below
        if (y1 - y0 > 1.4 * fs) chip(add, `${what} says ${tile}`, letter(tile), bx + bw / 2, (y0 + y1) / 2, fs, fresh && i === place ? "fac-step-land" : "");
        else if (!slip && y1 - y0 > 0.6 * fs && letter(tile)) add(`${what} says ${tile}`, "text", { class: "fac-t-small", x: bx + bw + 0.2 * fs, y: (y0 + y1) / 2 + 0.3 * fs }, letter(tile)); // too thin for a plate
      });
      const total = value(run, last_) * (bad ? factor : 1);
      top = base - Math.max(0, finiteOr0(total)) * scale.unit;
      if (down && up) add(`${what} net ${bad}`, "path", { class: "fac-step-net", d: `M${bx} ${base - finiteOr0(total) * scale.unit}h${bw}` });
      return { top: Math.max(y - 0.6 * fs, base - up), total: bad ? total : total * factor, over: base - up < y - 0.6 * fs || !Number.isFinite(total) };
    };
    const half = slip ? 0.46 * w : w, mine = pillar(right, x, half, false);
    if (what === "l" && fresh && line === DONE.l && !slip) {
      weights(add, { right, place, tile: sequence[place], x, w, from: base - (value(right, place) - right.added.l[place]) * scale.unit, scale });
      add("l more", "text", { class: "fac-t-small fac-t-name", x: x + w / 2, y: Math.min(mine.top, base - value(right, place - 1) * scale.unit) - 0.4 * fs, ...middle }, `+ ${short(right.added.l[place], 3)}`);
    }
    const total = ({ total, over }) => `${over ? "↑ " : ""}${short(total, 4)}`;
    if (change) (tight ? change.split(/ (?=→)/) : [change]).forEach((text, i) => says(`total right ${i || ""}`, text, 1.1 + 1.2 * i));
    else says("total right", short(mine.total, 4), 1.1);
    if (slip) says("total slip", `✗ ${total(pillar(slip, x + 0.54 * w, half, true))}`, 2.3, "fac-t-bad");
    if (alpha < 1 && !shrunk_) {
      const before = value(right, place - 1) * scale.unit, shown = fresh ? before : before * alpha, size = Math.abs(shown), gone = Math.abs(before) - Math.abs(before * alpha), up = before >= 0;
      const on = shrinks && !slip && gone > 2 * fs && wide("× 0.1353", 0.87 * fs) < w && Math.abs(before) > 3.2 * fs; // what goes has room for its words
      if (shrinks && gone > 1) add(`${what} gone`, "path", { class: "fac-step-gone-part", d: hatching(x, up ? base - Math.abs(before) : base + size, half, gone, 7) });
      if (on) chip(add, `${what} shrinks`, `× ${short(alpha, 4)}`, x + half / 2, up ? base - Math.abs(before) + fs : base + size + gone - fs, fs);
      add(`${what} ghost`, "rect", { class: "fac-step-ghost", x, y: Math.max(y - 0.6 * fs, shown >= 0 ? base - size : base), width: half, height: Math.min(size, tall) });
      if (!on) add(`${what} alpha`, "text", { class: "fac-t-small fac-t-name", x: x + w, y: y - 0.2 * fs, "text-anchor": "end" }, `× ${short(alpha, 4)}`);
    }
  }

  /** What ℓ gets is these bars of p, one on the other, to one scale. */
  function weights(add, { right, place, tile, x, w, from, scale }) {
    let y = from;
    right.p[place].forEach((value, k) => add(`l landed ${k}`, "rect", { class: `fac-step-landed ${value * scale.unit < 2.5 ? "fac-step-thin" : ""}`, x, y: (y -= value * scale.unit), width: w, height: value * scale.unit }, `p of key ${data.tiles[tile][0] + k}, in ℓ: ${short(value, 5)}`));
  }

  /** The scale of a stack at its left: 0, a round number, and the same below 0. */
  function axis(add, what, x, base, tall, { unit, deep }, fs, also = []) {
    const most = 0.9 * tall - deep * unit, power = 10 ** Math.floor(Math.log10(Math.max(1e-300, most / unit))), v = [5, 2, 1].map((n) => n * power).find((n) => n * unit <= most);
    const levels = [0, ...also.filter((n) => n !== v && n * unit > 1.2 * fs), ...(v && v * unit > 1.2 * fs ? [v] : []), ...(v && v <= deep && v * unit > 1.2 * fs ? [-v] : [])], left = x - 4;
    add(`${what} axis`, "path", { class: "fac-step-axis", d: `M${left} ${base + deep * unit}V${base + deep * unit - tall}${levels.map((n) => `M${left - 4} ${base - n * unit}h4`).join("")}` });
    levels.forEach((n, i) => add(`${what} level ${i}`, "text", { class: "fac-t-soft", x: left - 6, y: base - n * unit + 0.3 * fs, "text-anchor": "end" }, short(n, 3)));
  }

  /** O / ℓ after each tile, in the band of what an average can be: from the lowest value to the highest. */
  function drawMean(add, { all, place, fs, y, tall, end, line, ...box }) {
    const x = box.x + 2.4 * fs, w = box.w - 2.4 * fs; // its axis is at its left
    const { right, slip, other, truth, column } = all, [b, a] = bounds(column), band = b - a || 1;
    const points = [...right.means, ...(slip?.means ?? [])].filter(Number.isFinite);
    const top = Math.min(b + band, Math.max(b + 0.12 * band, ...points)), low_ = Math.max(a - band, Math.min(a - 0.12 * band, ...points));
    const level = (v) => y + (tall * (top - Math.max(low_, Math.min(top, v)))) / (top - low_), across = (i) => x + ((i + 0.5) * w) / nTiles;
    const shown = end ? nTiles : line >= LINES.length ? place + 1 : Math.max(0, place);
    const later = end ? "" : "fac-step-later", axis = [a, ...levels(a, b), b]; // the line that divides runs once, at the end
    heading(add, "mean", fits([...(end ? ["the answer"] : ["the answer so far", "answer so far"]), "answer"], w, 1.06 * fs), { x, y, fs });
    add("band", "rect", { class: "fac-step-band", x, y: level(b), width: w, height: level(a) - level(b) });
    const digits = Math.max(0, 1 - Math.floor(Math.log10(band))); // as many decimals at each of its ends
    const path = (key, run, cls, many) => {
      const seen = run.means.slice(0, many);
      if (seen.some(Number.isFinite)) add(`${key} path`, "path", { class: cls, d: seen.map((v, i) => (Number.isFinite(v) ? `${i && Number.isFinite(seen[i - 1]) ? "L" : "M"}${across(i)} ${level(v)}` : "")).join("") });
    };
    for (const v of axis) {
      add(`tick ${v}`, "path", { class: "fac-step-base", d: `M${x - 5} ${level(v)}h5` });
      add(`level ${v}`, "text", { class: "fac-t-soft", x: x - 8, y: level(v) + 0.3 * fs, "text-anchor": "end" }, short(Number(v.toFixed(digits)), 6));
    }
    const aim = level(truth[column]); // where all of this goes, from the start: a mistake is seen to miss it
    if (truth[column] >= a && truth[column] <= b) add("truth", "path", { class: "fac-step-truth", d: `M${x} ${aim}h${w}` });
    const low = aim - level(b) < 2 * fs || right.means.slice(0, shown).some((v, i) => i > nTiles / 2 - 1 && level(v) < aim && level(v) > aim - 2 * fs);
    if (!end && truth[column] >= a && truth[column] <= b) add("truth says", "text", { class: "fac-t-small", x: x + w - 0.2 * fs, y: aim + (low ? 0.95 : -0.3) * fs, "text-anchor": "end" }, "exact");
    if (end && other) path("given", other, "fac-step-path fac-step-old", nTiles);
    path("right", right, `fac-step-path ${later}`, shown);
    if (slip) path("slip", slip, "fac-step-path fac-step-bad", shown);
    right.means.slice(0, shown).forEach((v, i) => Number.isFinite(v) && add(`dot ${i}`, "circle", { class: `fac-edge fac-step-dot ${later}`, style: paint(all.sequence[i]), cx: across(i), cy: level(v), r: (i === shown - 1 ? 0.42 : 0.28) * fs }));
    if (nTiles > 1 && w > 1.2 * fs * nTiles) for (let i = 0; i < nTiles; i += 1) add(`after ${i}`, "text", { class: "fac-t-soft", x: across(i), y: y + tall, ...middle }, letter(all.sequence[i]));
    const says = (key, run, cls, at, sign) => {
      const v = run.means[shown - 1], over = Number.isFinite(v) && (v > b || v < a);
      const told = short(end ? run.out[column] : v, end ? 5 : 3), beside = !sign && shown, right_ = across(shown - 1) + 0.7 * fs + wide(told, 0.95 * fs) < x + w, near = level(Number.isFinite(v) ? v : a); // the right one's stands at its dot, off the answer's line
      const off = Math.abs(near - aim) > 0.8 * fs ? 0.32 : level(run.means[shown - 2] ?? v) > near && near - 1.3 * fs > level(b) ? -0.45 : 1.1;
      if (shown) add(`${key} says`, "text", { class: cls, x: beside ? across(shown - 1) + (right_ ? 0.7 : -0.7) * fs : x + w / 2, y: beside ? near + (slip && near > level(slip.means[shown - 1]) ? 1.1 : slip && off > 0.4 ? 0.32 : off) * fs : y + tall + at * fs, "text-anchor": beside ? (right_ ? "start" : "end") : "middle" }, `${sign}${told}${sign && over ? " impossible" : ""}`);
      if (shown && sign && Number.isFinite(v)) add(`${key} mark`, "path", { class: "fac-step-cross", d: `M${across(shown - 1) - 5} ${level(v) - 5}l10 10m0 -10l-10 10` });
    };
    says("right", right, "fac-t-small fac-t-name", 1.1, "");
    const alike = place > 0 && !end && line === DONE.alpha && right.alpha[place] < 1, roomy = wide("unchanged: both", 0.9 * fs) < w; // both sums shrink, and their quotient stands
    if (slip) says("slip", slip, "fac-t-bad", 2.3, "✗ ");
    else (alike && !roomy ? ["both shrink", "alike"] : [end ? (other ? "as in the order given" : "as all at once") : "O / ℓ"]).forEach((text, i) => add(`end says ${i}`, "text", { class: alike && !roomy ? "fac-t-small" : "fac-t-soft", x: x + w / 2, y: y + tall + (2.3 + 1.2 * i) * fs, ...middle }, text));
    const free = [level(b) + 1.2 * fs, level(a) - 1.7 * fs, aim + 2.3 * fs, aim - 3 * fs].filter((at) => at > level(b) + fs && at < level(a) - 0.4 * fs).find((at) => right.means.slice(0, shown).concat(truth[column]).every((v) => Math.abs(level(v) - at - 0.2 * fs) > 1.7 * fs)); // on no dot, nor on the answer's line
    if (!end && !slip && free && level(a) - level(b) > 4 * fs) (alike ? (roomy ? ["unchanged: both", "shrink alike"] : ["unchanged"]) : [fits(["any average of V", "any average"], w, 0.8 * fs), fits(["lies in this box", "lies here"], w, 0.8 * fs)]).forEach((text, i) => add(`band says ${i}`, "text", { class: alike ? "fac-t-small fac-t-name" : "fac-t-soft", x: x + w / 2, y: free + 1.1 * i * fs, ...middle }, text));
  }

  return picture;
}
