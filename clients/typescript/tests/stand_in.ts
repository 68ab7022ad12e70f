/** A stand-in for the daemon on a real bus, with answers that a test chooses. */

import { connect, headers } from "@nats-io/transport-node";
import type { Msg, NatsConnection } from "@nats-io/transport-node";

import { digestOf } from "../src/digest.js";

export type Fields = Record<string, unknown>;
type Answer = (asked: Fields, msg: Msg) => Fields | string | undefined;

export class StandIn {
  /** What was sent, by verb. */
  readonly heard: Record<string, Fields[]> = { propose: [], claim: [], telemetry: [] };
  answers: Record<string, Answer> = {
    propose: (asked) => allow(asked),
    claim: () => ({ granted: true, cause: "human_approved", reason: "" }),
    telemetry: () => ({ ok: true }),
  };

  private constructor(readonly nats: NatsConnection) {}

  static async on(url: string): Promise<StandIn> {
    const daemon = new StandIn(await connect({ servers: url, reconnect: false }));
    for (const verb of Object.keys(daemon.answers)) {
      daemon.nats.subscribe(`safety.v1.${verb}.*`, {
        callback: (_, msg) => daemon.#answer(verb, msg),
      });
    }
    await daemon.nats.flush();
    return daemon;
  }

  /** Publish a `state.stop` message; without `genuine`, as a client could send it. */
  stop(active: boolean, { genuine = true, agent = null as string | null } = {}): void {
    const notice = headers();
    notice.set("Safetyd-Notice", "1");
    const state = { active, epoch: 7, reason: "", by: "alice", since: "", agent };
    const options = genuine ? { headers: notice } : {};
    this.nats.publish("safety.v1.state.stop", JSON.stringify(state), options);
  }

  #answer(verb: string, msg: Msg): void {
    const asked = msg.json<Fields>();
    this.heard[verb]?.push(asked);
    const answer = this.answers[verb]?.(asked, msg);
    if (msg.reply && answer !== undefined) {
      msg.respond(typeof answer === "string" ? answer : JSON.stringify(answer));
    }
  }
}

/** Return an allow for a proposal of the agent `code`. */
export function allow(asked: Fields, changes: Fields = {}): Fields {
  const digest = digestOf("code", JSON.stringify(asked));
  return { id: asked["id"], agent: "code", decision: "allow", digest, ...changes };
}
