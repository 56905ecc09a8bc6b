// The status page. It asks for what changed every few seconds and changes only what is no longer so: nothing flickers,
// nothing that has the focus goes away. What the answers mean stands in docs/status_page.md.
import { fillPicture, give, keep, make, picture, put } from "./nodes.js";
import { ago, daemon, duration, few, many, now, sinceSeconds, size, whole } from "./words.js";

const HEIGHT = 130, LOOK_MS = 3000, HISTORY_MS = 30000, FIRST_ROWS = 20, ROWS_SHOWN = 100, PARTITIONS_SHOWN = 100;
const $ = (id) => document.getElementById(id);
const state = {
  version: "", topics: new Map(), open: new Map(), sort: "trouble", filter: "", which: "all",
  shown: ROWS_SHOWN, all: 0, hasAll: false, partitions: null, hours: 3, head: null, charts: [], lostSince: null, problems: null,
};

// Files of a few records are larger than these are in the log, until compaction merges them.
function saved({ log_bytes: log, file_bytes: file }) {
  if (!log) return "–";
  return file < log ? `${Math.round((1 - file / log) * 100)}%` : "nothing yet";
}

// ---- problems, and texts as the daemon has them ----

function problemNode() {
  return make("li", { class: "problem" }, make("h3"), make("p", { class: "where" }), make("p", { class: "step" }),
    make("p", {}, make("a")));
}

function fillProblem(node, problem) {
  const [title, where, step, link] = node.children;
  put(title, problem.text);
  const times = problem.last_ms ? `over, seen last ${ago(problem.last_ms)}`
    : problem.since_ms ? `for ${duration(now() - problem.since_ms)}` : "";
  put(where, [problem.where, times].filter(Boolean).join(" · "));
  put(step, problem.next_step ? `What to do: ${problem.next_step}` : "");
  step.hidden = !problem.next_step;
  give(link.firstChild, "href", `runbook#${problem.entry}`);
  put(link.firstChild, "What it means, in the runbook");
}

const problemKey = (problem) => `${problem.entry} ${problem.text}`;

function showProblems(head) {
  keep($("problems"), head.problems, problemKey, problemNode, fillProblem);
  $("problems-section").hidden = head.problems.length === 0;
  put($("problems-title"), head.more_problems ? `Problems, the first ${head.problems.length} of ${
    head.problems.length + head.more_problems}` : "Problems");
  keep($("over"), head.over, problemKey, problemNode, fillProblem);
  $("over-section").hidden = head.over.length === 0;
  const count = head.problems.length + head.more_problems;
  if (state.problems !== null && state.problems !== count) {
    put($("told"), count ? many(count, "problem", "problems") : "All problems are over");
  }
  state.problems = count;
  document.title = count ? `(${count}) Floeberg` : "Floeberg";
}

function showTexts(head) {
  give($("health"), "class", `pill ${head.healthy ? "good" : "bad"}`);
  for (const node of document.querySelectorAll("[data-text]")) put(node, head.texts[node.dataset.text]);
  put($("as-of"), ` · as of ${new Date(head.now_ms).toLocaleTimeString()}`);
}

// ---- topics and partitions ----

const byName = (one, other) => (one.topic < other.topic ? -1 : 1);
const falling = (value) => (one, other) => value(other) - value(one) || byName(one, other);
const COLUMNS = [
  { key: "name", title: "Topic", compare: byName },
  { key: "stored", title: "Offsets", compare: falling((row) => row.stored) },
  { key: "lag", title: "Waiting", number: true, compare: falling((row) => row.local) },
  { key: "rate", title: "In, a second", number: true, compare: falling((row) => row.records_per_s ?? -1) },
  { key: "saved", title: "Saved", number: true, compare: falling((row) => row.log_bytes - row.file_bytes) },
  { key: "local", title: "Local log", number: true, compare: falling((row) => row.local_log_bytes) },
  { key: "table", title: "Table", number: true, compare: falling((row) => row.live_bytes) },
];
const PROBLEMS_FIRST = {
  key: "trouble", title: "problems first",
  compare: (one, other) => other.troubled - one.troubled || other.behind - one.behind || byName(one, other),
};
const ORDERS = [PROBLEMS_FIRST, ...COLUMNS];
const WHICH = {
  all: () => true, troubled: (row) => row.troubled > 0, behind: (row) => row.behind > 0,
  waiting: (row) => row.local > 0, native: (row) => row.mode !== "watch",
};

