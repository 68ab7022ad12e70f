/** Encode proposals and permission requests, with an id and a digest. */

import { randomBytes } from "node:crypto";

import { digestOf } from "./digest.js";
import { encode } from "./encoding.js";
import { Malformed } from "./errors.js";
import { decided, FIELDS } from "./messages.js";
import type { Decision, PermissionAsk, Proposal } from "./messages.js";

const MAX_LINE = 1024;
const MAX_TEXT_BYTES = 8 * 1024;
const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TOKEN = /^[A-Za-z0-9_-]{1,64}$/;

const TO_MODELS: Readonly<Record<string, string>> = {
  unavailable: "safetyd did not answer, so this is not allowed. Do not act. If the reason names a "
    + "problem that a human must fix, report it and stop. Otherwise try again later.",
  disabled: "Autonomous work is switched off. Do not act and do not try another way.",
  malformed: "The proposal is malformed. Do not act. Fix the named field and propose again.",
  stopped: "Everything is stopped. Do not act and do not try another way.",
};

/** A message that is ready to be sent. */
export interface Draft {
  readonly agent: string;
  readonly id: string;
  readonly digest: string;
  readonly payload: string;
  readonly wait: boolean;
  readonly timeoutS: number | undefined;
  /** Why the daemon would reject it as malformed. */
  readonly flaw: string;
}

/** Return whether `name` is a valid agent or id. */
export function isToken(name: unknown): name is string {
  return typeof name === "string" && TOKEN.test(name);
}

/** Return a ULID: an id that sorts by creation time. */
export function newId(): string {
  let rest = (BigInt(Date.now()) << 80n) | BigInt(`0x${randomBytes(10).toString("hex")}`);
  let id = "";
  for (let place = 0; place < 26; place += 1) {
    id = CROCKFORD.charAt(Number(rest & 31n)) + id;
    rest >>= 5n;
  }
  return id;
}

/** Throw `TypeError` if a message has a field that the protocol does not have. */
export function checkNames(kind: keyof typeof FIELDS, fields: object): void {
  if (typeof fields !== "object" || fields === null) {
    throw new TypeError(`a ${kind} must be an object`);
  }
  const unknown = Object.keys(fields).filter((name) => !FIELDS[kind].includes(name));
  if (unknown.length > 0) {
    throw new TypeError(`a ${kind} has no field ${unknown.join(", ")}`);
  }
}

/** Return a draft of a proposal. If a value is malformed, it has a `flaw`. */
export function draft(agent: string, proposal: Proposal): Draft {
  checkNames("proposal", proposal);
  if (typeof proposal.type !== "string") {
    throw new TypeError("a proposal needs a type");
  }
  const id = isToken(proposal.id) ? proposal.id : newId();
  const unsent: Draft = {
    agent,
    id,
    digest: "",
    payload: "",
    wait: proposal.wait === true,
    timeoutS: proposal.timeout_s ?? undefined,
    flaw: "",
  };
  try {
    const payload = encode({ ...inFolder(proposal), id: proposal.id ?? id });
    if (Buffer.byteLength(proposal.text ?? "") > MAX_TEXT_BYTES) {
      return { ...unsent, flaw: `text has more than ${MAX_TEXT_BYTES} bytes` };
    }
    return { ...unsent, payload, digest: digestOf(agent, payload) };
  } catch (error) {
    return { ...unsent, flaw: flawIn(error) };
  }
}

/** Add the working directory, unless `cwd` is given or no path is relative. */
function inFolder<Fields extends object>(fields: Fields): Fields {
  const { cwd, paths } = fields as { cwd?: unknown; paths?: unknown };
  const isRelative = (path: unknown): boolean => typeof path === "string" && !/^[/~$]/.test(path);
  if (cwd || !Array.isArray(paths) || !paths.some(isRelative)) {
    return fields;
  }
  const here = workingDirectory();
  return here === "" ? fields : { ...fields, cwd: here };
}

/** Return this process's folder. Empty if it was deleted, or has a name that cannot be sent. */
function workingDirectory(): string {
  try {
    const here = process.cwd();
    return here.length <= MAX_LINE ? here : "";
  } catch {
    return "";
  }
}

/** Return a draft of a permission request, with the id and digest of the matching proposal. */
export function draftAsk(agent: string, ask: PermissionAsk): Draft {
  checkNames("permission request", ask);
  const { action, timeout_minutes: minutes, context: given, ...rest } = ask;
  const context = given && inFolder(given);
  const shown = context?.["text"];
  const matching = draft(agent, {
    ...rest,
    type: action,
    description: ask.description ?? "",
    rationale: ask.rationale ?? "",
    ...(context ? { context } : {}),
    ...(minutes === undefined ? {} : { timeout_s: minutes * 60 }),
    ...(typeof shown === "string" ? { text: shown } : {}),
  });
  if (matching.flaw) {
    return matching;
  }
  try {
    return { ...matching, payload: encode({ ...ask, ...(context ? { context } : {}), id: matching.id }) };
  } catch (error) {
    return { ...matching, flaw: flawIn(error) };
  }
}

/** Return a block made by the client, without an answer from the daemon. */
export function refused(said: Draft, cause: string, reason: string): Decision {
  return decided({
    id: said.id,
    agent: said.agent,
    decision: "block",
    status: "final",
    cause,
    reason,
    triggered_rules: [`client.${cause}`],
    confidence: 1,
    verdicts: [],
    tier: null,
    risk: null,
    reversibility: null,
    request_id: null,
    retry_after_s: null,
    limit_id: null,
    agent_message: TO_MODELS[cause] ?? "",
    digest: said.digest,
    claim_required: false,
    reachable_from: null,
    expires_at: null,
    mode: "",
    policy: "",
    seq: null,
    at: null,
    retry: false,
  });
}

/** Return an allow turned into a block, because the client found a reason not to act. */
export function withdrawn(allow: Decision, cause: string, reason: string, rule: string): Decision {
  return decided({
    ...allow,
    decision: "block",
    cause,
    reason,
    triggered_rules: [rule],
    agent_message: "This was allowed, but must not begin now. Do not act.",
  });
}

function flawIn(error: unknown): string {
  if (error instanceof Malformed) {
    return error.message;
  }
  throw error;
}
