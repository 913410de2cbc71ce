// A question with an explanation for every answer; as many tries as you like.
// What it exports is held against Python in tests/widgets/test_javascript.py.

/** Right within `tolerance` of the answer, relative (absolute where the answer is 0). */
export function isRight(value, answer, tolerance) {
  return Math.abs(value - answer) <= tolerance * (answer === 0 ? 1 : Math.abs(answer)) + 1e-12;
}

/** A number as it is meant: whole ones whole, others to three digits. Mirrors `number` of asking.py. */
export function meant(x) {
  return Math.abs(x) >= 1000 || Number.isInteger(x) ? (Math.abs(x) < 1e7 ? Math.round(x).toLocaleString("en") : short(x, 3)) : short(x, 3);
}

/** How long an option's bar is, in percent: the longest is 70, for words stand behind it. Mirrors `bar_width` of asking.py. */
export function barWidth(size, sizes) {
  return (70 * size) / (Math.max(...sizes) || 1);
}

/** A part of a whole, as exactly as what it rests on: two digits, below 1 one. Mirrors `rough` of quiz.py. */
export const rough = (size) => (Math.abs(size) >= 100 ? meant(Math.round(size)) : short(size, Math.abs(size) < 1 ? 1 : 2));

function render({ model, el }) {
  const kind = model.get("options").length ? choices(model) : number(model);
  const form = h("fieldset", { class: "fac-quiz" }, h("legend", {}, h("small", {}, h("i", { class: "fac-ask", "aria-hidden": "true" }, "?"), "Check yourself"), rich(model.get("question"))), kind);
  root(model, el, form);
}

/** Note a try. `tries` is set last: every view of this question draws when it changes. */
function tried(model, solved, what) {
  put(model, { ...what, solved: model.get("solved") || solved, tries: model.get("tries") + 1 });
}

function verdict(right, ...text) {
  const word = right ? "Right." : "Not this one.";
  return h("div", { class: `fac-why ${right ? "fac-right" : "fac-wrong"}` }, h("b", {}, word), " ", ...text.filter(Boolean));
}

function choices(model) {
  const options = model.get("options");
  const several = options.filter((option) => option.right).length > 1;
  const name = freshId("quiz"), HINT = byTouch() ? (several ? "More than one is right: tap them, then check." : "Tap one, and it is checked.") : several ? "More than one is right: press them, or type their letters; then check." : "Press one to have it checked, or type its letter and Enter.";
  const AGAIN = several ? HINT : byTouch() ? "Tap another." : "Press another, or type its letter and Enter.";
  const how = h("p", { class: "fac-how" }, HINT);
  let moving = false;
  const moves = () => {
    moving = true;
    setTimeout(() => (moving = false));
  };
  const sizes = options.map((option) => option.size).filter((size) => size != null), unit = model.get("unit"), whole = model.get("whole"), strip = whole && striking(model, options);
  const bar = ({ size }) => (whole || size == null ? [] : [h("div", { class: "fac-size" }, h("i", { style: `width:${barWidth(size, sizes).toFixed(1)}%` }), `${meant(size)} ${unit}`.trim())]);
  const judged = (why) => why.querySelector(".fac-why");
  const rows = options.map((option) => {
    const why = h("div", {}); // a press, or Space, is the answer; arrows and letters move over the cards: then Enter checks
    const input = h("input", { type: several ? "checkbox" : "radio", name, onchange: () => clear(), onclick: (e) => e.isTrusted && !moving && !several && !judged(why) && check(), onkeydown: (e) => (e.key === "Enter" ? check() : /^Arrow/.test(e.key) && moves()) });
    const line = h("label", { class: `fac-card${several ? " fac-many" : ""}` }, input, h("span", {}, rich(option.text)));
    return { option, input, why, node: h("div", { class: "fac-option" }, line, why) };
  });
  const result = h("div", { role: "status", "aria-live": "polite" });
  const button = h("button", { type: "button", class: "fac-act", onclick: check, hidden: !several, disabled: true }, "Check");

  function clear() {
    if (!several && rows.some((row) => row.input.checked && judged(row.why))) return; // a press was the answer, and is told already
    ready();
    result.textContent = "";
    result.classList.remove("fac-hear");
    for (const row of rows) if (!row.input.checked) row.why.replaceChildren();
  }

  const ready = () => {
    button.disabled = !rows.some((row) => row.input.checked);
    button.hidden = !several && button.disabled;
  };

  function check() {
    const chosen = rows.filter((row) => row.input.checked);
    if (!chosen.length) return;
    const solved = rows.every((row) => row.option.right === row.input.checked);
    tried(model, solved, { chosen: chosen.map((row) => rows.indexOf(row)) });
  }

  function show() {
    const places = model.get("chosen");
    rows.forEach((row, i) => (row.input.checked = places.includes(i)));
    const chosen = rows.filter((row) => row.input.checked);
    button.hidden = true; // until another is chosen
    for (const row of rows) {
      row.why.replaceChildren();
      row.tried ||= row.input.checked;
      row.node.classList.toggle("fac-tried", row.tried && !row.input.checked && !row.option.right);
      if (row.input.checked) row.why.append(...bar(row.option), verdict(row.option.right, rich(row.option.explanation)));
    }
    const done = rows.every((row) => row.option.right === row.input.checked); // then the others say why they are not it
    for (const row of rows) if (done && !row.input.checked && row.option.explanation) row.why.append(...bar(row.option), h("div", { class: "fac-also fac-soft" }, row.tried ? "You tried this. " : "Why not: ", rich(row.option.explanation)));
    strip?.follow(rows.map((row) => (done || row.tried) && row.option.size != null));
    how.textContent = done ? (model.get("tries") > 1 ? `Right, after ${model.get("tries")} tries.` : "Right, at the first try.") : AGAIN;
    const missed = rows.filter((row) => row.option.right && !row.input.checked).length;
    if (missed === 0 && chosen.every((row) => row.option.right)) result.textContent = several ? "All right, and all of them." : "";
    else if (several && chosen.every((row) => row.option.right)) {
      result.textContent = `Right so far; ${missed} more ${missed === 1 ? "is" : "are"} true.`;
    } else result.textContent = several ? "Try again." : "Not this one: try another.";
    result.classList.toggle("fac-hear", !several && !done); // the card says it, beside what was wrong
  }

  model.on("change:tries", show);
  if (model.get("tries")) show();
  return [how, h("div", { onkeydown: byLetter(rows.map((row) => row.input)) }, rows.map((row) => row.node), strip ? strip.node : [], h("div", { class: "fac-row fac-acts" }, button, result))];
}

