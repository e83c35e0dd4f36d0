"use strict";
// Views as a page knows them: sums of differences, row by row, the signed count at the end of each. Forwards they are
// added, backwards subtracted. Shared by the pages of all stories, which call `begin` first.
const data = JSON.parse(document.getElementById("data").textContent);
const view = {};
let steps = [], at = -1;

function begin(names, positions) {
  steps = positions;
  for (const name of names) view[name] = new Map();
}

function apply(step, sign) {
  for (const name in view) for (const difference of step[name]) {
    const row = difference.slice(0, -1), key = JSON.stringify(row);
    const count = ((view[name].get(key) || {count: 0}).count) + sign * difference.at(-1);
    if (count) view[name].set(key, {row, count}); else view[name].delete(key);
  }
}

function go(target) {
  while (at < target) apply(steps[++at], 1);
  while (at > target) apply(steps[at--], -1);
}

const rows = name => [...view[name].values()].map(entry => entry.row);
