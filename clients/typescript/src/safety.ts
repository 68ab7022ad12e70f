/** The client of an agent. */

import { AgentConnection } from "./connection.js";
import { disabled, find } from "./discovery.js";
import type { Place } from "./discovery.js";
import { checkNames, draft, draftAsk, isToken, newId, refused, withdrawn } from "./draft.js";
import type { Draft } from "./draft.js";
import { encode } from "./encoding.js";
import { Blocked, Down, Malformed, reasonOf } from "./errors.js";
import { answerOnce, answerTo, lastsMs, PermissionExchange, ProposalExchange } from "./exchange.js";
import { claimed, noted, ownRequests, permitted } from "./messages.js";
import type {
  Claim, Decision, Outcome, OwnRequest, PermissionAsk, PermissionResult, Proposal, Telemetry,
} from "./messages.js";
import { OutcomeQueue } from "./outcomes.js";
import { read } from "./shape.js";
import type { Reader } from "./shape.js";
import { now, sleep } from "./signal.js";
import { StopState } from "./stops.js";

const DEADLINE_S = 2;
const OPERATOR_S = 3600;
const MAX_ERROR_CHARS = 8192;
const CLOSED = "this client is closed";

export interface Options extends Place {
  /** The prefix of the bus subjects. Default: `safety.v1`. */
  prefix?: string;
  /** How many seconds to wait for the daemon's answer. Default: 2. */
  deadlineS?: number;
}

/** Options of one call. */
export interface CallOptions {
  /** How many seconds to wait for the daemon's answer, instead of the client's `deadlineS`. */
  deadlineS?: number;
}

export interface ClaimOptions extends CallOptions {
  /** Your name. You can repeat a claim under it. */
  claimant?: string;
}

/**
 * Connect an agent to safetyd.
 *
 * If the daemon does not answer now, the client keeps trying in the background, and until then
 * every proposal is blocked with cause `unavailable`. Call `close` when you are done.
 */
export async function connect(agent: string, options: Options = {}): Promise<Safety> {
  const safety = new Safety(agent, options);
  await safety.ready();
  return safety;
}

/** Proposes actions, and reports their outcomes. Create it with `connect`. */
export class Safety {
  readonly #agent: string;
  readonly #deadlineS: number;
  readonly #stops: StopState;
  readonly #link: AgentConnection;
  readonly #outcomes: OutcomeQueue;
  readonly #work: Promise<unknown>;
  #open = true;

  constructor(agent: string, options: Options = {}) {
    const { prefix = "safety.v1", deadlineS = DEADLINE_S, ...place } = options;
    if (!isToken(agent)) {
      throw new TypeError(`"${agent}" is not a valid agent name: use 1 to 64 of A-Z a-z 0-9 _ -`);
    }
    if (!prefix.split(".").every(isToken)) {
      throw new TypeError(`"${prefix}" is not a valid subject prefix: use one like safety.v1`);
    }
    const known = ["url", "keyFile", "dataDir"];
    const unknown = Object.keys(place).filter((name) => !known.includes(name));
    if (unknown.length > 0) {
      throw new TypeError(`connect has no option ${unknown.join(", ")}`);
    }
    this.#agent = agent;
    this.#deadlineS = deadlineS;
    this.#stops = new StopState(agent);
    this.#link = new AgentConnection(agent, prefix, () => find(agent, place), this.#stops);
    this.#outcomes = new OutcomeQueue(this.#link, deadlineS * 1000);
    this.#work = Promise.all([this.#link.run(), this.#outcomes.run()]);
  }

  /** True while an emergency stop applies to this agent. */
  get stopped(): boolean {
    return this.#stops.active;
  }

  /** Wait until the first attempt to connect has ended, successfully or not. */
  async ready(): Promise<void> {
    await this.#link.attempted(now() + this.#deadlineS * 1000);
  }

