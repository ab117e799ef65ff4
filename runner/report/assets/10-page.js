"use strict";
document.documentElement.classList.add("scripted");

// The page that is seen: marked among the links to all, its title the document's, and
// the focus on it once somebody has gone there.
(() => {
  const title = document.title;
  const seen = () => {
    const at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    return at?.closest(".page") ?? document.querySelector(".page");
  };
  const mark = () => {
    const page = seen();
    if (!page) return;
    document.querySelector(".page.seen")?.classList.remove("seen");
    page.classList.add("seen");
    document.body.classList.add("placed");
    document.title = page.dataset.title && page.dataset.title !== title ? page.dataset.title + " \u00b7 " + title : title;
    for (const link of document.querySelectorAll(".top nav a")) {
      if (link.dataset.page === page.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("hashchange", () => {
    mark();
    if (seen()?.id === decodeURIComponent(location.hash.slice(1))) {
      scrollTo(0, 0);
      document.getElementById("main").focus({ preventScroll: true });
    }
  });
  mark();
})();
