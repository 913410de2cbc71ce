// A prediction before the answer: it is kept, never judged here.

function render({ model, el }) {
  const options = model.get("options");
  const said = h("div", { role: "status", "aria-live": "polite" });
  const entry = options.length ? choice(model, options) : number(model, (text) => (said.textContent = text));
  const button = h("button", { type: "button", class: "fac-act", onclick: keep }, "Keep my prediction");

  function keep() {
    const answer = entry.read();
    if (answer == null) return;
    put(model, { answer });
    tell();
  }

  const ready = () => {
    button.disabled = entry.empty();
    if (model.get("answer") == null) write(said, button.disabled ? entry.lacks : ""); // why it is grey
  };

  function tell() {
    const answer = model.get("answer");
    if (answer == null) return;
    entry.show(answer); // another view of this question may have been used
    ready();
    const unit = options.length ? "" : ` ${model.get("unit")}`;
    said.replaceChildren("✓ Your prediction: ", h("b", {}, rich(`${answer}${unit}`)), ". Now run on and see.");
  }

  entry.onEnter(keep);
  model.on("change:answer", tell);
  root(model, el, h("fieldset", { class: "fac-quiz fac-predict", oninput: ready },
    h("legend", {}, h("small", {}, "⚑ Predict first"), rich(model.get("question"))), h("p", { class: "fac-how" }, entry.hint), entry.node, h("div", { class: "fac-row fac-acts" }, button, said)));
  ready();
  tell();
}

/** Cards, hit by pointer, by arrows, or by the letter that stands on them. */
function choice(model, options) {
  const name = freshId("predict");
  const inputs = options.map((text) => h("input", { type: "radio", name, value: text }));
  const cards = options.map((text, i) => h("label", { class: "fac-card" }, inputs[i], h("span", {}, rich(text))));
  const node = h("div", { class: "fac-cards", onkeydown: byLetter(inputs) }, cards);
  return {
    node,
    hint: byTouch() ? "Tap one, then keep it." : "Choose one, or type its letter; then keep your prediction.",
    read: () => inputs.find((input) => input.checked)?.value,
    lacks: `${byTouch() ? "Tap" : "Choose"} an answer first.`,
    empty: () => !inputs.some((input) => input.checked),
    show: (answer) => inputs.forEach((input, i) => {
      input.checked = input.value === answer;
      cards[i].classList.toggle("fac-kept", input.checked);
    }),
    onEnter: (keep) => inputs.forEach((input) => enter(input, keep)),
  };
}