  /**
   * Ask whether an action is allowed. Act only if `decision.allowed` is true, and if
   * `decision.claim_required` is true, only after a granted `claim`.
   *
   * If the action needs approval, the decision has status `pending` and a `request_id`. Propose the
   * same action again later, or use `waitFor`. If the daemon does not answer, the decision is a
   * block with cause `unavailable`. Only wrong types and unknown fields throw, as `TypeError`.
   *
   * If a rate limit ends before the deadline, the client waits and proposes the action again. It
   * does not do so if you pass an `id`.
   */
  async propose(proposal: Proposal, options: CallOptions = {}): Promise<Decision> {
    let said = draft(this.#agent, proposal);
    const refusal = this.#refusal(said);
    if (refusal !== undefined) {
      return refused(said, ...refusal);
    }
    const ends = now() + this.#patienceMs(said, options);
    let decision = await this.#decision(said, ends);
    while (proposal.id === undefined && endsBefore(decision, ends)) {
      await sleep((decision.retry_after_s ?? 0) * 1000);
      said = draft(this.#agent, proposal);
      decision = await this.#decision(said, ends);
    }
    return decision;
  }

  /**
   * Propose an action and wait for the operator's answer, if it needs approval.
   *
   * It waits for `timeout_s`, or until the request expires. If nobody answers, the action is
   * blocked with cause `expired_no_response`.
   */
  waitFor(proposal: Proposal, options: CallOptions = {}): Promise<Decision> {
    return this.propose({ ...proposal, wait: true }, options);
  }

  /**
   * Propose an action, run `body` only if it is allowed, and report the outcome.
   *
   * Throws `Blocked` before `body` runs if the action is not allowed, still needs approval, cannot
   * be claimed, or if an emergency stop has begun. If `body` throws, that is reported as the
   * outcome, and the error is thrown again.
   */
  async guard<T>(
    proposal: Proposal,
    body: (decision: Decision) => T | PromiseLike<T>,
    options: CallOptions = {},
  ): Promise<T> {
    const decision = await this.#cleared(proposal, options);
    const began = now();
    const latency = (): number => Math.round((now() - began) * 1000) / 1000;
    let result: T;
    try {
      result = await body(decision);
    } catch (error) {
      await this.outcome(decision.id, { ok: false, error: errorOf(error), latency_ms: latency() });
      throw error;
    }
    await this.outcome(decision.id, { ok: true, latency_ms: latency() });
    return result;
  }

  /** Return true if an action would be allowed now without approval. It creates no request. */
  async isAutoAllowed(proposal: Proposal): Promise<boolean> {
    return (await this.propose({ ...proposal, dry_run: true, wait: false })).allowed;
  }

  /**
   * Claim an approved action before you begin it. Begin only if `granted` is true.
   *
   * Only one claimant is granted the action. Pass `claimant` to be able to repeat the claim later.
   */
  async claim(decision: Decision, options: ClaimOptions = {}): Promise<Claim> {
    const { id, digest } = decision;
    const message = { id, digest, claimant: options.claimant ?? newId() };
    const off = disabled();
    if (off !== undefined) {
      return { granted: false, cause: "disabled", reason: off };
    }
    try {
      return await this.#query("claim", message, readClaim, options);
    } catch (error) {
      return { granted: false, cause: "unavailable", reason: downReason(error) };
    }
  }

  /**
   * Ask an operator to approve an action, even if the guards would allow it.
   *
   * Without `wait`, the result is `queued`. After the approval, propose exactly this action with
   * the `request_id`. With `wait`, `approved` allows this caller to act once.
   */
  async requestPermission(
    ask: PermissionAsk, options: CallOptions = {},
  ): Promise<PermissionResult> {
    const said = draftAsk(this.#agent, ask);
    const refusal = this.#refusal(said);
    if (refusal !== undefined) {
      return { status: "denied", cause: refusal[0], reason: refusal[1] };
    }
    try {
      const exchange = new PermissionExchange(this.#link, said);
      return await exchange.answer(this.#patienceMs(said, options));
    } catch (error) {
      return { status: "denied", cause: "unavailable", reason: downReason(error) };
    }
  }

  /** Return the current state of one of this agent's requests. It uses up no approval. */
  async permission(requestId: string, options: CallOptions = {}): Promise<PermissionResult> {
    try {
      return await this.#query("permission", { request_id: requestId }, as(permitted), options);
    } catch (error) {
      return { status: "denied", cause: "unavailable", reason: downReason(error) };
    }
  }

  /** Return this agent's requests that are pending, or approved and unused. Throws if it cannot. */
  async pendingRequests(options: CallOptions = {}): Promise<readonly OwnRequest[]> {
    return (await this.#query("permission", { open: true }, as(ownRequests), options)).requests;
  }

  /**
   * Queue the outcome of an action, by `decision.id`, or null for an action without a proposal.
   *
   * The client sends it until the daemon acknowledges it. Returns false, with a warning, if the
   * client is closed, the queue is full, or a value is malformed.
   */
  async outcome(id: string | null, outcome: Outcome): Promise<boolean> {
    checkNames("outcome", outcome);
    const error = outcome.error === undefined ? {} : { error: printable(outcome.error) };
    try {
      const message = encode({ type: "outcome", id, ...outcome, ...error });
      if (await this.#outcomes.put(message)) {
        return true;
      }
      process.emitWarning(`the outcome of ${id} was not queued`);
    } catch (flaw) {
      if (!(flaw instanceof Malformed)) {
        throw flaw;
      }
      process.emitWarning(`the outcome of ${id} is malformed: ${flaw.message}`);
    }
    return false;
  }

  /** Send other telemetry once. Return true if the daemon recorded it. */
  async telemetry(message: Telemetry): Promise<boolean> {
    try {
      const payload = encode(message);
      const patienceMs = this.#deadlineS * 1000;
      return (await answerOnce(this.#link, "telemetry", payload, as(noted), patienceMs)).ok;
    } catch (error) {
      if (error instanceof Down || error instanceof Malformed) {
        return false;
      }
      throw error;
    }
  }

  /** Deliver queued outcomes, for at most 30 seconds, and disconnect. */
  async close(): Promise<void> {
    if (this.#open) {
      this.#open = false;
      await this.#outcomes.close();
      await this.#link.close();
      if (this.#outcomes.undelivered > 0) {
        process.emitWarning(`closed with ${this.#outcomes.undelivered} outcomes undelivered`);
      }
    }
    await this.#work;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Return an allow, claimed if necessary, or throw `Blocked`. */
  async #cleared(proposal: Proposal, options: CallOptions): Promise<Decision> {
    const decision = await this.propose(proposal, options);
    const expires = now() + lastsMs(decision);
    if (!decision.allowed) {
      throw new Blocked(decision);
    }
    if (decision.claim_required) {
      const claim = await this.claim(decision, options);
      if (!claim.granted) {
        const why = `an operator approved this, but the claim was refused: ${claim.reason}`;
        throw new Blocked(withdrawn(decision, claim.cause, why, `client.claim:${claim.cause}`));
      }
    }
    const obstacle = this.#obstacle(expires);
    if (obstacle !== undefined) {
      void this.telemetry({ type: "unreported", id: decision.id });
      throw new Blocked(withdrawn(decision, ...obstacle, `client.${obstacle[0]}`));
    }
    return decision;
  }

  /** Return the cause and reason why an allowed action must not begin now. */
  #obstacle(expires: number): [cause: string, reason: string] | undefined {
    if (this.stopped) {
      return ["stopped", "an emergency stop began before the action"];
    }
    if (!this.#open) {
      return ["unavailable", CLOSED];
    }
    return now() > expires ? ["unavailable", "the permission expired"] : undefined;
  }

  /** Return the cause and reason if the message must not be sent. */
  #refusal(said: Draft): [cause: string, reason: string] | undefined {
    if (said.flaw) {
      return ["malformed", said.flaw];
    }
    const off = disabled();
    if (off !== undefined) {
      return ["disabled", off];
    }
    return this.#open ? undefined : ["unavailable", CLOSED];
  }

  #patienceMs(said: Draft, options: CallOptions): number {
    const answerS = options.deadlineS ?? this.#deadlineS;
    return 1000 * (said.wait ? answerS + (said.timeoutS ?? OPERATOR_S) : answerS);
  }

  async #decision(said: Draft, ends: number): Promise<Decision> {
    try {
      // Guards that count errors need this agent's earlier outcomes before they decide. At least
      // half of the time is left for the proposal.
      await this.#outcomes.flush((ends - now()) / 2);
      const decision = await new ProposalExchange(this.#link, said).answer(ends - now());
      if (decision.allowed) {
        this.#stops.allowed();
      }
      return decision;
    } catch (error) {
      return refused(said, "unavailable", downReason(error));
    }
  }

  #query<T>(
    verb: string,
    message: object,
    understood: (data: Uint8Array) => T | undefined,
    options: CallOptions,
  ): Promise<T> {
    if (!this.#open) {
      throw new Down(CLOSED);
    }
    const patienceMs = 1000 * (options.deadlineS ?? this.#deadlineS);
    return answerTo(this.#link, verb, encode(message), understood, patienceMs);
  }
}

function as<T>(reader: Reader<T>): (data: Uint8Array) => T | undefined {
  return (data) => read(data, reader);
}

/** Read the answer to a claim. Throw `Down` if the daemon cannot answer now. */
function readClaim(data: Uint8Array): Claim | undefined {
  const claim = read(data, claimed);
  if (claim?.granted === false && claim.cause === "unavailable") {
    throw new Down(claim.reason);
  }
  return claim;
}

function downReason(error: unknown): string {
  if (error instanceof Down) {
    return error.message;
  }
  throw error;
}

function endsBefore(decision: Decision, ends: number): boolean {
  return decision.cause === "rate_limit" && decision.retry_after_s !== null
    && now() + decision.retry_after_s * 1000 < ends;
}

function errorOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : reasonOf(error);
}

/** Return a text shortened and cleaned, so that the daemon does not reject the outcome. */
function printable(text: string): string {
  const clean = String(text).replaceAll("\0", "").toWellFormed();
  return [...clean].slice(0, MAX_ERROR_CHARS).join("");
}
