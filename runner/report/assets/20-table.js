// Tables with the class "sortable": a click on a column's name sorts by it, by the number
// or text in a cell's data-key where it has one. A toolbar's input that names the table by
// data-filter leaves the rows whose text has all of its words.
(() => {
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.key ?? cell.textContent.trim();
  };
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    return a !== "" && b !== "" && !isNaN(x) && !isNaN(y) ? x - y : a.localeCompare(b, "en", { numeric: true });
  };
  const sort = (table, header) => {
    const descending = header.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const body = table.tBodies[0], column = header.cellIndex;
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => descending ? compare(b, a) : compare(a, b));
    body.append(...rows.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const header of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, header));
    }
  }
  for (const input of document.querySelectorAll("input[data-filter]")) {
    const table = document.getElementById(input.dataset.filter);
    const told = document.getElementById(input.dataset.told ?? "");
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        if (!row.hidden) left++;
      }
      if (told) told.textContent = words.length ? `${left} of ${table.tBodies[0].rows.length}` : "";
    };
    input.addEventListener("input", filter);
    if (input.value) filter();
  }
})();
