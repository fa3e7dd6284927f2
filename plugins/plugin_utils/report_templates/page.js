"use strict";
(function () {
  document.documentElement.classList.add("script");

  // One tip for all cells, tiles, bars and dots: on hover and on focus. The words move from the title, which only a pointer
  // can read, to the label that a screen reader speaks.
  const tip = document.getElementById("tip");
  let shown = null;
  function show(element) {
    shown = element;
    tip.textContent = element.getAttribute("aria-label");
    tip.hidden = false;
    const box = element.getBoundingClientRect();
    const page = document.documentElement;
    const left = Math.min(box.left + box.width / 2, page.clientWidth - tip.offsetWidth - 8);
    const above = box.top > tip.offsetHeight + 10;
    tip.style.left = Math.max(4, left) + window.scrollX + "px";
    tip.style.top = (above ? box.top - tip.offsetHeight - 6 : box.bottom + 6) + window.scrollY + "px";
  }
  function hide() {
    shown = null;
    tip.hidden = true;
  }

  for (const element of document.querySelectorAll("[data-tips] [title]")) {
    element.setAttribute("aria-label", element.title);
    element.removeAttribute("title");
  }
  for (const title of document.querySelectorAll("svg.chart title")) {
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  document.addEventListener("mouseover", function (event) {
    const element = event.target.closest("[data-tips] [aria-label]");
    if (element) { show(element); } else { hide(); }
  });
  document.addEventListener("focusin", function (event) {
    const element = event.target.closest("[data-tips] [aria-label]");
    if (element) { show(element); } else { hide(); }
  });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { hide(); } });
  // what has the focus keeps its tip when it is scrolled into view
  document.addEventListener("scroll", function () {
    if (shown && shown === document.activeElement) { show(shown); } else { hide(); }
  }, { passive: true, capture: true });

  // Maps and walls: one stop for Tab, arrows inside.
  function cellsOf(table) {
    return Array.from(table.tBodies[0].rows, function (row) {
      return Array.from(row.cells).filter(function (cell) { return cell.tagName === "TD"; });
    });
  }
  function go(from, to) {
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
  for (const table of document.querySelectorAll("table.map")) {
    const grid = cellsOf(table);
    const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    table.addEventListener("keydown", function (event) {
      const cell = event.target.closest("td");
      if (!cell) { return; }
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        follow(cell);
        return;
      }
      const row = grid.findIndex(function (cells) { return cells.includes(cell); });
      let y = row, x = grid[row].indexOf(cell);
      let move = steps[event.key];
      if (event.key === "Home") { x = -1; move = [0, 1]; }
      if (event.key === "End") { x = grid[row].length; move = [0, -1]; }
      if (!move) { return; }
      event.preventDefault();
      // empty cells are stepped over
      do { y += move[0]; x += move[1]; } while (grid[y] && grid[y][x] && !grid[y][x].hasAttribute("tabindex"));
      if (grid[y] && grid[y][x]) { go(cell, grid[y][x]); }
    });
    table.addEventListener("click", function (event) {
      const cell = event.target.closest("td[tabindex]");
      if (cell) { follow(cell); }
    });
  }
  for (const wall of document.querySelectorAll(".wall")) {
    wall.addEventListener("keydown", function (event) {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const tile = event.target.closest("li");
      if (!step || !tile) { return; }
      event.preventDefault();
      const next = step > 0 ? tile.nextElementSibling : tile.previousElementSibling;
      if (next) { go(tile, next); }
    });
  }
  function follow(cell) {
    const row = document.getElementById(cell.dataset.to || "");
    if (!row) { return; }
    for (let box = row.closest("details"); box; box = box.parentElement.closest("details")) { box.open = true; }
    location.hash = row.id;
  }

  // A link's curve, chosen from the list.
  const data = JSON.parse(document.getElementById("curves").textContent);
  for (const select of document.querySelectorAll("select[data-curves]")) {
    const chart = data[select.dataset.curves];
    chart.links.forEach(function (link, index) {
      select.add(new Option(link.label + " (" + link.verdict + ")", String(index)));
    });
    const path = document.getElementById(select.getAttribute("aria-controls"));
    select.addEventListener("change", function () {
      const link = chart.links[Number(select.value)];
      let d = "", pen = "M";
      (select.value === "" ? [] : link.ys).forEach(function (y, index) {
        if (y === null) { pen = "M"; return; }
        d += pen + chart.xs[index] + "," + y;
        pen = "L";
      });
      path.setAttribute("d", d);
    });
  }

  // Find in a table of links.
  for (const input of document.querySelectorAll("input[data-filter]")) {
    const rows = Array.from(document.querySelectorAll("#" + input.dataset.filter + " tbody tr"));
    input.addEventListener("input", function () {
      const words = input.value.toLowerCase().split(/\s+/);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(function (word) { return text.includes(word); });
      }
    });
  }

  // A finding leads to raw outputs that are folded.
  function unfold() {
    const target = document.getElementById(location.hash.slice(1));
    for (let box = target && target.closest("details"); box; box = box.parentElement.closest("details")) { box.open = true; }
    if (target) { target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", unfold);
  if (location.hash) { unfold(); }
})();