/** A line of numbers on which the guess is planted, and a box for the exact one. Its ends tell nothing of the answer. */
function number(model, say) {
  const id = freshId("predict"), unit = model.get("unit"), [least, most] = [model.get("least"), model.get("most")], near = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
  const input = h("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", oninput: () => place(parseNumber(input.value)) });
  const line = h("input", { type: "range", step: "any", "aria-label": "The guess on a line of numbers", oninput: () => plant(nearest(10 ** line.value)), onkeydown: (event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const all = places(), at = all.indexOf(nearest(10 ** line.value));
    plant(all[Math.max(0, Math.min(all.length - 1, at + by))]);
    input.dispatchEvent(new Event("input", { bubbles: true }));
  } });
  const flag = h("output", { class: "fac-flag", "aria-hidden": "true" }), ticks = h("div", { class: "fac-ticks", "aria-hidden": "true" });
  // Until there is a guess the flag stands off the line, at its left: planted on a number it looks like a guess.
  const parked = h("div", { class: "fac-flag fac-parked", "aria-hidden": "true", onpointerdown: drag }, "drag me");
  const rule = h("div", { class: "fac-line" }, flag, line, ticks, parked);
  const node = h("div", {}, rule, h("div", { class: "fac-number" }, h("label", { for: id }, "Your guess:"), input, unit === "×" ? "times" : unit));
  const ends = () => [Number(line.min), Number(line.max)];
  const tidy = (x) => Number(x.toPrecision(2)); // 0.3, where floats say 0.30000000000000004
  const places = () => Array.from({ length: ends()[1] - ends()[0] }, (_, i) => near.map((x) => tidy(x * 10 ** (ends()[0] + i)))).flat().concat(10 ** ends()[1]);
  const nearest = (value) => places().reduce((a, c) => (Math.abs(Math.log(c / value)) < Math.abs(Math.log(a / value)) ? c : a));

  function drag(event) {
    event.preventDefault();
    const { left, width } = line.getBoundingClientRect(), foot = 11, [low, high] = ends();
    const move = (e) => {
      const at = Math.max(0, Math.min(1, (e.clientX - left - foot) / (width - 2 * foot)));
      plant(nearest(10 ** (low + at * (high - low))));
      input.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const end = () => ["pointermove", "pointerup", "pointercancel"].forEach((name) => removeEventListener(name, name === "pointermove" ? move : end));
    addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, end);
  }

  function plant(value) {
    input.value = value;
    place(value);
  }

  /** Put the flag at a value; where it is beyond an end the line grows. Only what is above 0 has a place. */
  function place(value) {
    const [first, last] = [Math.floor(Math.log10(least ?? 0.1)), Math.ceil(Math.log10(most ?? 1e4))];
    const fits = value > 0 && value >= (least ?? 0) && value <= (most ?? Infinity), power = fits ? Math.log10(value) : first, [low, high] = [Math.min(first, Math.floor(power)), Math.max(last, Math.ceil(power))];
    if (low !== ends()[0] || high !== ends()[1] || !ticks.childNodes.length) rules(low, high);
    [line.min, line.max] = [low, high];
    line.value = power;
    rule.classList.toggle("fac-unset", !fits);
    parked.hidden = fits;
    const at = (power - low) / (high - low);
    rule.style.setProperty("--at", at);
    rule.classList.toggle("fac-flip", at > 0.6); // room for its words
    flag.textContent = fits ? `${short(value)} ${unit}`.trim() : "";
    line.setAttribute("aria-valuetext", flag.textContent || "no guess yet");
  }

  function rules(low, high) {
    const at = (power) => (100 * (power - low)) / (high - low), every = Math.ceil((high - low) / 8), powers = Array.from({ length: high - low + 1 }, (_, i) => low + i);
    const d = powers.flatMap((p) => (p < high ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : [1]).map((x) => `M${at(p + Math.log10(x)).toFixed(2)} 0v${x === 1 ? 8 : 4}`)).join("");
    const named = powers.filter((p) => (p - low) % every === 0);
    ticks.replaceChildren(s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, s("path", { d })), ...named.map((p) => h("span", { style: `left:${at(p)}%` }, p < 6 && p > -5 ? tidy(10 ** p).toLocaleString("en", { maximumFractionDigits: 6 }) : ["10", h("sup", {}, short(p))])));
    if (unit === "×" && low < 0) ticks.append(...[[0, "the same"], [low, "less"], [high, "more"]].map(([p, words]) => h("span", { class: "fac-sense", style: `left:${at(p)}%` }, words)));
  }

  const read = () => {
    const value = parseNumber(input.value);
    const wrong = Number.isNaN(value) ? "Type a number, such as 8192, 1.5e9 or 2^13." : value < (least ?? -Infinity) ? `It cannot be less than ${least}.` : value > (most ?? Infinity) ? `It cannot be more than ${most}.` : "";
    input.setAttribute("aria-invalid", Boolean(wrong));
    if (!wrong) return value;
    say(wrong);
    return null;
  };
  const show = (answer) => {
    if (parseNumber(input.value) !== answer) input.value = answer;
    place(answer);
    rule.classList.add("fac-kept");
  };
  place(NaN);
  return { node, read, show, hint: `Drag the flag, or type a number${byTouch() ? "" : " and press Enter"}. Each long tick is 10 times the one before.`, lacks: "Drag the flag or type a number first.", empty: () => !input.value.trim(), onEnter: (keep) => [input, line].forEach((part) => enter(part, keep)) };
}

function enter(input, act) {
  input.addEventListener("keydown", (event) => event.key === "Enter" && act());
}

export default { render };
