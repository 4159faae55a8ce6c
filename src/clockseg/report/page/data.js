// The facts of the page, its columns unpacked.

import { unpacked } from './packed.js';

/** What the page is about: as write.py puts it together, with typed arrays in place of text. */
export async function readFacts() {
  const facts = JSON.parse(document.getElementById('facts').textContent);
  facts.numbers = await unpacked(facts.numbers);
  facts.seconds = await unpacked(facts.seconds);
  facts.picture.seconds = await unpacked(facts.picture.seconds);
  await Promise.all(facts.runs.map(readRun));
  return facts;
}

async function readRun(run) {
  run.means = await unpacked(run.means);
  for (const share of run.shares) share.share = await unpacked(share.share);
  if (run.difference) {
    run.difference.agreement = await unpacked(run.difference.agreement);
    run.difference.places = await unpacked(run.difference.places);
  }
  if (run.trace) await readTrace(run.trace);
}

async function readTrace(trace) {
  for (const name of ['fired', 'fill', 'there', 'carried']) trace[name] = await unpacked(trace[name]);
  trace.signal = await Promise.all(trace.signal.map(unpacked));
  trace.seconds = await Promise.all(trace.seconds.map(unpacked));
}

/** Whether a stage fired on a frame. */
export function fires(run, stage, frame) {
  return run.trace !== null && ((run.trace.fired[frame] >> stage) & 1) === 1;
}

/** Whether any stage did. */
export function anyFires(run, frame) {
  return run.trace !== null && run.trace.fired[frame] !== 0;
}
