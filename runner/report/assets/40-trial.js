// A trial's page: what an address names is unfolded; JSON folds, by its lines and their
// indentation; texts are copied; steps are searched and filtered. One listener of a kind
// serves all rows.
(() => {
  const seen = (element) => element.closest(".trial");
  const shown = () => [...document.querySelectorAll(".trial")].find((trial) => trial.offsetParent !== null);
  const button = (text, label, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.dataset.act = act;
    return made;
  };

  // Lines of JSON nest as they are indented: one that opens an object or an array holds
  // those up to the next that is indented as it is.
  const most = 4000;
  const fold = (pre) => {
    const lines = pre.textContent.split("\n");
    if (lines.length < 3 || lines.length > most) return;
    const root = document.createDocumentFragment(), open = [{ indent: -1, into: root }];
    const indent = (line) => line.length - line.trimStart().length;
    const write = (text) => open[open.length - 1].into.append(text);
    lines.forEach((line, i) => {
      const at = indent(line), text = line.slice(at), end = i < lines.length - 1 ? "\n" : "";
      if (open.length > 1 && at === open[open.length - 1].indent && /^[\]}]/.test(text)) {
        write(line.slice(0, at));
        const { head, count } = open.pop();
        head.dataset.lines = count + (count === 1 ? " line" : " lines");
        write(text + end);
        return;
      }
      open[open.length - 1].count++;
      if (!/[[{]$/.test(text)) return write(line + end);
      const [block, head, folds, toggle] = ["span", "span", "span", "button"].map((tag) => document.createElement(tag));
      toggle.type = "button";
      toggle.className = "fold-at";
      toggle.setAttribute("aria-expanded", "true");
      toggle.setAttribute("aria-label", "Fold " + text.slice(0, 60));
      head.textContent = text;
      folds.className = "folds";
      folds.append(end);
      block.append(toggle, head, folds);
      open[open.length - 1].into.append(line.slice(0, at), block);
      open.push({ indent: at, into: folds, head, count: 0 });
    });
    pre.replaceChildren(root);
  };

  const ready = (pre) => {
    if (pre.dataset.ready) return;
    pre.dataset.ready = "yes";
    const name = pre.previousElementSibling?.textContent || "text";
    const tools = document.createElement("div");
    tools.className = "block-tools";
    if (pre.classList.contains("json")) {
      fold(pre);
      if (pre.querySelector(".fold-at")) tools.append(button("fold", "Fold all of " + name, "fold-all"));
    }
    tools.append(button("copy", "Copy " + name, "copy"));
    pre.before(tools);
  };
  const readyIn = (scope) => {
    for (const pre of scope.querySelectorAll("pre")) {
      const around = pre.parentElement.closest("details");
      if (!around || around.open) ready(pre);
    }
  };

  const copy = async (from, told) => {
    const text = from.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(from);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    const label = told.getAttribute("aria-label");
    if (!label.startsWith("Copy ")) return;
    told.textContent = "copied";
    told.setAttribute("aria-label", label.replace("Copy", "Copied"));
    setTimeout(() => {
      told.textContent = "copy";
      told.setAttribute("aria-label", label);
    }, 1500);
  };

  document.addEventListener("click", (event) => {
    const at = event.target.closest("button");
    if (!at || !seen(at)) return;
    if (at.classList.contains("fold-at")) {
      at.setAttribute("aria-expanded", String(at.getAttribute("aria-expanded") === "false"));
      return;
    }
    const pre = at.parentElement?.nextElementSibling;
    if (at.dataset.act === "copy") copy(pre, at);
    if (at.dataset.act === "fold-all") {
      const folded = at.textContent === "fold";
      pre.querySelectorAll(".fold-at").forEach((one, i) => { if (i > 0 || !folded) one.setAttribute("aria-expanded", String(!folded)); });
      at.textContent = folded ? "unfold" : "fold";
    }
  });
  document.addEventListener("toggle", (event) => {
    if (!event.target.open || !seen(event.target)) return;
    readyIn(event.target);
    if (states.has(seen(event.target))) mark(seen(event.target));
  }, true);

  // What the address names, and all around it, is open.
  const go = () => {
    const trial = shown();
    if (trial) readyIn(trial.querySelector(".side-by-side"));
    const at = document.getElementById(named());
    if (!at || !seen(at)) return;
    at.hidden = false;
    const within = at.querySelector(":scope > details");
    if (within) within.open = true;
    at.scrollIntoView({ block: "start" });
    (within?.firstElementChild ?? at).focus({ preventScroll: true });
  };
  addEventListener("hashchange", go);
  go();

  // Search. What a row says is looked up once, when somebody comes to the search, and as
  // the browser has time. A row is touched where that changes, and what is folded is not marked:
  // whatever is asked of all rows of a long trial takes seconds.
  const markedRows = 200, marksMost = 500;
  const states = new WeakMap();
  const stateOf = (trial) => {
    if (!states.has(trial)) {
      const rows = [...trial.querySelectorAll(".row")].map((row) => ({ row, text: null }));
      states.set(trial, { rows, hits: [], at: -1, read: 0 });
    }
    return states.get(trial);
  };
  const textOf = (one) => one.text ??= one.row.textContent.toLowerCase();
  const idle = window.requestIdleCallback ?? ((act) => setTimeout(() => act({ timeRemaining: () => 8 }), 20));
  const readOn = (state) => idle((time) => {
    while (state.read < state.rows.length && time.timeRemaining() > 1) textOf(state.rows[state.read++]);
    if (state.read < state.rows.length) readOn(state);
  });
  document.addEventListener("focusin", (event) => {
    const trial = event.target.matches(".find") && seen(event.target);
    if (trial && !states.has(trial)) readOn(stateOf(trial));
  });
  const find = (trial) => trial.querySelector(".find");
  const wordOf = (trial) => find(trial).value.trim().toLowerCase();

  const mark = (trial) => {
    if (!CSS.highlights) return;
    const word = wordOf(trial), ranges = [], { hits, at } = stateOf(trial);
    for (const row of word ? hits.slice(Math.max(at, 0), Math.max(at, 0) + markedRows) : []) {
      const details = row.querySelector(":scope > details");
      const walker = document.createTreeWalker(!details || details.open ? row : details.firstElementChild, NodeFilter.SHOW_TEXT);
      for (let node; ranges.length < marksMost && (node = walker.nextNode());) {
        const text = node.data.toLowerCase();
        for (let i = text.indexOf(word); i >= 0 && ranges.length < marksMost; i = text.indexOf(word, i + word.length)) {
          if (i + word.length > node.length) break;
          ranges.push(new StaticRange({ startContainer: node, startOffset: i, endContainer: node, endOffset: i + word.length }));
        }
      }
    }
    if (ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
    else CSS.highlights.delete("found");
  };
  const tell = (trial) => {
    const { rows, hits, at } = stateOf(trial);
    trial.querySelector(".told").textContent = hits.length === rows.length && !wordOf(trial) ? ""
      : at >= 0 ? `${at + 1} of ${hits.length} steps` : `${hits.length} of ${rows.length} steps`;
  };
  const filter = (trial) => {
    const state = stateOf(trial), word = wordOf(trial);
    const from = trial.querySelector(".from").value, failed = trial.querySelector(".only-failed").checked;
    state.hits = [];
    state.at = -1;
    for (const one of state.rows) {
      const { row } = one;
      const fits = (!from || row.dataset.from === from) && (!failed || "failed" in row.dataset) && (!word || textOf(one).includes(word));
      if (row.hidden === fits) row.hidden = !fits;
      if (fits) state.hits.push(row);
    }
    tell(trial);
    mark(trial);
  };
  const step = (trial, by) => {
    const state = stateOf(trial);
    if (!state.hits.length) filter(trial);
    const n = state.hits.length;
    if (!n) return;
    state.at = state.at < 0 && by < 0 ? n - 1 : (state.at + by + n) % n;
    const row = state.hits[state.at], details = row.querySelector("details");
    if (details && wordOf(trial)) details.open = true;
    row.scrollIntoView({ block: "center" });
    tell(trial);
    mark(trial);
  };
  const unfolded = 300;
  let waiting;
  document.addEventListener("input", (event) => {
    const trial = seen(event.target);
    if (!trial || !event.target.closest(".tools")) return;
    clearTimeout(waiting);
    waiting = setTimeout(() => filter(trial), event.target.type === "search" ? 150 : 0);
  });
  document.addEventListener("click", (event) => {
    const at = event.target.closest(".steps .tools .button"), trial = at && seen(at);
    if (!trial) return;
    if (at.classList.contains("step-on")) step(trial, 1);
    if (at.classList.contains("step-back")) step(trial, -1);
    const open = at.classList.contains("unfold");
    if (!open && !at.classList.contains("fold")) return;
    const rows = [...trial.querySelectorAll(".row:not([hidden]) > details")];
    for (const details of open ? rows.slice(0, unfolded) : rows) details.open = open;
    if (open && rows.length > unfolded) trial.querySelector(".told").textContent = `the first ${unfolded} of ${rows.length} are unfolded`;
  });
  document.addEventListener("keydown", (event) => {
    const trial = shown();
    if (!trial || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      find(trial).focus();
    } else if (event.target === find(trial) && event.key === "Escape") {
      find(trial).value = "";
      filter(trial);
    } else if (event.target === find(trial) && event.key === "Enter") {
      event.preventDefault();
      step(trial, event.shiftKey ? -1 : 1);
    }
  });
})();