function cell(column, ...children) {
  return make("td", { class: column.number ? "number" : "", "data-label": column.title }, ...children);
}

function topicNode(row) {
  const id = `parts-${row.topic}`;
  const toggle = make("button", { type: "button", class: "fold", "aria-expanded": "false", "aria-controls": id });
  toggle.addEventListener("click", () => fold(row.topic));
  const line = make("tr", { class: "topic" },
    make("th", { scope: "row" }, toggle, make("span", { class: "soft" })),
    cell(COLUMNS[1], picture(["expired", "stored", "verified", "local"]), make("span", { class: "note" })),
    ...COLUMNS.slice(2).map((column) => cell(column)));
  return line;
}

function fillTopic(node, row) {
  const [name, offsets, lag, rate, less, local, table] = node.children;
  put(name.firstChild, row.topic);
  give(name.firstChild, "aria-expanded", String(state.open.has(row.topic)));
  put(name.lastChild, [many(row.partitions, "partition", "partitions"), row.mode === "both" ? "watch and native" : row.mode,
    row.format, row.led < row.partitions ? `${whole(row.led)} led here` : null].filter(Boolean).join(", "));
  const older = row.stored - row.verified;
  fillPicture(offsets.firstChild, [row.expired, older, row.verified, row.local],
    `${row.topic}: ${whole(row.stored)} offsets in the table, of which ${whole(row.verified)} were read back since the ` +
    `start; ${whole(row.local)} in Kafka only; ${whole(row.expired)} expired`);
  const notes = [];
  if (row.troubled) notes.push(many(row.troubled, "partition with a problem", "partitions with a problem"));
  if (row.behind) notes.push(`${whole(row.behind)} behind for ${sinceSeconds(row.behind_since_s)}`);
  if (row.awaiting_rows) notes.push(`${whole(row.awaiting_rows)} await a schema`);
  else if (row.reason_rows) notes.push(`${whole(row.reason_rows)} keep their bytes`);
  put(offsets.lastChild, notes.join(" · ") || `${whole(row.stored)} in the table`);
  give(node, "class", row.troubled ? "topic bad" : row.behind ? "topic late" : "topic");
  put(lag, row.local ? `${whole(row.local)}${row.waits_since_s ? ` · ${sinceSeconds(row.waits_since_s)}` : ""}` : "0");
  put(rate, row.records_per_s === null ? "–" : few(row.records_per_s));
  put(less, saved(row));
  put(local, size(row.local_log_bytes));
  put(table, row.live_bytes ? size(row.live_bytes) : "–");
}

function showTopics() {
  const wanted = state.filter.toLowerCase();
  const rows = [...state.topics.values()].filter((row) => WHICH[state.which](row) && row.topic.toLowerCase().includes(wanted));
  rows.sort(ORDERS.find((column) => column.key === state.sort).compare);
  const shown = rows.slice(0, state.shown);
  const lines = shown.flatMap((row) => (state.open.get(row.topic)?.found ? [{ row }, { row, isOpen: true }] : [{ row }]));
  keep($("topic-rows"), lines, ({ row, isOpen }) => (isOpen ? `/${row.topic}` : row.topic),
    ({ row, isOpen }) => (isOpen ? foldedRow(row.topic) : topicNode(row)),
    (node, { row, isOpen }) => (isOpen ? state.partitions.fillFolded(node, state.open.get(row.topic)) : fillTopic(node, row)));
  const hasAll = state.topics.size >= state.all, found = hasAll ? rows.length : state.all;
  put($("topic-count"), found < state.all ? `${whole(found)} of ${whole(state.all)}` : whole(state.all));
  $("more-topics").hidden = shown.length === found;
  put($("more-topics"), `Show all ${whole(found)}`);
  for (const head of $("topic-head").children) give(head, "aria-sort", head.dataset.key === state.sort ? "other" : null);
}

