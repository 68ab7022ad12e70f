/** A queue of outcomes, oldest first. Each is sent until the daemon acknowledges it. */

import type { AgentConnection } from "./connection.js";
import { answerOnce } from "./exchange.js";
import { Down } from "./errors.js";
import { noted } from "./messages.js";
import { read } from "./shape.js";
import { growing, now, Signal } from "./signal.js";

const CAPACITY = 1024;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 1000;
/** The longest time that a proposal waits for earlier outcomes. */
const LONGEST_FLUSH_MS = 1000;
// On `close`, the client waits this long for the next delivered outcome, and for all of them.
const NEXT_DELIVERY_MS = 2000;
const ALL_DELIVERIES_MS = 30_000;

export class OutcomeQueue {
  readonly #queue: string[] = [];
  readonly #changed = new Signal();
  readonly #paused = new Signal();
  #delivered = 0;
  #troubled = false; // the last attempt failed
  #closing = false;
  #closed = false;

  constructor(
    private readonly link: AgentConnection,
    private readonly deadlineMs: number,
  ) {}

  /** The number of outcomes that are not yet acknowledged. */
  get undelivered(): number {
    return this.#queue.length;
  }

  /** Queue an outcome. Return false if the queue is closed, or stays full until the deadline. */
  async put(outcome: string): Promise<boolean> {
    const ends = now() + this.deadlineMs;
    while (this.#queue.length >= CAPACITY && !this.#closing && now() < ends) {
      await this.#changed.until(ends);
    }
    if (this.#closing || this.#queue.length >= CAPACITY) {
      return false;
    }
    this.#queue.push(outcome);
    this.#changed.notify();
    return true;
  }

  /** Wait until all queued outcomes are delivered, an attempt fails, or time is up. */
  async flush(patienceMs: number): Promise<void> {
    const ends = now() + Math.min(patienceMs, LONGEST_FLUSH_MS);
    const wanted = this.#delivered + this.#queue.length;
    while (this.#delivered < wanted && !this.#troubled && now() < ends) {
      await this.#changed.until(ends);
    }
  }

  /** Accept no more outcomes, and wait until the queued ones are delivered or time is up. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#changed.notify();
    const ends = now() + ALL_DELIVERIES_MS;
    let patient = now() + NEXT_DELIVERY_MS;
    let left = this.#queue.length;
    while (this.#queue.length > 0 && now() < Math.min(ends, patient)) {
      await this.#changed.until(Math.min(ends, patient));
      if (this.#queue.length < left) {
        left = this.#queue.length;
        patient = now() + NEXT_DELIVERY_MS;
      }
    }
    this.#closed = true;
    this.#changed.notify();
    this.#paused.notify();
  }

  async run(): Promise<void> {
    while (!this.#closed) {
      const outcome = this.#queue[0];
      if (outcome === undefined) {
        await this.#changed.until(Infinity);
      } else if (await this.#deliver(outcome)) {
        this.#queue.shift();
        this.#delivered += 1;
        this.#changed.notify();
      }
    }
  }

  /** Send an outcome until it is acknowledged. Return false if the queue is closed before. */
  async #deliver(outcome: string): Promise<boolean> {
    const pauses = growing(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    while (!this.#closed) {
      this.#troubled = !(await this.#acknowledged(outcome));
      if (!this.#troubled) {
        return true;
      }
      this.#changed.notify();
      await this.#paused.until(now() + pauses.next().value);
    }
    return false;
  }

  /** Return true if the daemon recorded the outcome, or will never accept it. */
  async #acknowledged(outcome: string): Promise<boolean> {
    try {
      const understood = (data: Uint8Array) => read(data, noted);
      const answer = await answerOnce(this.link, "telemetry", outcome, understood, this.deadlineMs);
      if (answer.code === "malformed") {
        process.emitWarning(`safetyd rejected an outcome: ${answer.error}`);
        return true;
      }
      return answer.ok;
    } catch (error) {
      if (error instanceof Down) {
        return false;
      }
      throw error;
    }
  }
}
