// Light or dark: the system's, until it is switched.

import { byId } from './words.js';

const KEPT = 'clockseg-theme';

/** Make the switch work; `changed()` is called when colours are to be read again. */
export function setUpTheme(changed) {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const button = byId('theme-button');
  const dark = () => (document.documentElement.dataset.theme || (system.matches ? 'dark' : 'light')) === 'dark';
  const tell = () => {
    button.textContent = dark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', `Switch to the ${dark() ? 'light' : 'dark'} theme`);
    changed();
  };
  const kept = remembered();
  if (kept) document.documentElement.dataset.theme = kept;
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = dark() ? 'light' : 'dark';
    remember(document.documentElement.dataset.theme);
    tell();
  });
  system.addEventListener('change', tell);
  tell();
}

// Pages from disk may have no storage.
function remembered() {
  try {
    const kept = localStorage.getItem(KEPT);
    return kept === 'dark' || kept === 'light' ? kept : null;
  } catch {
    return null;
  }
}

function remember(theme) {
  try {
    localStorage.setItem(KEPT, theme);
  } catch {
    // Then it is switched again next time.
  }
}
