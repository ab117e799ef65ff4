// Tables with the class "sortable": a click on a column's name sorts by it, by the number
// or text in a cell's data-key where it has one, but for columns with data-unsorted. A row of the
// class "under" belongs to the one before it.
const rowsOf = (body) => [...body.rows].filter((row) => !row.classList.contains("under"));
const under = (row) => row.nextElementSibling?.classList.contains("under") ? row.nextElementSibling : null;
// A column without a figure is hidden. Where rows are cards, each cell has the name of its column.
for (const table of document.querySelectorAll(".table > table")) {
  if (!table.tHead || table.closest(".checks, .markdown")) continue;
  const heads = [...table.tHead.rows[0].cells], rows = rowsOf(table.tBodies[0]).filter((row) => row.cells.length === heads.length);
  table.classList.add("cards");
  heads.forEach((head, i) => {
    const cells = rows.map((row) => row.cells[i]);
    head.hidden = cells.length > 0 && cells.every((cell) => cell.textContent.trim() === "n/a");
    cells.forEach((cell) => {
      cell.hidden = head.hidden;
      cell.classList.toggle("none", /^(n\/a)?$/.test(cell.textContent.trim()) && !cell.querySelector("svg, input"));
      cell.dataset.label = head.textContent.trim();
    });
  });
}
(() => {
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.key ?? cell.textContent.trim();
  };
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    return a !== "" && b !== "" && !isNaN(x) && !isNaN(y) ? x - y : order(a, b);
  };
  const sort = (table, header) => {
    const descending = header.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const body = table.tBodies[0], column = header.cellIndex;
    const rows = rowsOf(body).map((row) => [key(row, column), row, under(row) ?? ""]);
    rows.sort(([a], [b]) => descending ? compare(b, a) : compare(a, b));
    body.append(...rows.flatMap(([, ...both]) => both).filter(Boolean));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const header of table.tHead.rows[0].cells) {
      if (header.hasAttribute("data-unsorted")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, header));
    }
  }
})();

// Controls that name a table by data-filter: an input of words leaves the rows whose text,
// or data-says, has all of them, a radio button those whose data-is has its value. What is left is told
// in the element that data-told names.
(() => {
  const filters = new Map();
  const texts = new WeakMap();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, [row.textContent, row.dataset.says, under(row)?.textContent].join(" ").toLowerCase());
    return texts.get(row);
  };
  const apply = (id) => {
    const body = document.getElementById(id).tBodies[0];
    let words = [], is = "", told;
    for (const control of filters.get(id)) {
      told ??= document.getElementById(control.dataset.told ?? "");
      if (control.type !== "radio") words = words.concat(control.value.toLowerCase().split(/\s+/).filter(Boolean));
      else if (control.checked) is = control.value;
    }
    const rows = rowsOf(body);
    let left = 0;
    for (const row of rows) {
      row.hidden = !(is === "" || (row.dataset.is ?? "").includes(`|${is}|`)) || !words.every((word) => text(row).includes(word));
      if (under(row)) under(row).hidden = row.hidden;
      if (!row.hidden) left++;
    }
    if (told) told.textContent = words.length || is ? `${left} of ${rows.length}` : "";
  };
  for (const control of document.querySelectorAll("input[data-filter]")) {
    const id = control.dataset.filter;
    if (!filters.has(id)) filters.set(id, []);
    filters.get(id).push(control);
    control.addEventListener("input", () => apply(id));
  }
  for (const id of filters.keys()) apply(id);
})();
