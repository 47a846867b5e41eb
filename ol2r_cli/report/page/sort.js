// A click on a heading sorts its table: numbers by size, words by alphabet; a second click turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const turn = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", turn > 0 ? "ascending" : "descending");
    const text = row => row.cells[column].textContent;
    const number = row => parseFloat(text(row).replaceAll(",", ""));
    const order = (a, b) => {
      if (!head.classList.contains("number")) return turn * text(a).localeCompare(text(b), "en", { numeric: true });
      const [first, second] = [number(a), number(b)];
      return isNaN(first) || isNaN(second) ? isNaN(first) - isNaN(second) : turn * (first - second);
    };
    body.append(...[...body.rows].sort(order));
  }));
}
