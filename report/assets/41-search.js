// Search in a trial's steps, by words, source and failure. What a step says is looked up
// once, in the source of its bunch, as the browser has time from when the trial is seen.
// Steps are gone through in slices, between which the browser answers, and a step that is
// an element is touched where that changes: whatever is asked of all steps of a long trial
// takes seconds.
(() => {
  const slice = 24, patience = 60; // milliseconds
  const markedRows = 200, marksMost = 500, unfolded = 300;
  const states = new WeakMap();
  const bunchOf = (list) => {
    const bunch = { list, filled: list.classList.contains("filled") };
    bunch.rows = (list.source ?? list.textContent).split(/(?=<li class="row )/).slice(1).map((source, at) => {
      const head = source.slice(0, source.indexOf(">"));
      return { bunch, at, source, from: /data-from="([^"]*)"/.exec(head)[1], failed: / data-failed$/.test(head), fits: true };
    });
    return bunch;
  };
  const stateOf = (trial) => {
    if (!states.has(trial)) {
      const bunches = [...trial.querySelectorAll(".bunch")].map(bunchOf);
      states.set(trial, { bunches, rows: bunches.flatMap((bunch) => bunch.rows), hits: [], at: -1, read: 0, turn: 0 });
    }
    return states.get(trial);
  };
  const rowOf = ({ bunch, at }) => {
    fill(bunch.list);
    return bunch.list.children[at];
  };
  const signs = { lt: "<", gt: ">", amp: "&", "#34": '"', "#39": "'", "#43": "+" };
  const textOf = (one) => one.text ??= one.source.replace(/<[^>]*>/g, "").replace(/&([a-z]+|#\d+);/g, (all, sign) => signs[sign] ?? all).toLowerCase();
  const idle = window.requestIdleCallback ?? ((act) => setTimeout(() => act({ timeRemaining: () => 8 }), 20));
  const readOn = (state) => idle((time) => {
    while (state.read < state.rows.length && time.timeRemaining() > 1) textOf(state.rows[state.read++]);
    if (state.read < state.rows.length) readOn(state);
  });
  const find = (trial) => trial.querySelector(".find");
  const wordOf = (trial) => find(trial).value.trim().toLowerCase();

  // What is folded is not marked.
  const mark = (trial) => {
    if (!CSS.highlights) return;
    const word = wordOf(trial), ranges = [], { hits, at } = stateOf(trial);
    for (const one of word ? hits.slice(Math.max(at, 0), Math.max(at, 0) + markedRows) : []) {
      if (!one.bunch.filled) continue;
      const row = rowOf(one);
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

  // A bunch is as high as its rows that are left, also where the browser has not laid it out.
  const narrow = ({ list, rows, filled }, fits, hits) => {
    const before = hits.length;
    rows.forEach((one, i) => {
      one.fits = fits(one);
      if (filled && list.children[i].hidden === one.fits) list.children[i].hidden = !one.fits;
      if (one.fits) hits.push(one);
    });
    const left = hits.length - before;
    if (list.hidden !== (left === 0)) list.hidden = left === 0;
    const fewer = left < rows.length ? String(left) : "";
    if (list.style.getPropertyValue("--left") !== fewer) list.style.setProperty("--left", fewer);
  };
  document.addEventListener("filled", (event) => {
    const trial = trialOf(event.target), bunch = states.get(trial)?.bunches.find(({ list }) => list === event.target);
    if (!bunch) return;
    bunch.filled = true;
    bunch.rows.forEach((one, i) => { if (!one.fits) bunch.list.children[i].hidden = true; });
    mark(trial);
  });
  // filter leaves the steps that fit, and then calls done. A later one takes its place.
  const filter = (trial, done) => {
    const state = stateOf(trial), turn = ++state.turn, word = wordOf(trial), hits = [];
    const from = trial.querySelector(".from").value, failed = trial.querySelector(".only-failed").checked;
    const fits = (one) => (!from || one.from === from) && (!failed || one.failed) && (!word || textOf(one).includes(word));
    let next = 0;
    [state.hits, state.at] = [[], -1];
    const goOn = () => {
      if (turn !== state.turn) return;
      for (const end = performance.now() + slice; next < state.bunches.length && performance.now() < end;) {
        narrow(state.bunches[next++], fits, hits);
      }
      if (next < state.bunches.length) return setTimeout(goOn);
      state.hits = hits;
      tell(trial);
      mark(trial);
      done?.();
    };
    goOn();
  };
  const step = (trial, by) => {
    const state = stateOf(trial), n = state.hits.length;
    if (!n) return;
    state.at = state.at < 0 && by < 0 ? n - 1 : (state.at + by + n) % n;
    const row = rowOf(state.hits[state.at]), details = row.querySelector("details");
    if (details && wordOf(trial)) details.open = true;
    row.scrollIntoView({ block: "center" });
    tell(trial);
    mark(trial);
  };

  // What is typed is looked for once the keys rest a moment, and before anybody steps on.
  let waiting;
  const filterSoon = (trial, ms) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      waiting = undefined;
      filter(trial);
    }, ms);
  };
  const stepOn = (trial, by) => {
    if (waiting === undefined && stateOf(trial).hits.length) return step(trial, by);
    clearTimeout(waiting);
    waiting = undefined;
    filter(trial, () => step(trial, by));
  };
  const readAhead = () => {
    const trial = trialShown();
    if (trial && !states.has(trial)) readOn(stateOf(trial));
  };
  for (const when of ["load", "hashchange"]) addEventListener(when, readAhead);
  document.addEventListener("input", (event) => {
    const trial = trialOf(event.target);
    if (trial && event.target.closest(".tools")) filterSoon(trial, event.target.type === "search" ? patience : 0);
  });
  document.addEventListener("toggle", (event) => {
    const trial = event.target.open && trialOf(event.target);
    if (trial && states.has(trial)) mark(trial);
  }, true);
  document.addEventListener("click", (event) => {
    const at = event.target.closest(".steps .tools .button"), trial = at && trialOf(at);
    if (!trial) return;
    if (at.classList.contains("step-on")) stepOn(trial, 1);
    if (at.classList.contains("step-back")) stepOn(trial, -1);
    const open = at.classList.contains("unfold");
    if (!open && !at.classList.contains("fold")) return;
    const rows = stateOf(trial).rows.filter(({ fits }) => fits);
    if (open) for (const one of rows.slice(0, unfolded)) rowOf(one).querySelector("details")?.setAttribute("open", "");
    else for (const details of trial.querySelectorAll(".row:not([hidden]) > details[open]")) details.open = false;
    if (open && rows.length > unfolded) trial.querySelector(".told").textContent = `the first ${unfolded} of ${rows.length} are unfolded`;
  });
  document.addEventListener("keydown", (event) => {
    const trial = trialShown();
    if (!trial || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      find(trial).focus();
    } else if (event.target === find(trial) && event.key === "Escape") {
      find(trial).value = "";
      filterSoon(trial, 0);
    } else if (event.target === find(trial) && event.key === "Enter") {
      event.preventDefault();
      stepOn(trial, event.shiftKey ? -1 : 1);
    }
  });
})();
