// Joins a line of a kernel's generated file with its instructions: hover or choose either, or use the arrow keys.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

function rows(listed) {
  // a <pre> of lines; each knows the lines of the generated file that it comes from
  const pre = document.createElement("pre");
  pre.tabIndex = 0;
  listed.text.split("\n").forEach((text, k) => {
    const row = document.createElement("span");
    row.className = "row";
    row.dataset.n = k + 1;
    row.textContent = text || " ";
    row.lines = listed.table ? listed.table[listed.lines[k]] : [k + 1];
    pre.append(row);
  });
  return pre;
}

function show(pre, row) {
  // scrolls a pane, and nothing else, so that a row can be seen
  const top = row.offsetTop - pre.clientHeight / 3;
  if (row.offsetTop < pre.scrollTop || row.offsetTop > pre.scrollTop + pre.clientHeight - 20) pre.scrollTop = top;
}

function mark(panes, lines, from, scrolls) {
  for (const pane of panes) {
    let first = null;
    for (const row of pane.children) {
      const on = pane === panes[0] ? lines.includes(row.lines[0]) : row.lines.includes(lines[0]);
      row.classList.toggle("on", on);
      if (on && first === null) first = row;
    }
    if (scrolls && pane !== from && first !== null) show(pane, first);
  }
}

function connect(panes) {
  let fixed = null;
  const chosen = (row) => row && row.lines && row.lines.length && row.lines;
  for (const pane of panes) {
    pane.addEventListener("mouseover", (event) => {
      const lines = chosen(event.target.closest(".row"));
      if (lines && fixed === null) mark(panes, lines, pane, true);
    });
    pane.addEventListener("click", (event) => {
      const row = event.target.closest(".row"), lines = chosen(row);
      fixed = !lines || fixed === row ? null : row;
      if (lines) mark(panes, lines, pane, true);
    });
    pane.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const all = [...pane.children];
      let k = fixed && fixed.parentNode === pane ? all.indexOf(fixed) : step > 0 ? -1 : all.length;
      do k += step; while (all[k] && !chosen(all[k]));
      if (!all[k]) return;
      fixed = all[k];
      mark(panes, fixed.lines, pane, true);
      show(pane, fixed);
    });
  }
}

function fill(details) {
  const listing = data.listings[details.dataset.listing], box = details.querySelector(".panes");
  const parts = [["generated file", { text: listing.source }], ["PTX", listing.ptx], ["SASS", listing.sass]];
  box.replaceChildren();
  const panes = parts.filter(([, listed]) => listed && listed.text).map(([name, listed]) => {
    const pane = document.createElement("div"), head = document.createElement("h4"), pre = rows(listed);
    pane.className = "pane";
    head.textContent = name;
    pre.setAttribute("aria-label", `${name} of ${listing.name}`);
    pane.append(head, pre);
    box.append(pane);
    return pre;
  });
  if (panes.length > 1) connect(panes);
}

for (const details of document.querySelectorAll("details[data-listing]")) {
  const once = () => { if (details.open && !details.filled) { details.filled = true; fill(details); } };
  details.addEventListener("toggle", once);
  once();
}