// The first answer brings the topics that need a look first: enough until somebody asks for others.
async function wantAll() {
  if (!state.hasAll && state.topics.size < state.all) {
    state.hasAll = true;
    state.version = "";
    await look();
  }
}

// What a person chose, and then what that takes.
function choose(choice) {
  Object.assign(state, choice);
  showTopics();
  wantAll();
}

function fold(topic) {
  if (!state.open.delete(topic)) {
    state.open.set(topic, { count: PARTITIONS_SHOWN, found: null, all: 0 });
    lookInto(topic);
  }
  showTopics();
}

// A row of values under the names of its columns.
const named = (columns, row) => Object.fromEntries(columns.map((name, index) => [name, row[index]]));

function foldedRow(topic) {
  return state.partitions.foldedNode(topic, COLUMNS.length, () => {
    state.open.get(topic).count += PARTITIONS_SHOWN;
    lookInto(topic);
  });
}

async function lookInto(topic) {
  state.partitions ??= await tried(() => import("./partitions.js"));
  if (state.partitions === null) return;
  const opened = state.open.get(topic), found = [];
  let all = 1;
  while (found.length < Math.min(opened.count, all)) {
    const answer = await ask(`page/partitions?topic=${encodeURIComponent(topic)}&first=${found.length}&count=${PARTITIONS_SHOWN}`);
    if (answer === null || !answer.partitions.length) break;
    all = answer.all;
    found.push(...answer.partitions.map((row) => named(answer.columns, row)));
  }
  if (state.open.get(topic) !== opened) return;
  Object.assign(opened, { found, all });
  showTopics();
}

// ---- loops, files, bounds ----

function showLoops(head) {
  keep($("loops"), head.loops, (loop) => loop.name,
    (loop) => make("tr", {}, make("th", { scope: "row" }, loop.name), ...Array.from({ length: 5 }, () => make("td"))),
    (node, loop) => {
      const [, looked, took, worked, next, words] = node.children;
      put(looked, loop.busy_since_ms ? `at it for ${duration(now() - loop.busy_since_ms)}` : ago(loop.looked_ms));
      give(took, "class", "number");
      put(took, loop.looked_ms === null ? "–" : loop.took_ms < 10000 ? `${whole(loop.took_ms)} ms` : duration(loop.took_ms));
      put(worked, ago(loop.worked_ms));
      const wait = loop.next_ms === null ? null : loop.next_ms - now();
      put(next, wait === null ? "when a table changes" : wait < 1000 ? "now" : `in ${duration(wait)}`);
      put(words, loop.now);
    });
  const held = [...head.held, ...head.files.notes];
  keep($("held"), held, (text) => text, (text) => make("li", {}, text), () => {});
  $("held").hidden = held.length === 0;
}

const REASONS = {
  live: "the tables’ own", history: "of earlier snapshots", erased: "of snapshots from before an erasure", grace: "named by nothing, in their grace",
  unreferenced: "named by nothing, about to go", foreign: "another program’s",
};

function showFiles({ files }) {
  const box = $("files");
  const reasons = Object.keys(files.bytes);
  if (!box.children.length) {
    box.append(picture(reasons), make("ul", { class: "legend" }), make("p", { class: "soft" }));
  }
  const [bar, list, note] = box.children;
  const total = reasons.reduce((sum, reason) => sum + files.bytes[reason], 0);
  reasons.forEach((reason, index) => {
    bar.children[index].style.flexGrow = String(total ? files.bytes[reason] / total : 0);
    bar.children[index].hidden = !files.bytes[reason];
  });
  give(bar, "aria-label", reasons.map((reason) => `${reason} ${size(files.bytes[reason])}`).join(", "));
  keep(list, reasons, (reason) => reason,
    (reason) => make("li", {}, make("i", { class: `part ${reason}` }), make("b", {}, reason), make("span")),
    (node, reason) => put(node.lastChild, `${size(files.bytes[reason])} in ${many(files.files[reason], "file", "files")}: ${REASONS[reason]}`));
  const looked = files.looked_at < files.tables ? `${whole(files.looked_at)} of ${whole(files.tables)} tables looked at so far. ` : "";
  const goes = files.goes_next_ms === null ? "" : `; the next go in ${duration(files.goes_next_ms - now())}`;
  put(note, `${looked}Removed since the start: ${size(files.removed_bytes)} in ${many(files.removed_files, "file", "files")}${goes}.`);
}

