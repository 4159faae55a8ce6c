// What it cost and what was run: a column a run.

import { byId, element } from './words.js';

export function tables(facts) {
  byId('costs').append(table(facts, facts.costs, 'What it cost'));
  byId('conditions').append(table(facts, facts.conditions, 'What was run'));
  if (!facts.notes.length) return;
  byId('notes').hidden = false;
  byId('notes').append(element('ul', {}, ...facts.notes.map((note) => element('li', {}, note))));
}

function table(facts, rows, label) {
  const several = facts.runs.length > 1;
  const names = ['', ...facts.runs.map((run) => run.name)];
  const head = several
    ? [element('thead', {}, element('tr', {}, ...names.map((name) => element('th', { scope: 'col' }, name))))]
    : [];
  const body = rows.map(({ name, cells, note }) => {
    const title = element('th', { scope: 'row' }, name);
    if (note) title.append(element('span', { className: 'row-note' }, note));
    return element('tr', {}, title, ...merged(cells).map(([text, span]) => element('td', { colSpan: span }, text)));
  });
  const made = element('table', { className: several ? 'several' : 'single' }, ...head, element('tbody', {}, ...body));
  return element('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': label }, made);
}

/** What all runs share is written once. */
function merged(cells) {
  const long = cells[0].length > 24;
  return long && cells.every((cell) => cell === cells[0]) ? [[cells[0], cells.length]] : cells.map((cell) => [cell, 1]);
}
