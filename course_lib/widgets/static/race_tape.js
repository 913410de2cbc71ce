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
  lane.tripText = [];
  const trips = lane.name === "naive" ? [0, 1, 2, 3].map((i) => text(0, lane.bill + tape / 2 + 0.3 * fs, "fac-race-small", null, {}, (node) => (lane.tripText[i] = node))) : [];
  if (lanes.length < 2) return trips;
  return [...trips, rect("fac-fill-o", { ref: (node) => (lane.meter = node) }), rect("fac-race-meter"), text(x, lane.bill - 0.45 * fs, "fac-race-soft fac-race-of", "of O"), text(x + 0.3 * fs, lane.bill + tape / 2 + 0.35 * fs, "fac-race-name", null, {}, (node) => (lane.meterText = node))];
}

/** Write them as far as the tape is laid. */
function tellTape(lane, clock, { box: { tw, fs, meter }, axis }) {
  const px = tw / axis, trips = clock && lane.tripText.length ? (lane.tripsOf ??= tripsOf(lane)) : [];
  lane.tripText.forEach((node, i) => {
    const [says = "", from = 0, to = 0] = trips[i] ?? [], room = (Math.min(to, lane.now) - from) * px;
    write(node, room > wide(says, 0.83 * fs) + 8 ? says : "");
    renew(node, { x: from * px + 4 });
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
