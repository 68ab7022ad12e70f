import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { canonicalProposal, digestOf } from "../src/digest.js";
import { draft, newId } from "../src/draft.js";
import { encode } from "../src/encoding.js";
import { Malformed } from "../src/errors.js";
import { DECISION_FIELDS, FIELDS } from "../src/messages.js";
import { DOCS } from "./rig.js";

interface Vector {
  name: string;
  agent: string;
  message: string;
  canonical: string;
  digest: string;
}

const VECTORS = JSON.parse(readFileSync(new URL("digest_vectors.json", DOCS), "utf8")) as Vector[];

for (const { name, agent, message, canonical, digest } of VECTORS) {
  test(`the digest of a vector: ${name}`, () => {
    assert.equal(canonicalProposal(agent, message), canonical);
    assert.equal(digestOf(agent, message), digest);
  });
}

function propertiesOf(schema: string): Set<string> {
  const text = readFileSync(new URL(`schemas/${schema}.json`, DOCS), "utf8");
  return new Set(Object.keys((JSON.parse(text) as { properties: object }).properties));
}

test("the typed fields are the fields of the protocol", () => {
  const without = (schema: string, ...names: string[]): Set<string> =>
    new Set([...propertiesOf(schema)].filter((name) => !names.includes(name)));
  assert.deepEqual(new Set(FIELDS.proposal), without("proposal", "agent"));
  assert.deepEqual(new Set(FIELDS.outcome), without("telemetry_outcome", "type", "id"));
  const queries = ["request_id", "open", "rollbacks", "withdraw"];
  assert.deepEqual(new Set(FIELDS["permission request"]), without("permission_ask", ...queries));
  assert.deepEqual(new Set(DECISION_FIELDS), propertiesOf("decision"));
});

test("ids are tokens that sort by time", async () => {
  const first = newId();
  await new Promise((resolve) => setTimeout(resolve, 2));
  const second = newId();
  assert.match(first, /^[0-9A-Z]{26}$/);
  assert.ok(first < second);
});

const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
const cycle: { self?: object } = {};
cycle.self = cycle;

for (const [why, value] of Object.entries({
  "NaN": NaN, "infinity": -Infinity, "NUL": "a\0", "half a surrogate pair": "\ud800",
  "a key with NUL": { "\0": 1 }, "33 levels": deep(31), "5,000 levels": deep(5000),
  "64 KiB": "x".repeat(65_536),
})) {
  test(`a value that the daemon would reject is malformed: ${why}`, () => {
    assert.throws(() => encode({ type: "note", context: { value } }), Malformed);
    assert.notEqual(draft("code", { type: "note", context: { value } }).flaw, "");
  });
}

for (const [why, value] of Object.entries({
  "a map": new Map([["a", 1]]), "bytes": new Uint8Array(2), "a function": () => 1,
  "a bigint": 1n, "a cycle": cycle,
})) {
  test(`a value that JSON cannot represent throws: ${why}`, () => {
    assert.throws(() => draft("code", { type: "note", context: { value } }), TypeError);
  });
}

test("an unknown field or a missing type throws", () => {
  assert.throws(() => draft("code", { type: "run_shell", command: "ls" } as never), /command/);
  assert.throws(() => draft("code", { text: "ls" } as never), TypeError);
});
