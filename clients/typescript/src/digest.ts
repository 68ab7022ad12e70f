/**
 * The digest of a proposal: a hash of its canonical JSON.
 *
 * docs/protocol.md describes the canonical form; docs/digest_vectors.json has examples.
 */

import { createHash } from "node:crypto";

const UNDIGESTED = new Set(
  ["id", "at", "wait", "timeout_s", "urgency", "request_id", "dry_run", "supersedes"],
);
const PARTS = new Set(["target", "observation", "scores", "tokens"]);

const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
/** The key of an object that stands for a number. No message can contain NUL. */
const NUMBER = "\0";

type Json = string | boolean | null | Json[] | { [key: string]: Json };

/** Return the digest of a proposal of `agent`; `message` is its JSON exactly as it is sent. */
export function digestOf(agent: string, message: string): string {
  const text = canonicalProposal(agent, message);
  return "sha256:" + createHash("sha256").update(text, "utf8").digest("hex");
}

/** Return the text that is hashed. */
export function canonicalProposal(agent: string, message: string): string {
  const said = new Map<string, Json>();
  for (const [name, value] of Object.entries(parse(message))) {
    if (value !== null && !UNDIGESTED.has(name)) {
      said.set(name, PARTS.has(name) ? withoutNulls(value) : value);
    }
  }
  said.set("agent", agent);
  return object([...said]);
}

/** Parse JSON, and leave every number as it is written: 1e16 and 10000000000000000 differ. */
function parse(message: string): { [key: string]: Json } {
  const marked = message.replace(STRING_OR_NUMBER, (token) =>
    token.startsWith('"') ? token : `{"\\u0000":"${token}"}`);
  return JSON.parse(marked) as { [key: string]: Json };
}

function withoutNulls(part: Json): Json {
  if (!isObject(part)) {
    return part;
  }
  return Object.fromEntries(Object.entries(part).filter(([, value]) => value !== null));
}

function canonical(value: Json): string {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(",")}]`;
  }
  if (!isObject(value)) {
    return JSON.stringify(value);
  }
  const literal = value[NUMBER];
  return typeof literal === "string" ? canonicalNumber(literal) : object(Object.entries(value));
}

function object(entries: [string, Json][]): string {
  const sorted = entries
    .map(([key, value]): [Buffer, string] => [Buffer.from(key), member(key, value)])
    .sort(([a], [b]) => Buffer.compare(a, b)); // sort() alone compares UTF-16, not characters
  return `{${sorted.map(([, text]) => text).join(",")}}`;
}

function member(key: string, value: Json): string {
  return `${JSON.stringify(key)}:${canonical(value)}`;
}

/** Return the canonical form of a JSON number. */
export function canonicalNumber(literal: string): string {
  if (!/[.eE]/.test(literal)) {
    return literal === "-0" ? "0" : literal;
  }
  const number = Number(literal);
  if (Number.isSafeInteger(number)) {
    return String(Object.is(number, -0) ? 0 : number);
  }
  const size = Math.abs(number);
  if (size >= 1e-5 && size < 1e16) {
    return plain(number);
  }
  return number.toExponential().replace("e+", "e");
}

/** Return a number without an exponent, and with a point. */
function plain(number: number): string {
  const text = String(number); // JavaScript itself uses exponents only below 1e-6
  return text.includes(".") ? text : `${text}.0`;
}

function isObject(value: Json): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