function showBounds(head) {
  keep($("bounds"), head.bounds, ([name]) => name,
    ([name]) => make("li", {}, make("span", {}, name.replace(/_bytes$/, "").replaceAll("_", " ")),
      make("meter", { min: "0", max: "1", high: "0.8", low: "0.8", optimum: "0", "aria-label": name }), make("span", { class: "soft" })),
    (node, [name, used, limit]) => {
      const [, meter, words] = node.children, share = limit ? used / limit : 0;
      give(meter, "value", share.toFixed(3));
      const amount = name.endsWith("bytes") ? size : whole;
      put(words, `${amount(used)} of ${amount(limit)}, ${Math.round(share * 100)}%`);
    });
}

// ---- history ----

const CHARTS = [
  { title: "Records tiered a second", unit: few, lines: [["records", "", "--stored", true]] },
  { title: "Bytes tiered a second", unit: size,
    lines: [["log_bytes", "log", "--local", true], ["file_bytes", "Parquet", "--stored", true]] },
  { title: "Waiting in Kafka", unit: whole, lines: [["lag_records", "all", "--local"], ["behind_records", "behind", "--bad"]] },
  { title: "History read a second", unit: size, lines: [["fetched_bytes", "", "--verified", true]] },
];

const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const COUNTS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const clock = (time) =>
  new Date(time * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });

function chart({ title, unit, lines }) {
  const values = lines.map(([, , name]) => make("span", {}, make("i", { class: `part ${name.slice(2)}` }), make("span")));
  const when = make("span");
  const caption = make("figcaption", {}, make("b", {}, title), make("p", {}, ...values, when));
  const box = make("div", { class: "plot", role: "img" });
  const figure = make("figure", {}, caption, box);
  $("charts").append(figure);
  const say = (plot, index) => {
    // The newest point is still to come for a moment after each half minute.
    const at = index ?? Math.max(0, plot.data[1].findLastIndex((value) => value !== null));
    lines.forEach(([, name], line) => {
      const value = plot.data[line + 1][at];
      put(values[line].lastChild, `${name} ${value === null || value === undefined ? "–" : unit(value)}`.trim());
    });
    put(when, index === null || index === undefined ? "" : `at ${clock(plot.data[0][at])}`);
  };
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const plot = new uPlot({
    width: box.clientWidth || 300, height: HEIGHT, padding: [8, 20, 0, 0], legend: { show: false },
    cursor: { sync: { key: "history" }, y: false, points: { size: 6 } },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    series: [{}, ...lines.map(([, , name, rate]) => ({ stroke: color(name), fill: rate ? color(name) + "33" : undefined, width: 1.5, points: { show: false } }))],
    axes: [{ ...axis, size: 24, space: 56, values: (_, times) => times.map(clock) },
      { ...axis, size: 62, space: 34, gap: 3, incrs: unit === size ? POWERS : COUNTS, values: (_, values) => values.map(unit) }],
    hooks: { setCursor: [(self) => say(self, self.cursor.idx)] },
  }, [[], ...lines.map(() => [])], box);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
  return { plot, box, lines, title, unit, say };
}

