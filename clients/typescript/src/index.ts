/**
 * The TypeScript client of safetyd: propose an action, act only if it is allowed, report its
 * outcome.
 */

export { digestOf } from "./digest.js";
export { Blocked } from "./errors.js";
export type {
  Claim, Decision, Observation, Opinion, Outcome, OwnRequest, PermissionAsk, PermissionResult,
  Proposal, Reversibility, Risk, Scores, Target, Telemetry, Tokens, Urgency, Verdict,
} from "./messages.js";
export { connect, Safety } from "./safety.js";
export type { CallOptions, ClaimOptions, Options } from "./safety.js";
