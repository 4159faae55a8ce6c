// Numbers out of text: base64 of deflated bytes, as packed.py makes it.

const TYPES = { Uint8Array, Uint32Array, Float32Array, Float64Array };

/** The bytes of base64 text. */
export function bytesOf(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** The bytes that were deflated into base64 text. */
export async function inflated(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A typed array; null stays null. */
export async function unpacked(packed) {
  if (packed === null) return null;
  const bytes = await inflated(packed.data);
  return new TYPES[packed.type](bytes.buffer);
}