async function showHistory() {
  const answer = await ask(`page/history?hours=${state.hours}`);
  if (answer === null) return;
  if (!state.charts.length) state.charts = CHARTS.map(chart);
  // Where the history begins later than what was asked for, it fills the chart all the same.
  const begin = Math.max(0, Math.min(answer.records.length - 20, answer.records.findIndex((value) => value !== null)));
  const times = answer.records.map((_, point) => (answer.begin_ms + point * answer.step_ms) / 1000).slice(begin);
  for (const { plot, box, lines, title, unit, say } of state.charts) {
    const columns = lines.map(([name]) => answer[name].slice(begin));
    plot.setData([times, ...columns]);
    say(plot, plot.cursor.idx);
    const most = lines.map(([, name], line) => `${name} at most ${unit(Math.max(0, ...columns[line].filter((value) => value !== null)))}`);
    give(box, "aria-label", `${title} over the last ${state.hours} h:${most.join(",")}`);
  }
}

// ---- asking ----

// What `work` gives; null where the daemon does not answer, which is shown until it does.
async function tried(work) {
  try {
    const answer = await work();
    state.lostSince = null;
    $("lost").hidden = true;
    return answer;
  } catch (error) {
    state.lostSince ??= Date.now();
    put($("lost"), `The daemon does not answer (${error.message}). What is shown is as of ${new Date(state.lostSince).toLocaleTimeString()}.`);
    $("lost").hidden = false;
    return null;
  }
}

const ask = (path) => tried(async () => {
  const answer = await fetch(path, { signal: AbortSignal.timeout(10000) });
  if (!answer.ok) throw new Error(`it answers ${answer.status}`);
  return answer.json();
});

function show() {
  const head = state.head;
  showProblems(head);
  showTexts(head);
  showTopics();
  showLoops(head);
  showFiles(head);
  showBounds(head);
}

async function look() {
  const { hasAll } = state;
  const answer = await ask(`page/overview?since=${state.version}${hasAll ? "" : `&most=${FIRST_ROWS}`}`);
  // Some are no answer any more where all were wanted meanwhile.
  if (answer === null || hasAll !== state.hasAll) return;
  daemon.skewMs = answer.now_ms - Date.now();
  state.version = answer.version;
  if (answer.whole) state.topics.clear();
  state.all = answer.all;
  for (const row of answer.topics) state.topics.set(row[0], named(answer.columns, row));
  state.head = answer;
  $("scripted").hidden = false;
  show();
  await Promise.all([...state.open.keys()].map(lookInto));
}

function every(pauseMs, work) {
  let timer = null;
  const run = async () => {
    clearTimeout(timer);
    timer = null;
    if (!document.hidden) await work();
    clearTimeout(timer);
    timer = setTimeout(run, pauseMs);
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) run(); });
  return run;
}

// ---- what a person does ----

function begin() {
  for (const column of COLUMNS) {
    const button = make("button", { type: "button" }, column.title);
    button.addEventListener("click", () => sortBy(column.key));
    $("topic-head").append(make("th", { scope: "col", class: column.number ? "number" : "", "data-key": column.key }, button));
  }
  for (const { key, title } of ORDERS) $("sort").append(make("option", { value: key }, title.toLowerCase()));
  sortBy(state.sort);
  $("sort").addEventListener("change", (event) => sortBy(event.target.value));
  $("which").addEventListener("change", (event) => choose({ which: event.target.value }));
  $("filter").addEventListener("input", (event) => choose({ filter: event.target.value }));
  $("more-topics").addEventListener("click", () => choose({ shown: Infinity }));
  for (const button of $("lengths").children) {
    button.addEventListener("click", () => {
      state.hours = Number(button.dataset.hours);
      for (const other of $("lengths").children) give(other, "aria-pressed", String(other === button));
      put($("history-length"), state.hours === 1 ? "hour" : `${state.hours} hours`);
      showHistory();
    });
  }
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !isTyping) { event.preventDefault(); $("filter").focus(); }
    if (event.key === "Escape" && event.target === $("filter")) choose({ filter: $("filter").value = "" });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const { plot } of state.charts) plot.destroy();
    $("charts").replaceChildren();
    state.charts = [];
    showHistory();
  });
  every(LOOK_MS, look)().then(every(HISTORY_MS, showHistory));
}

function sortBy(key) {
  choose({ sort: $("sort").value = key });
}

begin();
