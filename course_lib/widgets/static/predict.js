// A prediction before the answer: it is kept, never judged here.

function render({ model, el }) {
  const options = model.get("options");
  const said = h("div", { role: "status", "aria-live": "polite", class: "fac-soft" });
  const entry = options.length ? choice(model, options) : number(model, (text) => (said.textContent = text));
  const button = h("button", { type: "button", onclick: keep, disabled: true }, "Keep my prediction");

  function keep() {
    const answer = entry.read();
    if (answer == null) return;
    put(model, { answer });
    tell();
  }

  const ready = () => (button.disabled = entry.empty());

  function tell() {
    const answer = model.get("answer");
    if (answer == null) return;
    entry.show(answer); // another view of this question may have been used
    ready();
    const unit = options.length ? "" : ` ${model.get("unit")}`;
    said.replaceChildren("Your prediction: ", h("b", {}, rich(`${answer}${unit}`)), ". Now run on and see.");
  }

  entry.onEnter(keep);
  model.on("change:answer", tell);
  root(model, el, h("fieldset", { class: "fac-quiz", oninput: ready, onkeyup: ready },
    h("legend", {}, rich(model.get("question"))), entry.node, h("div", { class: "fac-row" }, button, said)));
  tell();
}

/** Cards, hit by pointer, by arrows, or by the letter that stands on them. */
function choice(model, options) {
  const name = freshId("predict");
  const inputs = options.map((text) => h("input", { type: "radio", name, value: text }));
  const cards = options.map((text, i) => h("label", { class: "fac-card" }, inputs[i], h("span", {}, rich(text))));
  const node = h("div", { class: "fac-cards", onkeydown: (event) => {
    const input = event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey ? inputs[event.key.toLowerCase().charCodeAt(0) - 97] : null;
    if (input) [input.checked] = [true, input.focus()];
  } }, cards);
  return {
    node,
    read: () => inputs.find((input) => input.checked)?.value,
    empty: () => !inputs.some((input) => input.checked),
    show: (answer) => inputs.forEach((input, i) => {
      input.checked = input.value === answer;
      cards[i].classList.toggle("fac-kept", input.checked);
    }),
    onEnter: (keep) => inputs.forEach((input) => enter(input, keep)),
  };
}

function number(model, say) {
  const id = freshId("predict");
  const input = h("input", { id, type: "text", inputmode: "decimal", autocomplete: "off" });
  const node = h("div", { class: "fac-number" }, h("label", { for: id }, "Your guess:"), input, model.get("unit") === "×" ? "times" : model.get("unit"));
  const read = () => {
    const value = parseNumber(input.value);
    input.setAttribute("aria-invalid", Number.isNaN(value));
    if (!Number.isNaN(value)) return value;
    say("Type a number, such as 8192, 1.5e9 or 2^13.");
    return null;
  };
  const show = (answer) => parseNumber(input.value) === answer || (input.value = answer);
  return { node, read, show, empty: () => !input.value.trim(), onEnter: (keep) => enter(input, keep) };
}

function enter(input, act) {
  input.addEventListener("keydown", (event) => event.key === "Enter" && act());
}

export default { render };
