/** Encode messages, and reject values that the daemon would reject. */

import { Malformed } from "./errors.js";

const MAX_MESSAGE_BYTES = 64 * 1024;
const MAX_DEPTH = 32;

/**
 * Return `fields` as JSON.
 *
 * Throws `TypeError` for a type that JSON cannot represent, and `Malformed` for a message that is
 * too large or nested too deeply, or that contains NUL, NaN, infinity or a lone surrogate.
 */
export function encode(fields: object): string {
  const message = stringified(fields);
  const size = Buffer.byteLength(message);
  if (size > MAX_MESSAGE_BYTES) {
    throw new Malformed(`the message has ${size} bytes; the limit is ${MAX_MESSAGE_BYTES}`);
  }
  if (depthOf(JSON.parse(message)) > MAX_DEPTH) {
    throw new Malformed(`nested deeper than ${MAX_DEPTH} levels`);
  }
  return message;
}

function stringified(fields: object): string {
  try {
    return JSON.stringify(fields, checked);
  } catch (error) {
    if (error instanceof RangeError) { // the stack is full
      throw new Malformed(`nested deeper than ${MAX_DEPTH} levels`);
    }
    throw error;
  }
}

function checked(key: string, value: unknown): unknown {
  checkText(key);
  switch (typeof value) {
    case "string":
      checkText(value);
      break;
    case "number":
      if (!Number.isFinite(value)) {
        throw new Malformed(`${key} is ${value}, which is not a finite number`);
      }
      break;
    case "object":
      if (value !== null && !isPlain(value)) {
        throw new TypeError(`${key} is a ${value.constructor.name}, which JSON cannot represent`);
      }
      break;
    case "function":
    case "symbol":
    case "bigint":
      throw new TypeError(`${key} is a ${typeof value}, which JSON cannot represent`);
  }
  return value;
}

function checkText(value: string): void {
  if (value.includes("\0")) {
    throw new Malformed("a text contains the character NUL, which is not allowed");
  }
  if (!value.isWellFormed()) {
    throw new Malformed("a text contains half of a surrogate pair, which is not a character");
  }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === null
    || Object.getPrototypeOf(prototype as object) === null;
}

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) {
    return 0;
  }
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}
