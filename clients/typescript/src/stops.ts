/** The emergency stops that apply to this agent. */

import { stop } from "./messages.js";
import type { Telemetry } from "./messages.js";
import { read } from "./shape.js";

/**
 * Active stops: one for all agents and one for this agent. Each ends separately.
 *
 * A stop may end while the client is disconnected. After a reconnection, an allow proves that it
 * ended.
 */
export class StopState {
  readonly #epochs = new Map<string | null, number>();
  #earlier = new Set<string | null>();

  constructor(private readonly agent: string) {}

  get active(): boolean {
    return this.#epochs.size > 0;
  }

  /** Record a `state.stop` message. Return the acknowledgement if it starts a stop. */
  hear(data: Uint8Array): Telemetry | undefined {
    const state = read(data, stop);
    if (state === undefined || (state.agent !== null && state.agent !== this.agent)) {
      return undefined;
    }
    this.#earlier.delete(state.agent);
    if (!state.active) {
      this.#epochs.delete(state.agent);
      return undefined;
    }
    this.#epochs.set(state.agent, state.epoch);
    return { type: "heartbeat", stop_epoch: state.epoch };
  }

  heartbeat(): Telemetry {
    if (!this.active) {
      return { type: "heartbeat" };
    }
    return { type: "heartbeat", stop_epoch: Math.max(...this.#epochs.values()) };
  }

  reconnected(): void {
    this.#earlier = new Set(this.#epochs.keys());
  }

  /** End every stop from before the reconnection, because an action was allowed. */
  allowed(): void {
    for (const scope of this.#earlier) {
      this.#epochs.delete(scope);
    }
    this.#earlier.clear();
  }
}
