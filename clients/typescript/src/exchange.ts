/**
 * Send a message to the daemon until its answer arrives.
 *
 * Retries are safe. The daemon decides a proposal or permission request once for each id. Repeated
 * claims and queries get the same answer.
 */

import type { AgentConnection, Heard, Listener } from "./connection.js";
import { newId } from "./draft.js";
import type { Draft } from "./draft.js";
import { Down, Lost, NotNow, Unheard } from "./errors.js";
import { decided, decision, permitted, refusal } from "./messages.js";
import type { Decision, PermissionResult } from "./messages.js";
import { read } from "./shape.js";
import { growing, now, sleep } from "./signal.js";

// The server may lose messages while it loads a changed key. The first retry is after this time,
// and the interval doubles with each retry.
const SILENCE_MS = 500;
// On a cluster the interval stays this short, because another daemon may have taken over.
const CLUSTER_SILENCE_MS = 1000;
// A restarted daemon no longer knows the reply subject of a pending request, so the client sends it
// again. This must be less than two minutes: after that the bus drops replies.
const REPEAT_MS = 60_000;
// The pauses before a message is sent again that no daemon received or answered.
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 500;
// How often the server may reply "no responders" after the daemon answered on this connection. This
// takes about a second. On a cluster there is no limit.
const MAX_GAPS = 5;
// How long to wait for the reply after the decision was announced on the decision subject.
const BEHIND_MS = 500;
// How long to wait after a request's deadline for the daemon to say that the request expired.
const GRACE_MS = 2000;
const AGAIN_MS = 500;

/**
 * A proposal or permission request that is sent until it is answered.
 *
 * It is sent again under the same id after silence or a broken connection, and the daemon decides
 * it once. While it needs approval, it is sent again every minute.
 */
abstract class Exchange<A> {
  protected abstract readonly verb: string;
  protected abstract readonly noun: string;
  protected announced = false;
  #taken = false; // the daemon may have received it
  #pending: Decision | undefined;
  #silenceMs = SILENCE_MS;
  #gaps = 0;
  #ends = 0;
  #down: Down | undefined; // why the last attempt failed
  readonly #pauses = growing(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);

  constructor(protected readonly link: AgentConnection, protected readonly draft: Draft) {}

