// What stands on the Race's tapes and beside them: the names of the trips, how much of O is there, what must cross HBM.

/** Where naive's trips over S and P lie on its tape: [what, first byte, last]; those that take turns have one place. */
function tripsOf({ events, from }) {
  const trips = {};
  events.forEach(({ tensor, kind, bytes }, i) => {
    if (isScore(tensor)) (trips[tensor + kind] ??= [`${kind === "load" ? "read" : "write"} ${tensor.toUpperCase()}`, from[i], 0])[2] = from[i] + bytes;
  });
  return Object.values(trips).reduce((all, [says, first, end]) => {
    const last = all.at(-1);
    if (last && first < last[2]) [last[0], last[2]] = [`${last[0]}, ${says}`, Math.max(end, last[2])];
    else all.push([says, first, end]);
    return all;
  }, []);
}

/** The nodes of a tape's own words and, right of it, the meter of O. */
function besideTape(text, lane, { box: { tw, fs, tape, meter }, lanes }) {
  const x = tw + 0.8 * fs, rect = (cls, more) => v("rect", { class: cls, x, y: lane.bill, width: meter - 0.8 * fs, height: tape }, null, more);
  [lane.tripText, lane.tripPill] = [[], []]; // on a plate: stripes run below the words
  const trips = lane.name === "naive" ? [0, 1, 2, 3].flatMap((i) => [v("rect", { class: "fac-chip", y: lane.bill + 0.5 * tape - 0.58 * fs, height: 1.16 * fs, rx: 3 }, null, { ref: (node) => (lane.tripPill[i] = node) }), text(0, lane.bill + tape / 2 + 0.3 * fs, "fac-race-small", null, {}, (node) => (lane.tripText[i] = node))]) : [];
  if (lanes.length < 2) return trips;
  return [...trips, rect("fac-fill-o", { ref: (node) => (lane.meter = node) }), rect("fac-race-meter"), text(x, lane.bill - 0.45 * fs, "fac-race-soft fac-race-of", "of O"), text(x + 0.3 * fs, lane.bill + tape / 2 + 0.35 * fs, "fac-race-name", null, {}, (node) => (lane.meterText = node))];
}

/** Write them as far as the tape is laid. */
function tellTape(lane, clock, { box: { tw, fs, meter }, axis }) {
  const px = tw / axis, trips = clock && lane.tripText.length ? (lane.tripsOf ??= tripsOf(lane)) : [];
  lane.tripText.forEach((node, i) => {
    const [says = "", from = 0, to = 0] = trips[i] ?? [], room = (Math.min(to, lane.now) - from) * px;
    const size = wide(says, 0.83 * fs), shown = says && room > size + 8;
    write(node, shown ? says : "");
    renew(node, { x: from * px + 5 });
    renew(lane.tripPill[i], { x: from * px + 2, width: shown ? size + 5 : 0 });
  });
  if (!lane.meter) return;
  renew(lane.meter, { width: clock ? ((meter - 0.8 * fs) * lane.written) / lane.outs : 0 });
  write(lane.meterText, clock ? writtenOf(lane) : "");
}

/** What of a tape must cross HBM, below it, and what counters saw. */
function thinTape(text, lane, { box: { tape, thin, tw, fs, width }, axis, data, b }, get) {
  const y = lane.bill + tape, low = y + thin + 1.45 * fs, modelled = lane.name !== "naive" && !Object.keys(data().replays).length && !get("decode") && b() === 2;
  const seen = modelled && data().recorded.find((r) => ["n", "d", "causal"].every((trait) => r[trait] === get(trait)));
  return [
    v("rect", { class: "fac-race-panel", x: 0, y: y + 4, width: tw, height: thin }), text(0, low, "fac-race-small", null, {}, (node) => (lane.leastText = node)),
    ...(seen ? [v("g", {}, [v("path", { class: "fac-race-measured", d: `M${(seen.bytes * tw) / axis} ${y + 1}l5 5l-5 5l-5 -5z` }, [v("title", {}, seen.label)]), text(width, low, "fac-race-small", `◆ ${bytesText(seen.bytes)} ${seen.short}`, { "text-anchor": "end" })], { ref: (node) => (lane.seen = node) })] : []),
  ];
}

/** The desk: one wall, and what goes over it. */
function deskOf(text, lane, race, get) {
  const { fs, lw, deskH, base } = race.box, { x, desk } = lane, naive = lane.name === "naive", room = race.chip().shared / 1024;
  const w = race.wall(), at = race.slots(lane), used = at.s.x + at.s.w - x, lens = base / 512, nodes = [];
  nodes.push({ ...text(x + 2, desk + deskH + 1.15 * fs, "fac-race-soft"), ref: (node) => (lane.deskText = node) }, v("rect", { class: "fac-race-desk", x, y: desk - 2, width: w, height: deskH + 4 }));
  nodes.push(text(x, desk - 0.6 * fs, "fac-race-soft", `shared memory of one SM, ${room} KiB (${get("gpu")})${lens > 1 ? `, drawn ${lens} × larger` : ""}`));
  if (!naive) for (const [t, p] of Object.entries(at)) nodes.push(v("rect", { class: "fac-race-slot", x: p.x, y: desk, width: p.w, height: deskH }), ...(p.w < 0.5 * fs ? [] : [text(p.x + p.w / 2, desk + deskH + 1.15 * fs, "fac-race-soft", t.toUpperCase(), { "text-anchor": "middle" })]));
  const full = used > w + 20, kib = (Object.values(at).reduce((sum, p) => sum + p.w, 0) / w) * room;
  if (!naive && full) nodes.push(v("rect", { class: "fac-race-spill", x: x + w, y: desk, width: Math.min(used, lw) - w, height: deskH }));
  const beside = naive ? ["one tile at a time,", "empty after each kernel"] : [`${short(kib, 3)} of ${room} KiB`, full ? "over the wall: does not fit" : "a program's tiles"];
  beside.forEach((line, i) => nodes.push(text(x + Math.max(w, naive ? 0 : Math.min(used, lw - 12 * fs)) + 14, desk + deskH / 2 + (i - 0.2) * 1.3 * fs, full && !naive ? "fac-race-small fac-race-bad" : "fac-race-soft", line)));
  if (lens > 2) nodes.push(v("rect", { class: "fac-race-desk", x: x + lw - w / lens - 4, y: desk + 4, width: w / lens, height: deskH / lens }), text(x + lw - w / lens - 10, desk + 1 * fs, "fac-race-soft", "true size", { "text-anchor": "end" }));
  return nodes;
}
