"use strict";
document.documentElement.classList.add("scripted");

// named is the id that the address has, empty where it has none.
const named = () => {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
};

// The page that is seen: the one that the address names, or that has what it names, and
// else the first. It is marked among the links to all, its title the document's, and the
// focus on it once somebody has gone there. While the file is being read, the page that the
// address names is waited for, and no other is seen before it.
//
// Trials are text until somebody looks at them, as templates/trial.html says: the page that
// is seen is made of it, and bunches of its rows when they come near.
const { reveal, fill } = (() => {
  const title = document.title, main = document.getElementById("main");
  let reading = true, marked, filled;
  const seen = () => {
    const id = named(), pages = [...main.children].filter((child) => child.classList.contains("page"));
    const page = document.getElementById(id)?.closest(".page") ?? pages.find((page) => id.startsWith(page.id + "/"));
    return page ?? (reading && id ? undefined : pages[0]);
  };
  const mark = () => {
    document.body.classList.add("placed");
    const page = seen();
    if (!page || page === marked) return;
    marked?.classList.remove("seen");
    marked = page;
    page.classList.add("seen");
    document.title = page.dataset.title && page.dataset.title !== title ? page.dataset.title + " \u00b7 " + title : title;
    fillPage();
    for (const link of document.querySelector(".top").querySelectorAll("nav a")) {
      if (link.dataset.page === page.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
  // fill makes the rows of a bunch; its source stays for searches.
  const fill = (bunch) => {
    const later = bunch.firstElementChild;
    if (later?.localName !== "noscript") return;
    near.unobserve(bunch);
    bunch.source = later.textContent;
    bunch.innerHTML = bunch.source;
    bunch.classList.add("filled");
    bunch.dispatchEvent(new Event("filled", { bubbles: true }));
  };
  const near = new IntersectionObserver((all) => {
    for (const one of all) if (one.isIntersecting) fill(one.target);
  }, { rootMargin: "1500px" });
  // fillPage makes what there is of the page that is seen, except bunches, which wait.
  const fillPage = () => {
    if (!marked || marked === filled) return;
    const whole = !reading || marked.nextElementSibling;
    for (const later of marked.querySelectorAll(".trial noscript")) {
      const bunch = later.closest(".bunch");
      if (!whole && !(bunch ?? later).nextSibling) continue; // it is still being read
      if (!bunch) later.outerHTML = later.textContent;
      else if (bunch.previousElementSibling?.classList.contains("bunch") && bunch.nextElementSibling) near.observe(bunch);
      else fill(bunch); // the first, and the last, which may be short
    }
    if (whole) filled = marked;
  };
  const fillAll = () => marked?.querySelectorAll(".bunch").forEach(fill);
  // reveal has the step be there that an address names.
  const reveal = (id) => {
    if (!marked || !id || document.getElementById(id)) return;
    const name = id.slice(marked.id.length) + '"';
    for (const bunch of marked.querySelectorAll(".bunch:not(.filled)")) {
      if (!bunch.textContent.includes(name)) continue;
      fill(bunch);
      return location.replace(location.href); // which makes it the :target
    }
  };
  // The browser searches and prints elements alone.
  addEventListener("beforeprint", fillAll);
  addEventListener("keydown", (event) => {
    if (event.key === "F3" || event.key.toLowerCase() === "f" && (event.ctrlKey || event.metaKey)) fillAll();
  });
  addEventListener("hashchange", () => {
    mark();
    if (marked?.id === named()) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
  });
  const coming = new MutationObserver(() => {
    mark();
    fillPage();
    if (filled) coming.disconnect();
  });
  coming.observe(main, { childList: true, subtree: true });
  addEventListener("DOMContentLoaded", () => {
    coming.disconnect();
    reading = false;
    mark();
    fillPage();
  });
  mark();
  return { reveal, fill };
})();
