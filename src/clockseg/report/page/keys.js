// The keyboard: what each key does, and the list of them.

import { byId, element } from './words.js';

/** Listen for keys; `keys`: [names of keys, words for them, what it does, what happens]. */
export function setUpKeys(keys) {
  const dialog = byId('keys');
  const rows = keys.map(([, shown, what]) =>
    element('div', {}, element('dt', {}, ...shown.map((key) => element('kbd', {}, key))), element('dd', {}, what)),
  );
  const close = element('button', { type: 'button' }, 'Close');
  close.addEventListener('click', () => dialog.close());
  dialog.append(element('h2', { id: 'keys-title' }, 'Keys'), element('dl', {}, ...rows), close);
  byId('keys-button').addEventListener('click', () => dialog.showModal());
  document.addEventListener('keydown', (event) => pressed(event, keys, dialog));
}

function pressed(event, keys, dialog) {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open || owns(event.target, event.key)) return;
  const name =
    event.shiftKey && event.key.startsWith('Arrow')
      ? `Shift+${event.key}`
      : event.key.length === 1
        ? event.key.toLowerCase()
        : event.key;
  const found = keys.find(([names]) => names.includes(name));
  if (!found) return;
  event.preventDefault();
  found[3]();
}

/** Whether a control needs the key itself. */
function owns(target, key) {
  if (!(target instanceof Element)) return false;
  if (target.matches('select, input[type=range], input[type=radio]'))
    return key.startsWith('Arrow') || ['Home', 'End', ' '].includes(key);
  return target.matches('button, a, input[type=checkbox]') && [' ', 'Enter'].includes(key);
}
