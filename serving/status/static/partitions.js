// A topic's partitions. Loaded when the first topic is unfolded.

import { give, fillPicture, keep, make, picture, put } from "./nodes.js";
import { sinceSeconds, size, whole } from "./words.js";

// The folded row of a topic; `onMore` is called for more of its partitions.
export function foldedNode(topic, columns, onMore) {
  const list = make("ul", { class: "partitions" });
  const more = make("button", { type: "button", hidden: "" });
  more.addEventListener("click", onMore);
  const title = { id: `parts-${topic}`, colspan: String(columns), "aria-label": `Partitions of ${topic}` };
  return make("tr", { class: "folded" }, make("td", title, list, more));
}

// `found` of the `all` that there are.
export function fillFolded(node, { found, all }) {
  const [list, more] = node.firstChild.children;
  keep(list, found, (part) => part.partition, partitionNode, fillPartition);
  more.hidden = found.length >= all;
  put(more, `Show more: ${whole(found.length)} of ${whole(all)} partitions are shown`);
}

function partitionNode() {
  return make("li", {}, make("b"), picture(["expired", "stored", "verified", "stored", "local"]),
    make("span", { class: "ends" }), make("span", { class: "note" }), make("a", { hidden: "" }, "runbook"));
}

function fillPartition(node, part) {
  const [title, bar, ends, note, link] = node.children;
  put(title, String(part.partition));
  const start = Math.max(part.expired_end, part.tiered_start ?? part.expired_end);
  const end = part.tiered_end ?? start;
  const from = Math.min(end, Math.max(start, part.verified_start ?? end)), to = Math.min(end, Math.max(from, part.verified_end ?? from));
  const live = Math.max(end, part.stable_end ?? end);
  const words = [];
  if (start > 0) words.push(`expired below ${whole(start)}`);
  words.push(part.tiered_end === null ? "nothing in the table yet" : `in the table ${whole(start)} to ${whole(end)}`);
  if (to > from) words.push(`read back ${whole(from)} to ${whole(to)}`);
  if (live > end) words.push(`in Kafka only ${whole(end)} to ${whole(live)}`);
  words.push(`live end ${whole(live)}`);
  fillPicture(bar, [start, from - start, to - from, end - to, live - end], `Partition ${part.partition}: ${words.join("; ")}`);
  put(ends, `${whole(start)} – ${whole(end)}${live > end ? ` ▸ ${whole(live)}` : ""}`);
  const said = [];
  if (part.problem) said.push(part.problem);
  else if (part.behind_since_s) said.push(`behind for ${sinceSeconds(part.behind_since_s)}`);
  if (!part.problem && part.waiting) said.push(part.waiting);
  if (!part.led) said.push("led elsewhere");
  if (part.table_start !== null && part.table_start > start) said.push(`SQL from ${whole(part.table_start)}`);
  if (part.awaiting_rows) said.push(`${whole(part.awaiting_rows)} await a schema`);
  said.push(`${size(part.local_log_bytes)} local`);
  if (part.spool_bytes) said.push(`${size(part.spool_bytes)} in the spool`);
  put(note, said.join(" · "));
  give(node, "class", part.problem ? "bad" : part.behind_since_s ? "late" : "");
  link.hidden = !part.entry;
  if (part.entry) give(link, "href", `runbook#${part.entry}`);
}
