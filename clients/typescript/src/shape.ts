/** Readers that check messages of the daemon. A message with a wrong type counts as no message. */

export type Reader<T> = (value: unknown) => T;

class Unreadable extends Error {}

/** Return the message, or undefined if it is not JSON of this shape. */
export function read<T>(data: Uint8Array, reader: Reader<T>): T | undefined {
  try {
    return reader(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(data)));
  } catch {
    return undefined;
  }
}

function checked<T>(is: (value: unknown) => value is T): Reader<T> {
  return (value) => {
    if (!is(value)) {
      throw new Unreadable();
    }
    return value;
  };
}

export const text = checked((value) => typeof value === "string");
export const flag = checked((value) => typeof value === "boolean");
export const number = checked((value) => typeof value === "number");
/** A time in RFC 3339. */
export const time = checked((value): value is string =>
  typeof value === "string" && !Number.isNaN(Date.parse(value)));

export function oneOf<T extends string>(...known: readonly T[]): Reader<T> {
  return checked((value): value is T => (known as readonly unknown[]).includes(value));
}

/** A field that may be missing or null. */
export function optional<T>(reader: Reader<T>): Reader<T | null> {
  return (value) => (value === undefined || value === null ? null : reader(value));
}

/** A field with a default. */
export function or<T>(reader: Reader<T>, fallback: T): Reader<T> {
  return (value) => (value === undefined ? fallback : reader(value));
}

export function listOf<T>(reader: Reader<T>): Reader<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) {
      throw new Unreadable();
    }
    return Object.freeze(value.map(reader));
  };
}

/** An object with these fields. Other fields are ignored. */
export function objectOf<T>(shape: { readonly [K in keyof T]: Reader<T[K]> }): Reader<T> {
  const names = Object.keys(shape) as (keyof T & string)[];
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new Unreadable();
    }
    const said = value as Record<string, unknown>;
    const own = (name: string): unknown => (Object.hasOwn(said, name) ? said[name] : undefined);
    const entries = names.map((name) => [name, shape[name](own(name))]);
    return Object.freeze(Object.fromEntries(entries)) as T;
  };
}
