/** The errors of the client. Callers see only `Blocked`, and `TypeError` for wrong arguments. */

import type { Decision } from "./messages.js";

/** The body of a `guard` did not run: the action is blocked or still needs approval. */
export class Blocked extends Error {
  override readonly name = "Blocked";

  constructor(readonly decision: Decision) {
    const { status, request_id: request } = decision;
    const said = decision.reason || decision.cause;
    super(status === "pending" ? `needs approval (${request}): ${said}` : said);
  }
}

/** A value violates the protocol. The text names it. */
export class Malformed extends Error {}

/** The daemon cannot be reached. The text says why and how to fix it. */
export class Down extends Error {}

/** The agent's key cannot be used, or the bus does not accept the agent without a key. */
export class KeyRejected extends Down {}

/** The connection broke after a message was sent on it. */
export class Lost extends Down {}

/** The daemon cannot answer now, and says that the message should be sent again. */
export class NotNow extends Down {}

/** The server replied that no daemon is subscribed. */
export class Unheard extends Down {}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