/**
 * One strip that is all of it, in its pieces and with what goes on within them. Each option that was tried strikes its part: of what it
 * names, or else from the end. What is left is filled, what is struck is hollow.
 */
function striking(model, options) {
  const whole = model.get("whole"), pieces = model.get("pieces"), inside = model.get("inside"), unit = model.get("unit"), [what] = unit.split(" ");
  const share = (size) => `${((100 * size) / whole).toFixed(3)}%`, lane = (of) => inside.findIndex(([name]) => name === of);
  const says = ({ size }) => `${rough(size)} of ${meant(whole)} ${unit}`.trim();
  const from = ({ size, of }) => (of ? inside[lane(of)][1] : whole) - size;
  const ends = pieces.map((_, i) => pieces.slice(0, i + 1).reduce((sum, [, long]) => sum + long, 0));
  const cut = (low, high) => { // a strike in each piece: three launches are three
    const at = [low, ...ends.filter((end) => end > low + 1e-6 * whole && end < high - 1e-6 * whole), high];
    return at.slice(1).map((end, i) => `left:${share(at[i])};width:${share(end - at[i])}`);
  };
  const place = (option) => `left:${share(from(option))};width:${share(option.size)}`;
  const node = h("div", { class: "fac-strip", hidden: true });
  return { node, follow(tried) {
    const shown = options.flatMap((option, i) => (tried[i] ? [[option, "abcdefghijklmnopqrstuvwxyz"[i]]] : []));
    node.hidden = !shown.length;
    const struck = (i) => shown.filter(([{ of }]) => lane(of) === i).flatMap(([option]) => cut(from(option), from(option) + option.size).map((style) => h("s", { style })));
    node.replaceChildren(
      h("p", { class: "fac-strip-head" }, `Where the ${meant(whole)} ${what} go; struck is what a choice takes away.`),
      inside.length ? h("p", { class: "fac-strip-note" }, `${inside.map(([name]) => name).join(", ")}: summed over all of it`) : "",
      h("div", { class: "fac-strip-names", "aria-hidden": "true" }, pieces.map(([name, long]) => h("span", { style: `flex:${long}` }, name))),
      h("div", { class: "fac-strip-all", "aria-hidden": "true" }, (pieces.length ? pieces : [["", whole]]).map(([, long]) => h("span", { style: `flex:${long}` })), struck(-1),
        h("div", { class: "fac-strip-lanes" }, inside.map(([name, long], i) => h("div", {}, h("i", { style: `width:${share(long)}` }), struck(i), h("small", { style: `margin-left:calc(${share(long)} + 5px)` }, `${name} ${rough(long)} ${what}`))))),
      ...shown.map(([option, letter]) => {
        const mid = (100 * (from(option) + option.size / 2)) / whole;
        return h("div", { class: `fac-strip-row${option.right ? " fac-strip-right" : ""}` }, h("i", { style: place(option), "aria-hidden": "true" }), h("div", {}, h("u", { style: `flex:${mid}` }), h("span", {}, h("b", {}, letter), ` ${says(option)}`), h("u", { style: `flex:${100 - mid}` })));
      }),
    );
  } };
}

function number(model) {
  const unit = model.get("unit");
  const id = freshId("number");
  const result = h("div", { role: "status", "aria-live": "polite" });
  const input = h("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", onkeydown: (e) => e.key === "Enter" && check(), oninput: () => result.replaceChildren() });
  const reveal = h("button", { type: "button", onclick: tell, hidden: true }, "Show the answer");
  const answer = () => `${meant(model.get("answer"))}${unit ? ` ${unit}` : ""}`;

  function check() {
    const value = parseNumber(input.value);
    input.setAttribute("aria-invalid", Number.isNaN(value));
    if (Number.isNaN(value)) {
      return result.replaceChildren("Type a number, such as 8192, 1.5e9 or 2^13.");
    }
    tried(model, isRight(value, model.get("answer"), model.get("tolerance")), { given: value });
  }

  function show() {
    const value = model.get("given");
    const right = isRight(value, model.get("answer"), model.get("tolerance"));
    if (parseNumber(input.value) !== value) input.value = value;
    reveal.hidden = right;
    result.replaceChildren(
      right
        ? verdict(true, `${answer()}. `, rich(model.get("explanation")))
        : verdict(false, `It is ${value > model.get("answer") ? "smaller" : "larger"}. Try again.`),
    );
  }

  function tell() {
    reveal.hidden = true;
    result.replaceChildren(h("div", { class: "fac-why fac-told" }, `The answer is ${answer()}. `, rich(model.get("explanation"))));
  }

  model.on("change:tries", show);
  if (model.get("tries")) show();
  return h(
    "div", {},
    h("div", { class: "fac-number" }, h("label", { for: id }, "Your answer:"), input, unit,
      h("button", { type: "button", class: "fac-act", onclick: check }, "Check"), reveal),
    result,
  );
}

export default { render };
