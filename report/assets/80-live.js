// A run as it happens: what server-sent events say takes the place of what the page said.
(() => {
  const url = document.body.dataset.live;
  if (!url) return;
  const place = (name) => document.querySelector(`[data-now="${name}"]`);
  const say = (name, text) => { const at = place(name); if (at && at.textContent !== text) at.textContent = text; };
  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  // What controls the order or the look of text is written out.
  const visible = (text) => text.replace(/[^\P{C}]|[\u034f\u115f\u1160\u17b4\u17b5\u2028\u2029\u3164\uffa0]/gu, (c) => "\\u{" + c.codePointAt(0).toString(16).toUpperCase() + "}");
  const took = (ms) => {
    const s = Math.round(ms / 1000);
    if (s < 60) return s + " s";
    return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  };
  const left = (ms) => {
    const min = Math.round(ms / 60000);
    if (ms < 60000) return "less than 1 min left";
    return min < 60 ? `about ${min} min left` : `about ${Math.floor(min / 60)} h ${String(min % 60).padStart(2, "0")} min left`;
  };
  // Outcomes in their order, and each as a badge: a sign, a word and a colour, as the server writes it.
  const marks = { pass: ["pass", "pass"], fail: ["fail", "fail"], timeout: ["timeout", "warn"], agent_error: ["broke", "fail"], error: ["error", "warn"], server_error: ["broke", "fail"], infra: ["infra", "infra"] };
  const badge = (outcome) => {
    const [sign, kind] = marks[outcome] ?? ["error", "warn"];
    const made = element("span", undefined, "badge " + kind);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    svg.setAttribute("class", "sign");
    svg.setAttribute("aria-hidden", "true");
    use.setAttribute("href", "#sign-" + sign);
    svg.append(use);
    made.append(svg, visible(outcome));
    return made;
  };
  const trials = new Map();
  const { base, trial: only } = place("working").closest("table").dataset;
  const link = (t) => {
    const made = element("a", visible(t.task) + "/" + t.number);
    made.href = base + "/trial/" + encodeURIComponent(t.task) + "/" + t.number;
    return made;
  };
  const working = () => {
    const rows = [];
    for (const t of trials.values()) {
      if (t.phase === "done" || only && only !== t.task + "/" + t.number) continue;
      const row = element("tr"), head = element("th");
      head.append(link(t), t.attempt > 1 ? ", attempt " + t.attempt : "");
      head.scope = "row";
      const call = t.call ? visible(t.call.server + " " + t.call.tool) : "";
      row.append(head, element("td", visible(t.phase)), element("td", call, "mono"), element("td", t.since.slice(0, 19).replace("T", " ") + " UTC"));
      rows.push(row);
      if (rows.length === 256) break;
    }
    place("working").replaceChildren(...rows);
  };
  const ended = () => {
    const list = place("ended"), items = [];
    const last = [...trials.values()].filter((t) => t.phase === "done").sort((a, b) => b.since < a.since ? -1 : 1).slice(0, 20);
    for (const t of last) {
      const item = element("li");
      item.append(link(t), " ", badge(t.outcome ?? ""), " ", visible(t.message ?? ""));
      items.push(item);
    }
    list.replaceChildren(...items);
  };
  const progress = (now) => {
    for (const t of now.trials) trials.set(t.task + "/" + t.number, t);
    if (only && trials.get(only)?.phase === "done") return location.reload();
    say("state", ["running", "starting"].includes(now.state) ? "at work" : now.state);
    say("done", String(now.done_trials));
    say("planned", String(now.planned_trials));
    say("elapsed", took(now.elapsed_ms));
    say("left", now.left_ms === undefined ? "" : ", " + left(now.left_ms));
    if (!only) totals(now);
    if (now.trials.length === 0) return;
    working();
    if (!only) ended();
  };
  const totals = (now) => {
    place("outcomes").replaceChildren(...Object.keys(marks).filter((outcome) => now.outcomes[outcome]).map((outcome) => {
      const made = element("span");
      made.append(badge(outcome), " " + now.outcomes[outcome]);
      return made;
    }));
    const bar = place("bar");
    bar.max = Math.max(now.planned_trials, 1);
    bar.value = now.done_trials;
  };
  // A page that nobody sees hears of nothing: browsers have few connections to a server.
  let events, over = false;
  const listen = () => {
    if (over || document.hidden) return events?.close();
    events = new EventSource(url);
    events.addEventListener("open", () => { trials.clear(); say("told", ""); });
    events.addEventListener("progress", (event) => progress(JSON.parse(event.data)));
    events.addEventListener("end", (event) => {
      over = true;
      events.close();
      say("told", JSON.parse(event.data) === "unreadable"
        ? "The run is gone, or cannot be read any more; this page shows what it knew."
        : "Nobody is at work on the run any more. Load this page again to see what came of it.");
    });
    events.addEventListener("error", () => {
      say("told", events.readyState === EventSource.CLOSED
        ? "The connection is lost, and this page shows what it knew. Open the address that waza serve prints."
        : "The connection is lost; trying again.");
    });
  };
  document.addEventListener("visibilitychange", listen);
  listen();
})();