  /**
   * Return the answer; with `wait`, the final one. Throw `Down` as soon as it is certain that no
   * daemon receives the message. On a cluster, the message is sent again until `patienceMs` ends,
   * because another daemon may take over. With `wait`, a request that the daemon may have received is
   * retried until `patienceMs` ends, because an operator may be about to answer it.
   */
  async answer(patienceMs: number): Promise<A> {
    this.#ends = now() + patienceMs;
    const listener = this.link.listen(this.draft.id);
    try {
      while (now() < this.#ends) {
        const answer = await this.#tried(listener);
        if (answer !== undefined) {
          return answer;
        }
      }
    } finally {
      this.link.forget(listener);
    }
    if (this.#pending !== undefined) {
      return this.unanswered(this.#pending);
    }
    const tried = `${Math.round(patienceMs / 100) / 10} s`;
    if (this.#down !== undefined) {
      throw new Down(`${this.#down.message}; tried for ${tried}`);
    }
    const silence = `no answer to this ${this.noun} within ${tried}`;
    throw new Down(`${silence} from ${this.link.where}; check \`safetyd status\``);
  }

  /** Return the final answer, or record an interim one and return undefined. */
  protected abstract heard(heard: Heard): A | undefined;

  /** Return the result for a request that is still pending when the time is up. */
  protected abstract unanswered(pending: Decision): A;

  protected note(pending: Decision): void {
    this.#taken = true;
    if (this.#pending === undefined && this.draft.wait && !this.draft.timeoutS) {
      this.#ends = now() + lastsMs(pending) + GRACE_MS;
    }
    this.#pending = pending;
  }

  /** Throw `Down` if the request is pending and the daemon is unavailable at the moment. */
  protected checkOpen(cause: string, reason: string): void {
    if (cause === "unavailable" && this.draft.wait && this.#taken) {
      throw new Down(reason);
    }
  }

  /** Return the decision if it is about exactly this proposal. */
  protected own(data: Uint8Array): Decision | undefined {
    const said = read(data, decision);
    const { agent, id, digest } = this.draft;
    if (said?.agent !== agent || said.id !== id || said.digest !== digest) {
      return undefined;
    }
    const contradictory = said.allowed && (said.status === "pending" || said.retry);
    return contradictory ? undefined : said;
  }

  async #tried(listener: Listener): Promise<A | undefined> {
    try {
      const answer = await this.#asked(listener);
      this.#taken = true;
      this.#down = undefined;
      return answer;
    } catch (error) {
      if (error instanceof Lost) {
        this.#taken = true;
        return undefined;
      }
      if (!(error instanceof Down) || !this.#outlasts(error)) {
        throw error;
      }
      this.#down = error;
      await sleep(Math.min(this.#pauses.next().value, this.#ends - now()));
      return undefined;
    }
  }

  async #asked(listener: Listener): Promise<A | undefined> {
    await this.link.send(this.verb, this.draft.payload, listener, this.#ends);
    this.announced = false;
    const began = now();
    let turnEnds = began + Math.min(this.#silenceMs, REPEAT_MS);
    while (now() < Math.min(turnEnds, this.#ends)) {
      const heard = await listener.next(Math.min(turnEnds, this.#ends));
      const answer = heard === undefined ? undefined : this.heard(heard);
      if (answer !== undefined) {
        return answer;
      }
      if (this.announced) {
        turnEnds = Math.min(turnEnds, now() + BEHIND_MS);
      } else if (this.#pending !== undefined) {
        turnEnds = began + REPEAT_MS;
      }
    }
    this.#silenceMs *= 2;
    if (this.link.clustered) {
      this.#silenceMs = Math.min(this.#silenceMs, CLUSTER_SILENCE_MS);
      this.link.doubt();
    }
    return undefined;
  }

  #outlasts(down: Down): boolean {
    if (this.link.retries(down) || (this.draft.wait && this.#taken)) {
      return true;
    }
    this.#gaps += 1;
    return down instanceof Unheard && this.link.answered && this.#gaps <= MAX_GAPS;
  }
}

export class ProposalExchange extends Exchange<Decision> {
  protected override readonly verb = "propose";
  protected override readonly noun = "proposal";

  protected override heard({ data, published }: Heard): Decision | undefined {
    const own = this.own(data) ?? (published ? undefined : this.#rejected(data));
    if (own === undefined) {
      return undefined;
    }
    if (own.retry) {
      if (published) {
        return undefined; // the direct reply says the same
      }
      throw new NotNow(own.reason);
    }
    if (own.status === "pending" && this.draft.wait) {
      this.note(own);
      return undefined;
    }
    this.checkOpen(own.cause, own.reason);
    if (published && own.cause === "human_approved") {
      // Only the direct reply grants the approval; other instances also see this notice.
      this.announced = true;
      return undefined;
    }
    return own;
  }

  protected override unanswered(pending: Decision): Decision {
    return pending;
  }

  /** Return the block for a message that the daemon cannot read. It has no digest. */
  #rejected(data: Uint8Array): Decision | undefined {
    const said = read(data, decision);
    const { agent, id, digest } = this.draft;
    if (said?.decision !== "block" || said.cause !== "malformed" || said.agent !== agent) {
      return undefined;
    }
    return said.digest === "" ? decided({ ...said, id, digest }) : undefined;
  }
}

export class PermissionExchange extends Exchange<PermissionResult> {
  protected override readonly verb = "permission";
  protected override readonly noun = "permission request";

  protected override heard({ data, published }: Heard): PermissionResult | undefined {
    if (!published) {
      checkNow(data);
      const result = read(data, permitted);
      if (result?.status === "denied") {
        this.checkOpen(result.cause, result.reason);
      }
      return result;
    }
    const own = this.own(data);
    if (own?.status === "pending") {
      this.note(own);
    } else if (own !== undefined) {
      this.announced = true;
    }
    return undefined;
  }

  protected override unanswered(pending: Decision): PermissionResult {
    return { status: "queued", request_id: pending.request_id ?? "" };
  }
}

/** Return how long a decision is valid, computed only from the daemon's times. */
export function lastsMs(said: Decision): number {
  if (said.expires_at === null || said.at === null) {
    return Infinity;
  }
  return Date.parse(said.expires_at) - Date.parse(said.at);
}

/** Throw `NotNow` if an answer asks to send the message again. */
function checkNow(data: Uint8Array): void {
  const said = read(data, refusal);
  if (said?.retry) {
    throw new NotNow(said.reason || said.error);
  }
}

/** Send a query until `understood` accepts an answer. Throw `Down` if none arrives in time. */
export async function answerTo<T>(
  link: AgentConnection,
  verb: string,
  payload: string,
  understood: (data: Uint8Array) => T | undefined,
  patienceMs: number,
): Promise<T> {
  const ends = now() + patienceMs;
  const listener = link.listen(newId());
  const pauses = growing(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
  let why = `no answer to this ${verb} message within ${patienceMs / 1000} s from ${link.where}`;
  try {
    while (now() < ends) {
      try {
        await link.send(verb, payload, listener, ends);
        const answer = await firstAnswer(listener, understood, Math.min(now() + AGAIN_MS, ends));
        if (answer !== undefined) {
          return answer;
        }
        link.doubt();
      } catch (error) {
        if (!(error instanceof Down)) {
          throw error;
        }
        why = error.message;
        await sleep(Math.min(pauses.next().value, ends - now()));
      }
    }
  } finally {
    link.forget(listener);
  }
  throw new Down(why);
}

/**
 * Send a message and return the answer. Throw `Down` if none arrives in time. On a cluster it is
 * sent again, but only if it is certain that no daemon recorded it.
 */
export async function answerOnce<T>(
  link: AgentConnection,
  verb: string,
  payload: string,
  understood: (data: Uint8Array) => T | undefined,
  patienceMs: number,
): Promise<T> {
  const ends = now() + patienceMs;
  const listener = link.listen(newId());
  const pauses = growing(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
  let why = `${link.where} did not acknowledge within ${patienceMs / 1000} s`;
  try {
    while (now() < ends) {
      try {
        await link.send(verb, payload, listener, ends);
        const answer = await firstAnswer(listener, understood, ends);
        if (answer !== undefined) {
          return answer;
        }
      } catch (error) {
        if (!(error instanceof Down) || error instanceof Lost || !link.retries(error)) {
          throw error;
        }
        why = `${error.message}; tried for ${patienceMs / 1000} s`;
        await sleep(Math.min(pauses.next().value, ends - now()));
      }
    }
    throw new Down(why);
  } finally {
    link.forget(listener);
  }
}

async function firstAnswer<T>(
  listener: Listener,
  understood: (data: Uint8Array) => T | undefined,
  ends: number,
): Promise<T | undefined> {
  while (now() < ends) {
    const heard = await listener.next(ends);
    if (heard !== undefined) {
      checkNow(heard.data);
    }
    const answer = heard === undefined ? undefined : understood(heard.data);
    if (answer !== undefined) {
      return answer;
    }
  }
  return undefined;
}
