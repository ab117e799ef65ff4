// trialOf is the trial that an element is in, and trialShown the one whose page is seen.
const trialOf = (element) => element.closest(".trial");
const trialShown = () => document.querySelector(".page.seen")?.querySelector(".trial");

// A trial's page: what an address names is unfolded; JSON folds, by its lines and their
// indentation; texts are copied. One listener of a kind serves all rows.
(() => {
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
    for (const pre of scope.querySelectorAll("pre:not(.markdown pre)")) {
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
    if (!at || !trialOf(at)) return;
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
    if (event.target.open && trialOf(event.target)) readyIn(event.target);
  }, true);

  // The key n leads to the next trial that did not pass: of a trial's page by its link, else the first.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "n" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const page = document.querySelector(".page.seen") ?? document;
    (page.querySelector(".next-failing") ?? page.querySelector(".reasons .numbers a"))?.click();
  });

  // What the address names, and all around it, is open.
  const go = () => {
    const trial = trialShown();
    for (const part of trial?.querySelectorAll(".side-by-side, .setup") ?? []) readyIn(part);
    reveal(named());
    const at = document.getElementById(named());
    if (at?.closest(".left-out")) at.scrollIntoView({ block: "center" });
    if (!at || !trialOf(at)) return;
    for (const hidden of [at.closest(".bunch"), at]) hidden?.removeAttribute("hidden");
    const within = at.querySelector(":scope > details");
    if (within) within.open = true;
    at.scrollIntoView({ block: "start" });
    (within?.firstElementChild ?? at).focus({ preventScroll: true });
  };
  addEventListener("hashchange", go);
  go();
})();
