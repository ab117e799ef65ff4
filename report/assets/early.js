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
(() => {
  const title = document.title, main = document.getElementById("main");
  let reading = true, marked;
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
    for (const link of document.querySelector(".top").querySelectorAll("nav a")) {
      if (link.dataset.page === page.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("hashchange", () => {
    mark();
    if (marked?.id === named()) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
  });
  const coming = new MutationObserver(() => {
    mark();
    if (marked) coming.disconnect();
  });
  coming.observe(main, { childList: true });
  addEventListener("DOMContentLoaded", () => {
    coming.disconnect();
    reading = false;
    mark();
  });
  mark();
})();
